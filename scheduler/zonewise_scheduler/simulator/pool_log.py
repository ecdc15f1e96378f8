"""A log on one pool of processors: its jobs as tasks, and the result of its simulation as a history."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.packed_amounts import NARROW_BITS, ResourcePacking
from zonewise_scheduler.backfill.pool.pool_state import Job
from zonewise_scheduler.simulator.history import History, JobHistory, JobRun
from zonewise_scheduler.simulator.pool_simulation import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.simulator.pool_simulation import PoolResult
    from zonewise_scheduler.simulator.swf import LoggedJob

PROCESSORS = "processors"
COLUMNS = ResourcePacking((PROCESSORS,), NARROW_BITS)
"""The one resource of a log."""
MAX_PROCESSORS = (1 << 26) - 1
"""More processors than any machine has; a wider job is cut to this width, and fits nowhere either."""

_NO_FORECASTS: Mapping[Job, Forecast] = MappingProxyType({})
_NO_RESERVATIONS: Mapping[Job, tuple[float, float]] = MappingProxyType({})


def build_tasks(jobs: Iterable[LoggedJob], *, exact: bool = False) -> list[Task]:
    """Return the tasks of a log by time of submission, then by number; serials count from 0.

    With `exact`, every job declares its true run time.
    """
    logged = sorted(jobs, key=lambda job: (job.submit_time, job.job_number))
    return [_task(serial, job, exact=exact) for serial, job in enumerate(logged)]


def _task(serial: int, job: LoggedJob, *, exact: bool) -> Task:
    demand = COLUMNS.pack_request({PROCESSORS: min(job.processors, MAX_PROCESSORS)})
    walltime = (job.run_time or 1) if exact else job.requested_time
    kin = (job.user, job.queue, job.executable)
    return Task(
        Job(serial, demand.amount, demand.guards, job.submit_time, walltime, 0, str(job.job_number), kin), job.run_time
    )


def build_pool_history(
    result: PoolResult,
    packing: ResourcePacking,
    capacity: int,
    forecasts: Mapping[Job, Forecast] = _NO_FORECASTS,
    reservations: Mapping[Job, tuple[float, float]] = _NO_RESERVATIONS,
) -> History:
    """Return the history of tasks on a machine of this capacity (ResourcePacking.pack_available).

    `forecasts` are those of a PoolForecaster, `reservations` those of a ReservationRecorder; default: none.
    """
    amounts: dict[int, dict[str, int]] = {}
    jobs: list[JobHistory] = []
    for task in result.tasks:
        job = task.job
        if job.request not in amounts:
            amounts[job.request] = packing.unpack_request(job.request)
        start, forecast = result.starts.get(job), forecasts.get(job)
        jobs.append(
            JobHistory(
                name=job.name or str(job.serial),
                queue="",
                kind="",
                submitted=job.submitted,
                walltime=job.walltime,
                amounts=amounts[job.request],
                pods=1,
                priority=job.priority,
                outcome="refused" if start is None else "done",
                runs=() if start is None else (JobRun(start, start + task.run_time, start),),
                reservation=reservations.get(job),
                forecast=None if forecast is None else (forecast.earliest, forecast.likely, forecast.latest),
            )
        )
    return History(jobs, packing.unpack_available(capacity), result.decisions, result.seconds)
