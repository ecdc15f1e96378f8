"""A log on one pool of processors: its jobs as tasks, and the simulation's result as a history.

A log may have millions of jobs. Their columns are read once (simulator.swf). Tasks and parts of the history are created
from them on access and not stored.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.backfill.pool.job import Job
from zonewise_scheduler.backfill.pool.packed_amounts import NARROW_BITS, PackedRequest, ResourcePacking
from zonewise_scheduler.simulator.history import OUTCOMES, JobColumns, JobHistory, JobRun
from zonewise_scheduler.simulator.lazy_sequence import LazySequence
from zonewise_scheduler.simulator.pool_simulation import Task
from zonewise_scheduler.simulator.swf import LoggedJobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.simulator.number_column import NumberColumn
    from zonewise_scheduler.simulator.reservations import FirstReservations
    from zonewise_scheduler.simulator.swf import LoggedJob

PROCESSORS = "processors"
COLUMNS = ResourcePacking((PROCESSORS,), NARROW_BITS)
"""The only resource of a log."""
MAX_PROCESSORS = (1 << 26) - 1
"""More processors than any machine has; a wider job is simulated with this width and still fits nowhere."""


class LogTasks(LazySequence[Task]):
    """The tasks of a log by time of submission, then by number; serials count from 0."""

    def __init__(self, jobs: LoggedJobs, *, exact: bool) -> None:
        """`exact`: every job declares its true run time."""
        self._jobs = jobs
        self._exact = exact
        self._order = jobs.by_submission()
        self._requests: dict[int, PackedRequest] = {}

    def __len__(self) -> int:
        return len(self._order)

    def _make(self, index: int) -> Task:
        logged = self._jobs[self._order[index]]
        processors = min(logged.processors, MAX_PROCESSORS)
        if processors not in self._requests:
            self._requests[processors] = COLUMNS.pack_request({PROCESSORS: processors})
        amount, guards = self._requests[processors]
        walltime = (logged.run_time or 1) if self._exact else logged.requested_time
        kin = (logged.user, logged.queue, logged.executable)
        job = Job(index, amount, guards, logged.submit_time, walltime, 0, str(logged.job_number), kin)
        return Task(job, logged.run_time)

    def processors(self, index: int) -> int:
        """Return the processors of a job, which may exceed MAX_PROCESSORS."""
        return self._jobs.processors[self._order[index]]

    def columns(self, starts: NumberColumn) -> JobColumns:
        """Return the history of these tasks as columns; `starts` are by serial."""
        order, length = np.array(self._order, np.int64), len(self)
        all_starts = starts.floats(length)
        job = np.flatnonzero(~np.isnan(all_starts))
        start = all_starts[job]
        run_times = self._jobs.run.floats(length)[order[job]]
        widths, kinds = np.unique(np.array(self._jobs.processors)[order], return_inverse=True)
        outcomes = np.full(length, OUTCOMES.index("refused"), np.int8)
        outcomes[job] = OUTCOMES.index("done")
        return JobColumns(
            submitted=self._jobs.submitted.floats(length)[order],
            pods=np.broadcast_to(np.int64(1), length),
            outcome=outcomes,
            amounts=[{PROCESSORS: int(width)} for width in widths],
            amounts_row=kinds,
            job=job,
            start=start,
            end=start + run_times,
            ready=start,
            whole=np.broadcast_to(np.True_, job.size),
        )


class LogHistory(LazySequence[JobHistory]):
    """The jobs of a log after its simulation."""

    def __init__(
        self, tasks: LogTasks, starts: NumberColumn, reservations: FirstReservations, forecasts: Mapping[int, Forecast]
    ) -> None:
        """Initialize with starts, first reservations and forecasts by serial."""
        self._tasks = tasks
        self._starts = starts
        self._reservations = reservations
        self._forecasts = forecasts

    def __len__(self) -> int:
        return len(self._tasks)

    def _make(self, index: int) -> JobHistory:
        task = self._tasks[index]
        amounts = {PROCESSORS: self._tasks.processors(index)}
        reservation, forecast = self._reservations.get(index), self._forecasts.get(index)
        return _job_history(task, amounts, self._starts.number(index), reservation, forecast)

    @cached_property
    def columns(self) -> JobColumns:
        """The jobs as columns."""
        return self._tasks.columns(self._starts)

    def with_reservation(self) -> Iterator[JobHistory]:
        """Yield the jobs with a reservation."""
        return (self._make(serial) for serial, _ in self._reservations.items())

    def with_forecast(self) -> Iterator[JobHistory]:
        """Yield the jobs with a forecast, by time of submission."""
        return map(self._make, sorted(self._forecasts))


def build_tasks(jobs: Iterable[LoggedJob], *, exact: bool = False) -> LogTasks:
    """Return the tasks of a log by time of submission, then by number; serials count from 0.

    `exact`: every job declares its true run time.
    """
    return LogTasks(jobs if isinstance(jobs, LoggedJobs) else LoggedJobs(jobs), exact=exact)


def _job_history(
    task: Task,
    amounts: Mapping[str, int],
    start: float | None,
    reservation: tuple[float, float] | None,
    forecast: Forecast | None,
) -> JobHistory:
    job = task.job
    return JobHistory(
        name=job.name or str(job.serial),
        queue="",
        kind="",
        submitted=job.submitted,
        walltime=job.walltime,
        amounts=amounts,
        pods=1,
        priority=job.priority,
        outcome="refused" if start is None else "done",
        runs=() if start is None else (JobRun(start, start + task.run_time, start),),
        reservation=reservation,
        forecast=None if forecast is None else (forecast.earliest, forecast.likely, forecast.latest),
    )
