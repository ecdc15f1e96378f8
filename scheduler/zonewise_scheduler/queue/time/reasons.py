"""Why a job waits, as a value: what there is too little of, whose reservation it would delay, who must end first."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.time.profile import Profile
from zonewise_scheduler.queue.time.shadow import reservation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.queue.time.amounts import Columns
    from zonewise_scheduler.queue.time.state import Job, Reservation, State


class Reason(NamedTuple):
    """Why a job does not start now; where all is empty, nothing but its turn in the queue is in the way."""

    never: tuple[str, ...] = ()
    """Resources of which there is too little even when all has ended."""
    short: tuple[str, ...] = ()
    """Resources of which there is too little now."""
    delayed: Reservation | None = None
    """The first reservation that it would delay; looked for only where there is enough of everything now."""
    after: tuple[Job, ...] = ()
    """Those that end when there is enough, if all run for as long as they declare."""


def reason_of(job: Job, now: float, state: State, columns: Columns, reservations: Sequence[Reservation]) -> Reason:
    """Return why a waiting job does not start now, beside what is promised (Policy.reservations)."""
    if never := columns.short(state.capacity, job.demand, job.guards):
        return Reason(never)
    others = [one for one in reservations if one.job is not job]
    if short := columns.short(state.room, job.demand, job.guards):
        own = next((one for one in reservations if one.job is job), None)
        after = own.after if own is not None else reservation_of(job, now, state.room, state.running).after
        return Reason((), short, None, after)
    profile = Profile(now, state.room, state.running)
    for one in others:
        profile.change(now if one.start == inf else one.start, one.start + one.job.limit, -one.job.demand)
        if not profile.fits(job, now):
            return Reason(delayed=one)
    return Reason()
