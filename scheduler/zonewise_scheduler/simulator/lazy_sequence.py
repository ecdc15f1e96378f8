"""Sequences whose items are created when they are read instead of being stored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")


class LazySequence(Sequence[Item]):
    """A sequence that creates its items by index."""

    @abstractmethod
    def _make(self, index: int) -> Item:
        """Return the item at an index, which is at least 0 and below the length."""

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        rows = range(len(self))[index]
        return self._make(rows) if isinstance(rows, int) else [self._make(row) for row in rows]

    def __iter__(self) -> Iterator[Item]:
        return map(self._make, range(len(self)))
