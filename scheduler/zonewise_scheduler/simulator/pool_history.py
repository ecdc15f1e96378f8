"""What happened on one pool, as a history."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zonewise_scheduler.simulator.history import History, JobHistory, JobRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.pool.packed_amounts import ResourcePacking
    from zonewise_scheduler.backfill.pool.pool_forecast import PoolForecast
    from zonewise_scheduler.backfill.pool.pool_state import Job
    from zonewise_scheduler.simulator.pool_simulation import PoolResult

_NO_FORECASTS: Mapping[Job, PoolForecast] = MappingProxyType({})
_NO_RESERVATIONS: Mapping[Job, tuple[float, float]] = MappingProxyType({})


def build_pool_history(
    outcome: PoolResult,
    columns: ResourcePacking,
    capacity: int,
    forecasts: Mapping[Job, PoolForecast] = _NO_FORECASTS,
    reservations: Mapping[Job, tuple[float, float]] = _NO_RESERVATIONS,
) -> History:
    """Return the history of tasks on a machine so large (Columns.room).

    `told` and `promised` are what Foresight.told and Promises.made hold, if those watched.
    """
    amounts: dict[int, dict[str, int]] = {}
    jobs: list[JobHistory] = []
    for task in outcome.tasks:
        job = task.job
        if job.request not in amounts:
            amounts[job.request] = columns.unpack_request(job.request)
        start, forecast = outcome.starts.get(job), forecasts.get(job)
        jobs.append(
            JobHistory(
                name=job.name or str(job.serial),
                queue="",
                kind="",
                submitted=job.submitted,
                limit=job.walltime,
                amounts=amounts[job.request],
                pods=1,
                priority=job.priority,
                outcome="refused" if start is None else "done",
                runs=() if start is None else (JobRun(start, start + task.run_time, start),),
                promised=reservations.get(job),
                told=None if forecast is None else forecast[1:],
            )
        )
    return History(jobs, columns.unpack_available(capacity), outcome.decisions, outcome.seconds)
