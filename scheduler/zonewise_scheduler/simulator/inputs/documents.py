"""Files of YAML and JSON, and directories of them, as plain values.

Of YAML only what JSON has too is made: times stay text, and keys become text, as in sigs.k8s.io/yaml.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.source_files import is_directory, open_source, source_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

Json = dict[str, Any]

_ENDINGS = (".yaml", ".yml", ".json")
_BRACKET = re.compile(r"[\[\]{}]")
_INDENT = re.compile(r"^[ \t?-]+", re.MULTILINE)
_MOST_DEPTH = 1000
"""libyaml's loader goes down with the whole process where its stack ends."""
_TIME = "tag:yaml.org,2002:timestamp"


class Document(NamedTuple):
    """An object, and the file that it is in."""

    where: str
    content: Json

    @property
    def kind(self) -> str:
        """Return the kind of an object of an API; "" where it says none."""
        kind: object = self.content.get("kind")
        return kind if isinstance(kind, str) else ""


def read_documents(source: str) -> list[Document]:
    """Return the objects of a file or of standard input ("-"), or of all files of a directory by name.

    Those of a List are objects each. Raises InputError for a file that cannot be read, and for what is neither YAML
    nor JSON of objects.
    """
    if not is_directory(source):
        with open_source(source) as file:
            return parse_documents(file.read(), source_name(source))
    try:
        files = sorted(str(one) for one in Path(source).iterdir() if one.suffix in _ENDINGS)
    except OSError as error:
        raise InputError(source, f"cannot be read: {error.strerror}") from error
    if not files:
        raise InputError(source, f"there is no file in it that ends in {', '.join(_ENDINGS)}")
    return [one for file in files for one in read_documents(file)]


def parse_documents(content: bytes, where: str) -> list[Document]:
    """Return the objects of a text; raise InputError for what is neither YAML nor JSON of objects."""
    try:
        values = _json(content) or _yaml(content.decode())
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(where, f"neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from error
    return [Document(where, one) for one in _objects(values, where)]


def _json(content: bytes) -> list[object]:
    """Return the one document of JSON; nothing where it is none: YAML in braces may be."""
    try:
        return [msgspec.json.decode(content)]
    except (ValueError, RecursionError):
        return []


def _yaml(text: str) -> list[object]:
    """Return the documents of YAML; raise ValueError."""
    import yaml

    if _depth(text) > _MOST_DEPTH:
        raise ValueError(f"more than {_MOST_DEPTH} levels deep")
    try:
        return list(yaml.load_all(text, _loader()))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _depth(text: str) -> int:
    """Return how deep YAML is nested at most, by its brackets and its indentation."""
    steps = (1 if one in "[{" else -1 for one in _BRACKET.findall(text))
    return max(max(accumulate(steps), default=0), max(map(len, _INDENT.findall(text)), default=0))


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
