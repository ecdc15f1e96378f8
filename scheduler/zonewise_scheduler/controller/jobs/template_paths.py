"""Paths of fields within a job: the object keys and list indexes that lead to a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.types import Json

FieldPath = tuple[str | int, ...]


def with_value(job: Json, path: FieldPath, value: object) -> Json:
    """Return a job with a new value at a path. Unchanged parts are shared.

    Absent objects on the path are created; an item of a list must exist.
    """
    return cast("Json", _with_value(job, path, value))


def _with_value(owner: object, path: Sequence[str | int], value: object) -> object:
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        items = list(cast("list[object]", owner))
        items[first] = _with_value(items[first], rest, value)
        return items
    fields = cast("Json", owner or {})
    return {**fields, first: _with_value(fields.get(first), rest, value)}
