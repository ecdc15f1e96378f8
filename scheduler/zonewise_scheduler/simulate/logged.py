"""What happened on one pool, as a history."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zonewise_scheduler.simulate.history import History, JobHistory, Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.time.amounts import Columns
    from zonewise_scheduler.queue.time.forecast import Forecast
    from zonewise_scheduler.queue.time.state import Job
    from zonewise_scheduler.simulate.clock import Outcome

_UNTOLD: Mapping[Job, Forecast] = MappingProxyType({})
_UNPROMISED: Mapping[Job, tuple[float, float]] = MappingProxyType({})


def history_of(
    outcome: Outcome,
    columns: Columns,
    capacity: int,
    told: Mapping[Job, Forecast] = _UNTOLD,
    promised: Mapping[Job, tuple[float, float]] = _UNPROMISED,
) -> History:
    """Return the history of tasks on a machine so large (Columns.room).

    `told` and `promised` are what Foresight.told and Promises.made hold, if those watched.
    """
    amounts: dict[int, dict[str, int]] = {}
    jobs: list[JobHistory] = []
    for task in outcome.tasks:
        job = task.job
        if job.demand not in amounts:
            amounts[job.demand] = columns.asked(job.demand)
        start, forecast = outcome.starts.get(job), told.get(job)
        jobs.append(
            JobHistory(
                name=job.name or str(job.serial),
                queue="",
                kind="",
                submitted=job.submitted,
                limit=job.limit,
                amounts=amounts[job.demand],
                pods=1,
                priority=job.priority,
                outcome="refused" if start is None else "done",
                runs=() if start is None else (Run(start, start + task.run, start),),
                promised=promised.get(job),
                told=None if forecast is None else forecast[1:],
            )
        )
    return History(jobs, columns.amounts(capacity), outcome.decisions, outcome.seconds)
