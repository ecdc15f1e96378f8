"""Misses as JSON, so that each can be kept and replayed: what was promised, on what grounds, and what came of it.

Values are objects by the names of their fields, tuples are arrays. An integer beyond 53 bits, of which other readers of
JSON would lose digits (a set of CPUs), is a text: "0x...".
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Union, cast, get_args, get_origin, get_type_hints

from zonewise_scheduler.admission.admit import admit as kubelet_admits
from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState
from zonewise_scheduler.nodes.assumed.types import Misprediction

if TYPE_CHECKING:
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.assumed.types import Admit

_EXACT = 1 << 53


class CaseError(ValueError):
    """A text is no case; the message names the field and its value."""


def case_json(misprediction: Misprediction) -> str:
    """Return a miss as JSON."""
    return json.dumps(_written(misprediction), indent=1)


def read_case(text: str) -> Misprediction:
    """Return the miss that case_json() wrote; raise CaseError for anything else."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CaseError(f"not JSON: {error}") from error
    return cast("Misprediction", _read(value, Misprediction, "case"))


def replay(misprediction: Misprediction, admit: Admit = kubelet_admits) -> Verdict:
    """Return what would be promised now on the grounds of then: miss.foretold, unless the rules have changed."""
    return AssumedState.from_shapes(misprediction.state, misprediction.ahead, admit).assume(misprediction.shape, admit)[
        0
    ]


def _written(value: object) -> object:
    if isinstance(value, bool | float | str | None):
        return value
    if isinstance(value, int):
        return value if abs(value) < _EXACT else hex(value)
    names = _names(type(value))
    if names:
        return {name: _written(getattr(value, name)) for name in names}
    return [_written(each) for each in cast("tuple[object, ...]", value)]


def _names(kind: object) -> tuple[str, ...]:
    """Return the fields of a dataclass or a NamedTuple; none for other types."""
    made = cast("Any", kind)
    return tuple(field.name for field in fields(made)) if is_dataclass(made) else getattr(made, "_fields", ())


@lru_cache
def _types(kind: object) -> dict[str, object]:
    return get_type_hints(kind)


def _read(value: object, kind: object, at: str) -> object:
    """Return a value of a type by its annotation: the way back from _written()."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        (some,) = (part for part in get_args(kind) if part is not type(None))
        return None if value is None else _read(value, some, at)
    if origin is tuple:
        return _tuple(value, get_args(kind), at)
    if _names(kind):
        return _record(value, kind, at)
    return _plain(value, kind, at)


def _plain(value: object, kind: object, at: str) -> object:
    if kind is int and isinstance(value, str):
        try:
            return int(value, 16)
        except ValueError:
            raise CaseError(f"{at} is no integer: {value[:80]!r}") from None
    if kind is float and type(value) is int:
        return float(value)
    right = value in get_args(kind) if get_origin(kind) is Literal else type(value) is kind
    return value if right else _refuse(value, at)


def _tuple(value: object, parts: tuple[object, ...], at: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        _refuse(value, at)
    items = cast("list[object]", value)
    if parts[1:] == (...,):
        parts = parts[:1] * len(items)
    if len(items) != len(parts):
        _refuse(items, at)
    pairs = zip(items, parts, strict=True)
    return tuple(_read(each, part, f"{at}[{place}]") for place, (each, part) in enumerate(pairs))


def _record(value: object, kind: object, at: str) -> object:
    if not isinstance(value, dict):
        _refuse(value, at)
    found = cast("dict[str, object]", value)
    types = _types(kind)
    for name in _names(kind):
        if name not in found:
            raise CaseError(f"{at}.{name} is missing")
    make = cast("Any", kind)
    return make(**{name: _read(found[name], types[name], f"{at}.{name}") for name in _names(kind)})


def _refuse(value: object, at: str) -> NoReturn:
    raise CaseError(f"{at} is not as it is written: {str(value)[:80]!r}")
