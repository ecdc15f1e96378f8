"""Caches results by slot until their slots change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.types import I64

_MAX_RESULTS = 64
"""Maximum number of results: enough for the shapes of the pods in a burst."""


class ResultKey:
    """The inputs of a result except the slots. The hash is computed once, for the caches of many blocks."""

    __slots__ = ("_hash", "inputs")

    def __init__(self, *inputs: Hashable) -> None:
        self.inputs = inputs
        self._hash = hash(inputs)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ResultKey) and self.inputs == other.inputs)


class VerdictCache:
    """The latest results by slot, the last axis of an array. Of a burst of equal pods, only the first is computed."""

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
        """Return compute() of all slots; compute is called only with changed slots, or with None for all slots.

        The caller must not change the array. The next call with this key may change it.
        """
        stale = self.stale_slots(key, size)
        if stale is None:
            return self.put(key, compute(None))
        return self.patch(key, size, stale, compute(stale) if stale.size else None)

    def stale_slots(self, key: Hashable, size: int) -> I64 | None:
        """Return the slots that have changed since a result was stored; None: all, if there is none or most have."""
        cached = self._results.get(key)
        if cached is None:
            return None
        computed_at, old = cached
        if computed_at == self._clock and old.shape[-1] == size:
            return np.zeros(0, np.int64)
        changed = np.flatnonzero(self._changed_at[:size] > computed_at)
        return None if 4 * changed.size > size else changed

    def patch(self, key: Hashable, size: int, stale: I64, values: NDArray[Any] | None) -> NDArray[Any]:
        """Update the stale slots of a stored result, now of `size` slots (None: no slot is stale); return all slots."""
        result = old = self._results[key][1]
        if old.shape[-1] != size:
            result = np.empty((*old.shape[:-1], size), old.dtype)
            unchanged = min(size, old.shape[-1])
            result[..., :unchanged] = old[..., :unchanged]
        if stale.size:
            result[..., stale] = values
        return self.put(key, result)

    def put(self, key: Hashable, result: NDArray[Any]) -> NDArray[Any]:
        """Store and return the result of all slots, as the latest one."""
        self._results.pop(key, None)
        self._results[key] = self._clock, result
        if len(self._results) > _MAX_RESULTS:
            del self._results[next(iter(self._results))]
        return result
