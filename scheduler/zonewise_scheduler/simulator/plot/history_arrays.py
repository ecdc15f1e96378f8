"""A history as arrays, job by job and run by run."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zonewise_scheduler.simulator.plot.step_functions import allocated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """J each, of every resource that there is or that a job takes."""
    ever_queued: Bools
    """J: it has ever waited. Who is refused, or is given up without a run, has not."""
    job: Ints
    """R: whose run it is."""
    start: Floats
    """R."""
    ready: Floats
    """R; the end where the pods were never ready."""
    end: Floats
    """R."""
    whole: Bools
    """R: it was not preempted."""
    useful: Bools
    """R: the job was done with it."""
    requeued: Bools
    """R: the job waits once more after it."""

    @property
    def last_time(self) -> float:
        """Return when the last thing happens."""
        return max((float(times.max()) for times in (self.submitted, self.end) if times.size), default=0.0)

    def resource_seconds(self, name: str) -> float:
        """Return amount times seconds of a resource, over all runs."""
        return float(np.dot(self.amount(name)[self.job], self.end - self.start))

    def amount(self, name: str) -> Ints:
        """Return what each job takes of a resource; J."""
        return self.amounts[name] if name in self.amounts else np.zeros(self.submitted.size, np.int64)

    def share(self, name: str, whole: Mapping[str, int]) -> Floats:
        """Return what each job takes of what there is of a resource; J."""
        return self.amount(name) / whole[name]


def build_arrays(history: History, origin: float = 0.0) -> HistoryArrays:
    """Return a history as arrays; raise OverflowError for an amount that 64 bits do not hold."""
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
    """Return the wait of each job for the run that it was done with (JobHistory.wait)."""
    waits = np.full(submitted.size, np.nan)
    rows = np.flatnonzero(ran)
    rows = rows[whole[last[rows]]]
    waits[rows] = start[last[rows]] - submitted[rows]
    return waits


def resource_capacity(table: HistoryArrays, capacity: Mapping[str, int]) -> dict[str, int]:
    """Return what there is of each resource that has a limit, the scarcest first: that of which most is taken.

    Where none has a limit, the most that was taken at once stands for it. What nobody takes is left out, unless that is
    all that there is.
    """
    found = {name: size for name, size in capacity.items() if size > 0}
    if not found:
        found = {name: size for name in table.amounts if (size := _peak(table, name)) > 0}
    shares = {name: table.resource_seconds(name) / size for name, size in found.items()}
    order = sorted(found, key=lambda name: (-round(shares[name], 6), name))
    return {name: found[name] for name in order if shares[name]} or found


def group_equal_shares(tables: Sequence[HistoryArrays], whole: Mapping[str, int]) -> list[list[str]]:
    """Return the resources in their order, those together of which every job takes the same share."""
    found: list[list[str]] = []
    for name in whole:
        for others in found:
            first = others[0]
            if all(np.allclose(table.share(name, whole), table.share(first, whole), atol=0) for table in tables):
                others.append(name)
                break
        else:
            found.append([name])
    return found


def _peak(table: HistoryArrays, name: str) -> int:
    return int(allocated(table, name).values.max(initial=0))


def job_widths(table: HistoryArrays, whole: Mapping[str, int]) -> Floats:
    """Return each job's share of the machine, of that resource of which it takes most; J."""
    shares = [table.share(name, whole) for name in whole]
    return np.max(shares, axis=0) if shares else np.zeros(table.submitted.size)
