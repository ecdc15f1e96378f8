"""When a job that does not fit now can start at the latest, and what is left then: the shadow time and the extra room.

The names are those of the papers on EASY backfilling (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.pool.pool_state import Job, PoolReservation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Shadow(NamedTuple):
    """The reservation of a job."""

    time: float
    """When it starts at the latest; infinite where jobs must end first that declare no run time."""
    extra: int
    """What is free from then on beside the job itself (Columns.room)."""


def shadow_time(job: Job, now: float, available: int, running: Iterable[tuple[float, int, Job]]) -> Shadow:
    """Return the reservation of a job beside those that run, ascending by their latest ends.

    The job must fit when all of them have ended.
    """
    demand, guards = job.request, job.guards
    start = now
    for latest, _, other in running:
        if latest > start and (available - demand) & guards == guards:
            break
        available += other.request
        start = latest
    return Shadow(start, available - demand)


def earliest_reservation(
    job: Job, now: float, available: int, running: Sequence[tuple[float, int, Job]]
) -> PoolReservation:
    """Return the same as a value to tell."""
    start = shadow_time(job, now, available, running).time
    return PoolReservation(job, start, tuple(other for latest, _, other in running if latest == start))
