"""Reads YAML and JSON files, and directories of them, as plain values.

YAML yields only JSON types: times remain text and keys become text, as in sigs.k8s.io/yaml.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from zonewise_common.k8s.yaml_document import check_aliases
from zonewise_scheduler.simulator.inputs.source_files import InputError, is_directory, open_source, source_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

Json = dict[str, Any]

SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of the files of a directory that are read."""
_BRACKET = re.compile(r"[\[\]{}]")
_INDENT = re.compile(r"^[ \t?-]+", re.MULTILINE)
_MAX_DEPTH = 1000
"""Maximum depth of a document, since a stack overflow in libyaml's loader crashes the process."""
_TIME = "tag:yaml.org,2002:timestamp"


class Document(NamedTuple):
    """An object and its file."""

    where: str
    content: Json

    @property
    def kind(self) -> str:
        """Return the kind of an API object; "" if it has none."""
        kind: object = self.content.get("kind")
        return kind if isinstance(kind, str) else ""


def read_documents(source: str) -> list[Document]:
    """Return the objects of a file, of standard input ("-"), or of all files of a directory in order of name.

    Each item of a List is an object. Raises InputError for an unreadable file, and for text that does not contain
    objects in YAML or JSON.
    """
    if not is_directory(source):
        with open_source(source) as file:
            return parse_documents(file.read(), source_name(source))
    files = document_files(source)
    return [file_path for file in files for file_path in read_documents(file)]


def document_files(directory: str) -> list[str]:
    """Return the files of a directory that may hold objects, in order of name. Raises InputError."""
    try:
        files = sorted(str(file_path) for file_path in Path(directory).iterdir() if file_path.suffix in SUFFIXES)
    except OSError as error:
        raise InputError(directory, f"cannot be read: {error.strerror}") from error
    if not files:
        raise InputError(directory, f"it contains no file that ends with {', '.join(SUFFIXES)}")
    return files


def parse_documents(content: bytes, where: str) -> list[Document]:
    """Return the objects in a text. Raises InputError for text that does not contain objects in YAML or JSON."""
    try:
        values = _json(content) or _yaml(content.decode())
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(where, f"neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from error
    return [Document(where, value) for value in _objects(values, where)]


def _json(content: bytes) -> list[object]:
    """Return the JSON document; an empty list if the text is not JSON, since YAML may begin with a brace too."""
    try:
        return [msgspec.json.decode(content)]
    except (ValueError, RecursionError):
        return []


def _yaml(text: str) -> list[object]:
    """Return the YAML documents. Raises ValueError."""
    import yaml

    if _depth(text) > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} levels deep")
    try:
        values: list[object] = list(yaml.load_all(text, _loader()))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except (LookupError, AttributeError) as error:  # from PyYAML's constructors
        raise ValueError(f"a value is not of its tag: {error}") from error
    if "*" in text:
        check_aliases(values)
    return values


def _depth(text: str) -> int:
    """Return an upper bound on the nesting of YAML, from its brackets and indentation."""
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(text))
    return max(max(accumulate(steps), default=0), max(map(len, _INDENT.findall(text)), default=0))


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    # the C loader is part of PyYAML's wheels, but not of every distribution's package
    base = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    class Loader(base):
        yaml_implicit_resolvers = {  # noqa: RUF012 -- as PyYAML declares it
            first: [(tag, pattern) for tag, pattern in ways if tag != _TIME]
            for first, ways in base.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            return {str(key): value for key, value in super().construct_mapping(node, deep).items()}

    return Loader


def _objects(values: list[object], where: str) -> Iterator[Json]:
    for value in values:
        if isinstance(value, dict) and isinstance(cast("Json", value).get("items"), list):
            yield from _checked(cast("Json", value)["items"], where)
        elif isinstance(value, list):
            yield from _checked(cast("list[object]", value), where)
        elif value is not None:
            yield from _checked([value], where)


def _checked(values: list[object], where: str) -> Iterator[Json]:
    for value in values:
        if not isinstance(value, dict):
            raise InputError(where, f"must contain objects: {value!r:.80}")
        yield cast("Json", value)
