"""Paths of fields within a job: keys of objects and indexes of lists, from the job on."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.types import Json

FieldPath = tuple[str | int, ...]


def with_value(job: Json, path: FieldPath, value: object) -> Json:
    """Return a job with another value at a path; parts that do not change are shared.

    Objects on the way that are absent are made; an item of a list must exist.
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
