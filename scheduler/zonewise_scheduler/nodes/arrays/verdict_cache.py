"""Answers that are kept until their places change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.types import I64

_MOST = 64
"""Answers kept: the shapes of pods of a burst, not of a day."""


class VerdictCache:
    """The latest answers for places, the last axis of an array; of a burst of equal pods only the first costs."""

    def __init__(self) -> None:
        """Start with no places."""
        self._clock = 0
        self._changed: I64 = np.zeros(0, np.int64)
        self._answers: dict[Hashable, tuple[int, NDArray[Any]]] = {}

    def invalidate(self, slots: I64) -> None:
        """Note that places have changed, or are new."""
        self._clock += 1
        if (needed := int(slots.max()) + 1) > self._changed.size:
            self._changed = np.concatenate([self._changed, np.zeros(max(needed, self._changed.size), np.int64)])
        self._changed[slots] = self._clock

    def get_or_compute(self, key: Hashable, size: int, compute: Callable[[I64 | None], NDArray[Any]]) -> NDArray[Any]:
        """Return what make returns for all places, calling it for those alone that have changed; None: for all.

        The array is not to be changed.
        """
        kept = self._answers.pop(key, None)
        answer = self._renewed(kept, size, compute) if kept else compute(None)
        self._answers[key] = self._clock, answer
        if len(self._answers) > _MOST:
            del self._answers[next(iter(self._answers))]
        return answer

    def _renewed(
        self, kept: tuple[int, NDArray[Any]], places: int, make: Callable[[I64 | None], NDArray[Any]]
    ) -> NDArray[Any]:
        at, old = kept
        if at == self._clock and old.shape[-1] == places:
            return old
        changed = np.flatnonzero(self._changed[:places] > at)
        if 4 * changed.size > places:
            return make(None)
        answer = np.empty((*old.shape[:-1], places), old.dtype)
        same = min(places, old.shape[-1])
        answer[..., :same] = old[..., :same]
        if changed.size:
            answer[..., changed] = make(changed)
        return answer
