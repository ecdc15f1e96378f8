"""The shadow time of a job that does not fit now, and the extra amounts that are available alongside it from then on.

The names are those of the papers on EASY backfilling (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.pool.pool_state import PoolReservation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.job import Job


class Shadow(NamedTuple):
    """The reservation of a job."""

    time: float
    """Latest start of the job, in seconds; infinite if jobs without a walltime must end first."""
    extra: int
    """Amounts available from then on alongside the job itself; packed."""


def shadow_time(job: Job, now: float, available: int, running: Iterable[tuple[float, int, Job]]) -> Shadow:
    """Return the shadow of a job that fits into the empty pool; `running`: by deadline, as PoolState.running."""
    request, guards = job.request, job.guards
    start = now
    for deadline, _, running_job in running:
        if deadline > start and (available - request) & guards == guards:
            break
        available += running_job.request
        start = deadline
    return Shadow(start, available - request)


def earliest_reservation(
    job: Job, now: float, available: int, running: Iterable[tuple[float, int, Job]]
) -> PoolReservation:
    """Return the reservation of a job at its shadow time."""
    return PoolReservation(job, shadow_time(job, now, available, running).time)
