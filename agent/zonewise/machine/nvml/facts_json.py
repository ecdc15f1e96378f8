"""Converts NvmlFacts to one line of JSON, and back with every type checked: a text may be from a damaged capture."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args, get_origin

if TYPE_CHECKING:
    from zonewise.machine.nvml.facts import NvmlFacts

    Kind: TypeAlias = Any  # a class, or an object that the typing module makes from classes
    Json: TypeAlias = Any

CAPTURED = "zonewise/nvml.json"
"""The path of the facts in a capture, below its root."""

_MAX_BITS = 64


def to_json(facts: NvmlFacts) -> str:
    """Return the facts as one line of JSON, without None and empty values."""
    import json

    return json.dumps(_plain(facts), separators=(",", ":"))


def from_json(text: str) -> NvmlFacts:
    """Return the facts in a JSON text; raise ValueError if any part of it is invalid.

    Unknown names are skipped, as a later version may have written them.
    """
    import json

    from zonewise.machine.nvml.facts import NvmlFacts

    try:
        return cast("NvmlFacts", _checked(NvmlFacts, json.loads(text), "the document"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def _plain(value: Json) -> Json:
    if not isinstance(value, tuple):
        return value
    parts = [_plain(part) for part in cast("tuple[Json, ...]", value)]
    names: tuple[str, ...] | None = getattr(cast("object", value), "_fields", None)
    if names is None:
        return parts
    return {name: part for name, part in zip(names, parts, strict=True) if part is not None and part not in ([], {})}


def _checked(kind: Kind, value: Json, where: str) -> Json:
    """Return a JSON value as the type of a field; raise ValueError for a value of another type."""
    if get_origin(kind) is UnionType:
        return None if value is None else _checked(next(k for k in get_args(kind) if k is not NoneType), value, where)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_checked(get_args(kind)[0], part, where) for part in cast("list[Json]", value))
    if get_origin(kind) is dict and isinstance(value, dict):
        return {str(key): _checked(str, part, where) for key, part in cast("dict[str, Json]", value).items()}
    if hasattr(kind, "_fields") and isinstance(value, dict):
        return _checked_fields(kind, cast("dict[str, Json]", value), where)
    # bool is a subclass of int, but True is not a number here
    if type(value) is not kind or (kind is int and value.bit_length() > _MAX_BITS):
        raise ValueError(f"{where} is {str(value)[:60]!r}")
    return value


def _checked_fields(kind: Kind, value: dict[str, Json], where: str) -> Json:
    missing = [name for name in kind._fields if name not in value and name not in kind._field_defaults]
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}")
    names = [name for name in kind._fields if name in value]
    return kind(**{name: _checked(kind.__annotations__[name], value[name], name) for name in names})
