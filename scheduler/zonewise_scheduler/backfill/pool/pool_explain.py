"""Explains why a job of a pool waits."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.explanation import Explanation, QuotaShortage
from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile
from zonewise_scheduler.backfill.pool.shadow import earliest_reservation
from zonewise_scheduler.backfill.types import ReservedStart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.packed_amounts import ResourcePacking
    from zonewise_scheduler.backfill.pool.pool_state import PoolReservation, PoolState


def explain_job(
    job: Job, now: float, state: PoolState, packing: ResourcePacking, reservations: Sequence[PoolReservation]
) -> Explanation:
    """Return why a pending job waits, given the reservations of the policy (PoolPolicy.reservations)."""
    explanation = Explanation(job.name, "", state.pending.index(job) + 1, now)
    if exceeding := _shortages(job, state.capacity, state, packing, exceeds_capacity=True):
        return explanation._replace(shortages=exceeding, never_fits=True)
    own = next((reservation for reservation in reservations if reservation.job is job), None)
    shortages = _shortages(job, state.available, state, packing)
    profile = AvailabilityProfile(now, state.available, state.running)
    delayed: ReservedStart | None = None
    for reservation in reservations:
        if reservation is not own:
            start = now if reservation.start == inf else reservation.start
            profile.add(start, reservation.start + reservation.job.walltime, -reservation.job.request)
            if delayed is None and not shortages and not profile.fits(job, now):
                delayed = ReservedStart(reservation.job.name, reservation.start)
    if not shortages and delayed is None:
        return explanation
    waits_for: tuple[Job, ...] = ()
    if shortages:
        waits_for = (own or earliest_reservation(job, now, state.available, state.running)).waits_for
    return explanation._replace(
        shortages=shortages,
        delayed_reservation=delayed,
        waits_for=tuple(ended.name for ended in waits_for),
        start=profile.earliest(job) if own is None else own.start,
        reserved=own is not None,
    )


def _shortages(
    job: Job, available: int, state: PoolState, packing: ResourcePacking, *, exceeds_capacity: bool = False
) -> tuple[QuotaShortage, ...]:
    names = packing.insufficient_resources(available, job.request, job.guards)
    if not names:
        return ()
    amounts, capacity = packing.unpack_available(available), packing.unpack_available(state.capacity)
    request = packing.unpack_request(job.request)
    return tuple(
        QuotaShortage(
            "", name, request[name], max(0, amounts[name]), "nominal", "", capacity[name],
            exceeds_max_quota=exceeds_capacity,
        )
        for name in names
    )  # fmt: skip
