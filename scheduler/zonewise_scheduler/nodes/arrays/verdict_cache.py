"""Results by slot that are cached until their slots change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.types import I64

_MAX_RESULTS = 64
"""Enough for the shapes of pods of a burst."""


class VerdictCache:
    """The latest results by slot, the last axis of an array. Of a burst of equal pods only the first is computed."""

    def __init__(self) -> None:
        """Create a cache without slots."""
        self._clock = 0
        self._changed_at: I64 = np.zeros(0, np.int64)
        self._results: dict[Hashable, tuple[int, NDArray[Any]]] = {}

    def invalidate(self, slots: I64) -> None:
        """Mark slots as changed or new."""
        self._clock += 1
        if (size := int(slots.max()) + 1) > self._changed_at.size:
            self._changed_at = np.concatenate([self._changed_at, np.zeros(max(size, self._changed_at.size), np.int64)])
        self._changed_at[slots] = self._clock

    def get_or_compute(self, key: Hashable, size: int, compute: Callable[[I64 | None], NDArray[Any]]) -> NDArray[Any]:
        """Return compute() of all slots; compute is called for changed slots only, and with None for all.

        The array must not be changed.
        """
        cached = self._results.pop(key, None)
        result = self._renewed(cached, size, compute) if cached else compute(None)
        self._results[key] = self._clock, result
        if len(self._results) > _MAX_RESULTS:
            del self._results[next(iter(self._results))]
        return result

    def _renewed(
        self, cached: tuple[int, NDArray[Any]], size: int, compute: Callable[[I64 | None], NDArray[Any]]
    ) -> NDArray[Any]:
        computed_at, old = cached
        if computed_at == self._clock and old.shape[-1] == size:
            return old
        changed = np.flatnonzero(self._changed_at[:size] > computed_at)
        if 4 * changed.size > size:
            return compute(None)
        result = np.empty((*old.shape[:-1], size), old.dtype)
        unchanged = min(size, old.shape[-1])
        result[..., :unchanged] = old[..., :unchanged]
        if changed.size:
            result[..., changed] = compute(changed)
        return result
