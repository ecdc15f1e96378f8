"""Mispredictions as JSON, for storage and replay: the inputs, the prediction and the outcome.

A value is an object with its fields by name; a tuple is an array. An integer of more than 53 bits (a set of CPUs) is
the string "0x...", since other JSON readers would round it.
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

_MAX_EXACT = 1 << 53

_JSON_NAMES: dict[tuple[object, str], str] = {
    (Misprediction, "assumed_before"): "ahead",
    (Misprediction, "predicted"): "foretold",
}
"""Fields whose names in a case differ."""


class CaseError(ValueError):
    """A text is not a case; the message names the field and its value."""


def case_json(misprediction: Misprediction) -> str:
    """Return a misprediction as JSON."""
    return json.dumps(_to_json(misprediction), indent=1)


def read_case(text: str) -> Misprediction:
    """Return the misprediction from a result of case_json(); raise CaseError for any other text."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CaseError(f"not JSON: {error}") from error
    return cast("Misprediction", _from_json(value, Misprediction, "case"))


def replay(misprediction: Misprediction, admit: Admit = kubelet_admits) -> Verdict:
    """Return the prediction that the current rules make for the inputs of a misprediction."""
    assumed_state = AssumedState.from_shapes(misprediction.state, misprediction.assumed_before, admit)
    return assumed_state.assume(misprediction.shape, admit)[0]


def _to_json(value: object) -> object:
    if isinstance(value, bool | float | str | None):
        return value
    if isinstance(value, int):
        return value if abs(value) < _MAX_EXACT else hex(value)
    names = _field_names(type(value))
    if names:
        return {_JSON_NAMES.get((type(value), name), name): _to_json(getattr(value, name)) for name in names}
    return [_to_json(item) for item in cast("tuple[object, ...]", value)]


def _field_names(kind: object) -> tuple[str, ...]:
    """Return the fields of a dataclass or a NamedTuple; none for other types."""
    record = cast("Any", kind)
    return tuple(field.name for field in fields(record)) if is_dataclass(record) else getattr(record, "_fields", ())


@lru_cache
def _field_types(kind: object) -> dict[str, object]:
    return get_type_hints(kind)


def _from_json(value: object, kind: object, path: str) -> object:
    """Return a value of a type, by its annotation: the inverse of _to_json()."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        (kind_if_set,) = (member for member in get_args(kind) if member is not type(None))
        return None if value is None else _from_json(value, kind_if_set, path)
    if origin is tuple:
        return _tuple_from_json(value, get_args(kind), path)
    if _field_names(kind):
        return _record_from_json(value, kind, path)
    return _scalar_from_json(value, kind, path)


def _scalar_from_json(value: object, kind: object, path: str) -> object:
    if kind is int and isinstance(value, str):
        try:
            return int(value, 16)
        except ValueError:
            raise CaseError(f"{path} is not an integer: {value[:80]!r}") from None
    if kind is float and type(value) is int:
        return float(value)
    is_valid = value in get_args(kind) if get_origin(kind) is Literal else type(value) is kind
    return value if is_valid else _invalid(value, path)


def _tuple_from_json(value: object, item_kinds: tuple[object, ...], path: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        _invalid(value, path)
    items = cast("list[object]", value)
    if item_kinds[1:] == (...,):
        item_kinds = item_kinds[:1] * len(items)
    if len(items) != len(item_kinds):
        _invalid(items, path)
    pairs = zip(items, item_kinds, strict=True)
    return tuple(_from_json(item, item_kind, f"{path}[{index}]") for index, (item, item_kind) in enumerate(pairs))


def _record_from_json(value: object, kind: object, path: str) -> object:
    if not isinstance(value, dict):
        _invalid(value, path)
    members = cast("dict[str, object]", value)
    types = _field_types(kind)
    json_names = {name: _JSON_NAMES.get((kind, name), name) for name in _field_names(kind)}
    for name in json_names.values():
        if name not in members:
            raise CaseError(f"{path}.{name} is missing")
    construct = cast("Any", kind)
    return construct(
        **{field: _from_json(members[name], types[field], f"{path}.{name}") for field, name in json_names.items()}
    )


def _invalid(value: object, path: str) -> NoReturn:
    raise CaseError(f"{path} is not as it is written: {str(value)[:80]!r}")
