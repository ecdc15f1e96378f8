"""The machine as one JSON object, `zonewise show -o json`.

The object is a mechanical translation of the NamedTuples of zonewise.machine.model. Every field keeps its name, so no
type needs a second description. CPU sets are the kernel's list strings, memory is in bytes, and an unknown fact is
null.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.problem import Source

    Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

SCHEMA = "zonewise.dev/machine/v1"

_RENAMED = {"pci_class": "class"}
"""Fields whose JSON name is a reserved word in Python."""
_LEFT_OUT = frozenset({"builtin_modules", "config_lines"})
"""Fields with thousands of words, which only rules use."""


def machine_to_json(machine: Machine, sources: Mapping[str, Source] | None = None) -> dict[str, Any]:
    """Return the machine as JSON values: dicts, lists, strings, numbers, booleans and None.

    `sources` maps the path of each fact ("zones.1.memory") to its source; if set, it becomes the key "sources".
    """
    document: dict[str, Any] = {"schema": SCHEMA, **cast("dict[str, Any]", plain(machine))}
    if sources is not None:
        document["sources"] = {_text(fact): plain(source) for fact, source in sources.items()}
    return document


def render_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON text that ends in a newline: ASCII, one line per list element.

    The C encoder writes a whole line at once; `json.dumps(indent=...)` runs in Python and is ten times slower.
    """
    from json import JSONEncoder

    encode = JSONEncoder(allow_nan=False).encode
    lines = [f" {encode(key)}: {_block(value, encode)}" for key, value in document.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _block(value: Json, encode: Callable[[Json], str]) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join([encode(element) for element in value]) + "\n ]"
    if isinstance(value, dict) and value:
        return "{\n  " + ",\n  ".join([f"{encode(key)}: {encode(part)}" for key, part in value.items()]) + "\n }"
    return encode(value)


def plain(value: object) -> Json:
    """Return any value made of NamedTuples, CPU sets, sequences and dicts as JSON values."""
    kind = value.__class__
    translate = _translations.get(kind)
    if translate is None:
        translate = _translations[kind] = _translation(kind)
    return translate(value)


def _translation(kind: type) -> Callable[[Any], Json]:
    """Return the function that translates a type: a NamedTuple becomes an object, any other sequence a list."""
    fields: tuple[str, ...] | None = getattr(kind, "_fields", None)
    if fields is None:
        return lambda value: [plain(element) for element in value]
    names = {_RENAMED.get(name, name): index for index, name in enumerate(fields) if name not in _LEFT_OUT}
    if len(names) < len(fields):
        return lambda value: {name: plain(value[index]) for name, index in names.items()}
    return lambda value: dict(zip(names, map(plain, value), strict=True))


def _same(value: Json) -> Json:
    return value


def _text(text: str) -> str:
    """Return text that every JSON parser accepts: lone surrogates, as in a damaged file name, are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


_translations: dict[type, Callable[[Any], Json]] = {
    type(None): _same,
    bool: _same,
    int: _same,
    str: _text,
    float: lambda value: value if math.isfinite(value) else None,
    CpuSet: str,
    dict: lambda value: {_text(key): plain(part) for key, part in value.items()},
}
