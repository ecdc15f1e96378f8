"""The jobs submitted in the last four weeks: forecasts submit them again, shifted by whole weeks.

So a forecast has as many submissions as that hour of the week had, of the same users, widths and walltimes, in the same
bursts. Feitelson (Workload Modeling for Computer Systems Performance Evaluation, 2015, chapter 9) has the daily and the
weekly cycle. In the first week of a history the shift is in days, and on its first day nothing is submitted.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.backfill.pool.pool_state import Job

DAY = 24 * 3600.0
WEEK = 7 * DAY
WEEKS = 4
MAX_ARRIVALS = 20_000
"""Jobs that are kept; with more, the first are forgotten."""
MAX_SPAN = 4 * DAY
"""From the time of a forecast, so far jobs are submitted to it."""


class PastArrival(NamedTuple):
    """A job of an earlier week."""

    time: float
    """When it is submitted again."""
    job: Job
    run_time: float | None
    """Seconds; None: it has not ended yet."""


class ArrivalHistory:
    """Submissions by time."""

    __slots__ = ("_jobs", "_run_times", "_times")

    def __init__(self) -> None:
        self._times: list[float] = []
        self._jobs: list[Job] = []
        self._run_times: dict[Job, float] = {}

    def observe(self, job: Job, now: float) -> None:
        """Add a job that is submitted now."""
        self._times.append(now)
        self._jobs.append(job)
        if len(self._times) > 2 * MAX_ARRIVALS or self._times[0] < now - 2 * WEEKS * WEEK:
            self._forget(max(bisect_right(self._times, now - WEEKS * WEEK), len(self._times) - MAX_ARRIVALS))

    def observe_end(self, job: Job, run_time: float) -> None:
        """Add the run time of a job that has ended."""
        self._run_times[job] = run_time

    def replay(self, now: float, sample: int) -> Iterator[PastArrival]:
        """Yield the submissions of an earlier week from now on; the `sample` decides which week."""
        shift = self._shift(now, sample)
        if shift:
            first = bisect_right(self._times, now - shift)
            last = bisect_right(self._times, now - shift + min(shift, MAX_SPAN))
            for index in range(first, last):
                job = self._jobs[index]
                yield PastArrival(self._times[index] + shift, job, self._run_times.get(job))

    def _shift(self, now: float, sample: int) -> float:
        """Return by how much the submissions of a sample are shifted; 0: there are none."""
        age = now - self._times[0] if self._times else 0.0
        period = WEEK if age >= WEEK else DAY
        periods = min(int(age / period), WEEKS if period == WEEK else 7)
        return period * (1 + sample % periods) if periods else 0.0

    def _forget(self, count: int) -> None:
        """Forget the first submissions."""
        for job in self._jobs[:count]:
            self._run_times.pop(job, None)
        del self._times[:count], self._jobs[:count]
