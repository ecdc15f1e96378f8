"""The value that several elements share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def uniform_value(values: Iterable[T | None]) -> T | None:
    """Return the value that all elements have; None if they differ, if one is unknown, or if there are no elements."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
