"""A simulated pool of a few tasks, and its history: jobs as objects, of several resources, in any order.

`zonewise simulate` holds a log in columns (simulator.pool_log); tests compare its history with this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.simulator.history import History, JobHistory, JobRun
from zonewise_scheduler.simulator.pool_simulation import PoolCost, PoolObserver, Task, stream_pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.packed_amounts import ResourcePacking
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.simulator.reservations import FirstReservations


class PoolRun(NamedTuple):
    """The tasks by submission time, and the starts of those that fit."""

    tasks: list[Task]
    starts: dict[Job, float]
    cost: PoolCost


def run_pool(tasks: Iterable[Task], capacity: int, policy: PoolPolicy, observer: PoolObserver | None = None) -> PoolRun:
    """Simulate tasks, in any order and with unique serials, on a machine of this packed capacity."""
    ordered = sorted(tasks, key=lambda task: (task.job.submitted, task.job.serial))
    starts: dict[Job, float] = {}
    return PoolRun(ordered, starts, stream_pool(ordered, capacity, policy, starts.__setitem__, observer))


def unpack_request(packing: ResourcePacking, request: int) -> dict[str, int]:
    """Return a packed request (PackedRequest.amount) by resource."""
    return packing.unpack_available(packing.pack_available(dict.fromkeys(packing.names, 0)) + request)


def pool_history(
    run: PoolRun,
    packing: ResourcePacking,
    capacity: int,
    forecasts: Mapping[Job, Forecast] | None = None,
    reservations: FirstReservations | None = None,
) -> History:
    """Return the history of a run; forecasts are a PoolForecaster's, reservations a ReservationRecorder's."""
    jobs: list[JobHistory] = []
    for job, run_time in run.tasks:
        start, forecast = run.starts.get(job), (forecasts or {}).get(job)
        jobs.append(
            JobHistory(
                job.name or str(job.serial), "", "", job.submitted, job.walltime, unpack_request(packing, job.request),
                1, job.priority, "refused" if start is None else "done",
                () if start is None else (JobRun(start, start + run_time, start),),
                None if reservations is None else reservations.get(job.serial),
                None if forecast is None else (forecast.earliest, forecast.likely, forecast.latest),
            )
        )  # fmt: skip
    return History(jobs, packing.unpack_available(capacity), *run.cost)
