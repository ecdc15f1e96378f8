"""The pending workloads that may not start yet, by begin time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

MIN_ENTRIES = 64
"""Number of entries of which no stale one is dropped."""


class BeginTimes:
    """Begin times by key of the workload, in seconds."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """Begin times with keys; some are stale."""

    def copy(self) -> BeginTimes:
        """Return an independent copy."""
        other = BeginTimes()
        other._times, other._heap = dict(self._times), list(self._heap)
        return other

    @property
    def first(self) -> float:
        """The first begin time; infinite if there is none."""
        self._drop_first_stale()
        return self._heap[0][0] if self._heap else inf

    def add(self, key: str, time: float) -> None:
        """Add a workload, or replace its begin time."""
        if self._times.get(key) == time:
            return
        self._times[key] = time
        heappush(self._heap, (time, key))
        if len(self._heap) > MIN_ENTRIES + 2 * len(self._times):
            self._heap = [(begin, key) for key, begin in self._times.items()]
            heapify(self._heap)

    def discard(self, key: str) -> None:
        """Forget a workload."""
        self._times.pop(key, None)

    def pop_begun(self, now: float) -> list[str]:
        """Remove and return the keys of the workloads whose begin time has come, in this order."""
        begun: list[str] = []
        while self._times and self.first <= now:
            key = heappop(self._heap)[1]
            del self._times[key]
            begun.append(key)
        return begun

    def _drop_first_stale(self) -> None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
