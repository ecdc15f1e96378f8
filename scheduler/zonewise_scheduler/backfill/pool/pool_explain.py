"""Why a job waits, as a value: what there is too little of, whose reservation it would delay, who must end first."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile
from zonewise_scheduler.backfill.pool.shadow import earliest_reservation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.pool.packed_amounts import ResourcePacking
    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolReservation, PoolState


class PoolExplanation(NamedTuple):
    """Why a job does not start now; where all is empty, nothing but its turn in the queue is in the way."""

    exceeds_capacity: tuple[str, ...] = ()
    """Resources of which there is too little even when all has ended."""
    insufficient: tuple[str, ...] = ()
    """Resources of which there is too little now."""
    delayed_reservation: PoolReservation | None = None
    """The first reservation that it would delay; looked for only where there is enough of everything now."""
    waits_for: tuple[Job, ...] = ()
    """Those that end when there is enough, if all run for as long as they declare."""


def explain_job(
    job: Job, now: float, state: PoolState, packing: ResourcePacking, reservations: Sequence[PoolReservation]
) -> PoolExplanation:
    """Return why a waiting job does not start now, beside what is promised (Policy.reservations)."""
    if never := packing.insufficient_resources(state.capacity, job.request, job.guards):
        return PoolExplanation(never)
    others = [one for one in reservations if one.job is not job]
    if short := packing.insufficient_resources(state.available, job.request, job.guards):
        own = next((one for one in reservations if one.job is job), None)
        after = (
            own.waits_for
            if own is not None
            else earliest_reservation(job, now, state.available, state.running).waits_for
        )
        return PoolExplanation((), short, None, after)
    profile = AvailabilityProfile(now, state.available, state.running)
    for one in others:
        profile.add(now if one.start == inf else one.start, one.start + one.job.walltime, -one.job.request)
        if not profile.fits(job, now):
            return PoolExplanation(delayed_reservation=one)
    return PoolExplanation()
