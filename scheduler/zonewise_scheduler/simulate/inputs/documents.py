"""Files of YAML and JSON, and directories of them, as plain values.

Of YAML only what JSON has too is made: times stay text, and keys become text, as in sigs.k8s.io/yaml.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from zonewise_scheduler.simulate.inputs.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import yaml

Json = dict[str, Any]

_ENDINGS = (".yaml", ".yml", ".json")
_TIME = "tag:yaml.org,2002:timestamp"


class Document(NamedTuple):
    """An object, and the file that it is in."""

    where: str
    given: Json

    @property
    def kind(self) -> str:
        """Return the kind of an object of an API; "" where it says none."""
        kind: object = self.given.get("kind")
        return kind if isinstance(kind, str) else ""


def read_documents(path: Path) -> list[Document]:
    """Return the objects of a file, or of all files of a directory by name; those of a List are objects each.

    Raises InputError for a file that cannot be read, and for what is neither YAML nor JSON of objects.
    """
    try:
        files = sorted(one for one in path.iterdir() if one.suffix in _ENDINGS) if path.is_dir() else [path]
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error
    return [Document(str(file), one) for file in files for one in _objects(_values(file), str(file))]


def _values(file: Path) -> list[object]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(str(file), f"cannot be read: {error.strerror}") from error
    try:
        if content.lstrip()[:1] in {b"{", b"["}:
            return [msgspec.json.decode(content)]
        return _yaml(content.decode())
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(str(file), f"neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from error


def _yaml(text: str) -> list[object]:
    """Return the documents of YAML; raise ValueError."""
    import yaml

    try:
        return list(yaml.load_all(text, _loader()))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    # the loader in C is part of PyYAML's wheels, not of every distribution's package
    base = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    class Loader(base):
        yaml_implicit_resolvers = {  # noqa: RUF012 -- it is so declared in PyYAML
            first: [(tag, pattern) for tag, pattern in ways if tag != _TIME]
            for first, ways in base.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            return {str(key): value for key, value in super().construct_mapping(node, deep).items()}

    return Loader


def _objects(values: list[object], where: str) -> Iterator[Json]:
    for value in values:
        if isinstance(value, dict) and isinstance(cast("Json", value).get("items"), list):
            yield from _each(cast("Json", value)["items"], where)
        elif isinstance(value, list):
            yield from _each(cast("list[object]", value), where)
        elif value is not None:
            yield from _each([value], where)


def _each(values: list[object], where: str) -> Iterator[Json]:
    for value in values:
        if not isinstance(value, dict):
            raise InputError(where, f"must hold objects: {value!r:.80}")
        yield cast("Json", value)
