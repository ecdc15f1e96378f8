"""When keys are due: one time for each key, the earliest at hand in a heap."""

from __future__ import annotations

import heapq
from math import inf


class Timers:
    """Times by key, in seconds since 1970."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """With entries of earlier times of a key, which do not count any more."""

    def set(self, key: str, at: float | None) -> None:
        """Replace the time of a key; None: it has none."""
        if at is None:
            self._times.pop(key, None)
        elif self._times.get(key) != at:
            self._times[key] = at
            heapq.heappush(self._heap, (at, key))

    @property
    def next_at(self) -> float:
        """Return the earliest time; infinite where no key has any."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now: float) -> list[str]:
        """Remove and return the keys whose time has come, in the order of their times."""
        due: list[str] = []
        while self.next_at <= now:
            _, key = heapq.heappop(self._heap)
            del self._times[key]
            due.append(key)
        return due
