"""A history as arrays, by job and by run."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zonewise_scheduler.simulator.history import OUTCOMES
from zonewise_scheduler.simulator.job_columns import job_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.simulator.history import History, JobColumns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class HistoryArrays(NamedTuple):
    """J jobs and R runs, in the order of the history; times in seconds since its origin."""

    submitted: Floats
    """J."""
    wait: Floats
    """J; NaN if it never started."""
    pods: Ints
    """J."""
    amounts: dict[str, Ints]
    """J each, for every resource of the machine or of a job."""
    ever_queued: Bools
    """J: whether the job was ever pending; a job that fits nowhere was not."""
    job: Ints
    """R: index of the job."""
    start: Floats
    """R."""
    ready: Floats
    """R; the end if the pods were never ready."""
    end: Floats
    """R."""
    whole: Bools
    """R: whether the run was not preempted."""
    useful: Bools
    """R: whether the job completed with the run."""
    requeued: Bools
    """R: whether the job is pending again after the run."""

    @property
    def last_time(self) -> float:
        """Return the time of the last event."""
        return max((float(times.max()) for times in (self.submitted, self.end) if times.size), default=0.0)

    @property
    def run_wait(self) -> Floats:
        """Return the time from the submission of the job to the start of each run; R."""
        return self.start - self.submitted[self.job]

    def resource_seconds(self, name: str) -> float:
        """Return the amount of a resource times seconds, summed over all runs."""
        return float(np.dot(self.amount(name)[self.job], self.end - self.start))

    def amount(self, name: str) -> Ints:
        """Return the usage of a resource by job; J."""
        return self.amounts[name] if name in self.amounts else np.zeros(self.submitted.size, np.int64)

    def share(self, name: str, capacity: Mapping[str, int]) -> Floats:
        """Return the share of the capacity of a resource by job; J."""
        return self.amount(name) / capacity[name]


def build_arrays(history: History, origin: float = 0.0) -> HistoryArrays:
    """Return a history as arrays. Raises OverflowError for an amount beyond 64 bits."""
    columns = job_columns(history.jobs)
    names = dict.fromkeys(chain(history.capacity, *columns.amounts))
    job, whole = columns.job, columns.whole
    last = np.diff(job, append=-1) != 0
    start, end, ready = columns.start - origin, columns.end - origin, columns.ready - origin
    submitted = columns.submitted - origin
    done, refused, waiting = (columns.outcome == OUTCOMES.index(name) for name in ("done", "refused", "waiting"))
    ran = np.zeros(submitted.size, np.bool_)
    ran[job] = True
    return HistoryArrays(
        submitted,
        _waits(submitted, start, job, last & whole),
        columns.pods,
        {name: _amounts(columns, name) for name in names},
        waiting | ran & ~refused,
        job,
        start,
        np.minimum(ready, end),
        end,
        whole,
        whole & done[job],
        ~whole & (~last | waiting[job]),
    )


def _amounts(columns: JobColumns, name: str) -> Ints:
    """Return the usage of a resource by job."""
    return np.array([amounts.get(name, 0) for amounts in columns.amounts], np.int64)[columns.amounts_row]


def _waits(submitted: Floats, start: Floats, job: Ints, completed: Bools) -> Floats:
    """Return the wait of each job until its completed run (JobHistory.wait)."""
    waits = np.full(submitted.size, np.nan)
    waits[job[completed]] = start[completed] - submitted[job[completed]]
    return waits
