"""A history as arrays, by job and by run."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.simulator.history import History

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class HistoryArrays(NamedTuple):
    """J jobs and R runs, in the order of the history; times in seconds since its origin."""

    submitted: Floats
    """J."""
    wait: Floats
    """J; NaN where it never started."""
    pods: Ints
    """J."""
    amounts: dict[str, Ints]
    """J each, of every resource of the machine or of a job."""
    ever_queued: Bools
    """J: the job was ever pending, which a job that fits nowhere was not."""
    job: Ints
    """R: index of the job."""
    start: Floats
    """R."""
    ready: Floats
    """R; the end where the pods were never ready."""
    end: Floats
    """R."""
    whole: Bools
    """R: it was not preempted."""
    useful: Bools
    """R: the job completed with it."""
    requeued: Bools
    """R: the job is pending again after it."""

    @property
    def last_time(self) -> float:
        """Return the time of the last event."""
        return max((float(times.max()) for times in (self.submitted, self.end) if times.size), default=0.0)

    def resource_seconds(self, name: str) -> float:
        """Return amount times seconds of a resource, over all runs."""
        return float(np.dot(self.amount(name)[self.job], self.end - self.start))

    def amount(self, name: str) -> Ints:
        """Return the usage of a resource by job; J."""
        return self.amounts[name] if name in self.amounts else np.zeros(self.submitted.size, np.int64)

    def share(self, name: str, capacity: Mapping[str, int]) -> Floats:
        """Return the share of the capacity of a resource by job; J."""
        return self.amount(name) / capacity[name]


def build_arrays(history: History, origin: float = 0.0) -> HistoryArrays:
    """Return a history as arrays. Raises OverflowError for an amount beyond 64 bits."""
    jobs = history.jobs
    names = dict.fromkeys(chain(history.capacity, *{tuple(job.amounts) for job in jobs}))
    outcomes = np.array([job.outcome for job in jobs], dtype="U8")
    counts = np.array([len(job.runs) for job in jobs], dtype=np.int64)
    runs = np.array([run for job in jobs for run in job.runs], dtype=np.float64).reshape(-1, 4)
    job, last = np.repeat(np.arange(len(jobs)), counts), np.cumsum(counts) - 1
    start, end, ready, whole = runs[:, 0] - origin, runs[:, 1] - origin, runs[:, 2] - origin, runs[:, 3] > 0
    submitted = np.array([job.submitted for job in jobs], dtype=np.float64) - origin
    waiting = outcomes == "waiting"
    return HistoryArrays(
        submitted,
        _waits(submitted, start, whole, last, counts > 0),
        np.array([job.pods for job in jobs], dtype=np.int64),
        {name: np.array([job.amounts.get(name, 0) for job in jobs], dtype=np.int64) for name in names},
        waiting | (counts > 0) & (outcomes != "refused"),
        job,
        start,
        np.minimum(ready, end),
        end,
        whole,
        whole & (outcomes[job] == "done"),
        ~whole & ((np.arange(job.size) != last[job]) | waiting[job]),
    )


def _waits(submitted: Floats, start: Floats, whole: Bools, last: Ints, ran: Bools) -> Floats:
    """Return the wait of each job until its completed run (JobHistory.wait)."""
    waits = np.full(submitted.size, np.nan)
    rows = np.flatnonzero(ran)
    rows = rows[whole[last[rows]]]
    waits[rows] = start[last[rows]] - submitted[rows]
    return waits
