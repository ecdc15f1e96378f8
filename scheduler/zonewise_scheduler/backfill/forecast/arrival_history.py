"""The submissions of the last four weeks, which forecasts replay shifted by whole weeks.

A forecast therefore has as many submissions as that hour of the week had, in the same bursts. Their queues, users,
widths and walltimes are the same too. Feitelson (Workload Modeling for Computer Systems Performance Evaluation, 2015,
chapter 9) describes the daily and weekly cycles. During the first week of a history, the shift is in whole days. On its
first day, nothing is replayed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

S = TypeVar("S")
"""Type of a submission: a job of a pool, or a workload with its queue."""

DAY = 24 * 3600.0
WEEK = 7 * DAY
WEEKS = 4
MAX_ARRIVALS = 20_000
"""Maximum number of submissions; beyond it, the oldest are forgotten."""
MAX_SPAN = 4 * DAY
"""Time from the start of a forecast during which submissions are replayed, in seconds."""


class PastArrival(NamedTuple, Generic[S]):
    """A submission of an earlier week, as it is replayed."""

    time: float
    """Time at which it is replayed."""
    subject: S
    run_time: float | None
    """Seconds; None if it has not ended yet."""


class ObservedArrival(NamedTuple, Generic[S]):
    """A submission as it was observed."""

    key: Hashable
    time: float
    subject: S
    run_time: float | None
    """Seconds; None if it has not ended yet."""


class ArrivalHistory(Generic[S]):
    """Submissions by time, each with a unique key."""

    __slots__ = ("_keys", "_known", "_run_times", "_subjects", "_times")

    def __init__(self) -> None:
        self._times: list[float] = []
        self._keys: list[Hashable] = []
        self._subjects: list[S] = []
        self._known: set[Hashable] = set()
        """The keys of all submissions."""
        self._run_times: dict[Hashable, float] = {}

    def observe(self, key: Hashable, subject: S, time: float) -> None:
        """Add a submission unless its key is already known."""
        if key in self._known:
            return
        self._known.add(key)
        index = bisect_right(self._times, time)
        self._times.insert(index, time)
        self._keys.insert(index, key)
        self._subjects.insert(index, subject)
        if len(self._times) > 2 * MAX_ARRIVALS or self._times[0] < time - 2 * WEEKS * WEEK:
            self._forget(max(bisect_right(self._times, time - WEEKS * WEEK), len(self._times) - MAX_ARRIVALS))

    def observe_end(self, key: Hashable, run_time: float) -> None:
        """Add the run time of an ended submission; ignore an unknown key."""
        if key in self._known:
            self._run_times[key] = run_time

    def replay(self, now: float, sample: int) -> Iterator[PastArrival[S]]:
        """Yield the submissions of an earlier week from now on; `sample` selects the week."""
        shift = self._shift(now, sample)
        if shift:
            first = bisect_right(self._times, now - shift)
            last = bisect_right(self._times, now - shift + min(shift, MAX_SPAN))
            for index in range(first, last):
                run_time = self._run_times.get(self._keys[index])
                yield PastArrival(self._times[index] + shift, self._subjects[index], run_time)

    def newest(self, count: int) -> Iterator[ObservedArrival[S]]:
        """Yield the last submissions, up to `count`, oldest first."""
        for index in range(max(len(self._times) - count, 0), len(self._times)):
            key = self._keys[index]
            yield ObservedArrival(key, self._times[index], self._subjects[index], self._run_times.get(key))

    def __len__(self) -> int:
        return len(self._times)

    def copy(self) -> ArrivalHistory[S]:
        """Return an independent copy; the subjects are the same."""
        other: ArrivalHistory[S] = ArrivalHistory()
        other._times, other._keys, other._subjects = self._times[:], self._keys[:], self._subjects[:]
        other._known, other._run_times = self._known.copy(), self._run_times.copy()
        return other

    def _shift(self, now: float, sample: int) -> float:
        """Return the time by which the submissions of a sample are shifted; 0 if there are none."""
        age = now - (self._times[0] if self._times else now)
        if age >= WEEK:
            return WEEK * (1 + sample % min(int(age / WEEK), WEEKS))
        days = int(age / DAY)
        return DAY * (1 + sample % days) if days else 0.0

    def _forget(self, count: int) -> None:
        """Forget the oldest submissions."""
        for key in self._keys[:count]:
            self._known.discard(key)
            self._run_times.pop(key, None)
        del self._times[:count], self._keys[:count], self._subjects[:count]
