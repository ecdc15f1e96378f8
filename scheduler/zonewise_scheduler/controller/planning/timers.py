"""Due times of keys. Each key has one time, and a heap yields the earliest."""

from __future__ import annotations

import heapq
from math import inf


class Timers:
    """Times by key, in seconds since 1970."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """Times and keys. Outdated times of a key remain in the heap, but are ignored."""

    def set(self, key: str, at: float | None) -> None:
        """Replace the time of a key; None: remove it."""
        if at is None:
            self._times.pop(key, None)
        elif self._times.get(key) != at:
            self._times[key] = at
            heapq.heappush(self._heap, (at, key))

    @property
    def next_at(self) -> float:
        """Return the earliest time; infinite if no key has one."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now: float) -> list[str]:
        """Remove and return the keys that are due, in the order of their times."""
        due: list[str] = []
        while self.next_at <= now:
            _, key = heapq.heappop(self._heap)
            del self._times[key]
            due.append(key)
        return due
