"""The pending workloads that may not start yet, by begin time."""

from __future__ import annotations

from math import inf


class BeginTimes:
    """Begin times by key of the workload, in seconds."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._first: float | None = inf
        """The first begin time; None if it must be determined."""

    def copy(self) -> BeginTimes:
        """Return an independent copy."""
        other = BeginTimes()
        other._times, other._first = dict(self._times), self._first
        return other

    @property
    def first(self) -> float:
        """The first begin time; infinite if there is none."""
        if self._first is None:
            self._first = min(self._times.values(), default=inf)
        return self._first

    def add(self, key: str, time: float) -> None:
        """Add a workload, or replace its begin time."""
        self._times[key], self._first = time, None

    def discard(self, key: str) -> None:
        """Forget a workload."""
        if self._times.pop(key, None) is not None:
            self._first = None

    def pop_begun(self, now: float) -> list[str]:
        """Remove and return the keys of the workloads whose begin time has come, in this order."""
        if self.first > now:
            return []
        begun = sorted((time, key) for key, time in self._times.items() if time <= now)
        for _, key in begun:
            self.discard(key)
        return [key for _, key in begun]
