"""Policies with one reservation or none: FIFO, greedy, EASY and its variants.

1. Jobs that have waited for `reserve_after` start in the order of the queue while they fit. The first of them that does
   not is promised a reservation: its shadow time is the earliest at which it fits if all that run do so to their latest
   ends, and what is then free beside it is the extra room.
2. Every other job, in the order of the queue or the shortest first, starts if it fits and either ends by the shadow
   time, or fits into the extra room, which it uses up.

With `reserve_after` of zero that is EASY; if it is infinite nothing is ever reserved.

The invariant: where declared run times are upper bounds, no job that starts ever delays a reservation that was
promised. One that ends by the shadow time has given back all it took by then; one in the extra room leaves the promised
job what it needs; one that declares no run time has only the second way. A job that ends early only brings the shadow
time forward. And the promise stays with its job until that has started, whatever jobs of higher priority come: those
are first among the others. So the shadow time, though computed anew at every event, is never later than it was.

Where jobs must end first whose run times nobody declared, the shadow time is unknown. Jobs that declare how long they
run may start all the same, since they end; those that do not only take the extra room.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import merge
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision
from zonewise_scheduler.backfill.pool.shadow import earliest_reservation, shadow_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.backfill.pool.pool_state import PoolReservation, PoolState


class EasyBackfill(NamedTuple):
    """What distinguishes the policies; nothing is remembered here between two decisions."""

    reserve_after: float = 0.0
    """Seconds that a job must have waited before anything is reserved for it."""
    shortest_first: bool = False
    """Whether the others are tried by declared run time (SJBF) rather than in the order of the queue; within a
    priority."""
    overtaking: bool = True
    """Whether there are others at all; without them it is FIFO (Kueue's StrictFIFO), which promises nothing."""

    @property
    def eager(self) -> bool:
        """Jobs that do not fit only wait; a reservation is for the first of them, and is made when it is needed."""
        return False

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return what starts now."""
        starts, holder, room = self._in_order(now, state)
        if not self.overtaking:
            return PoolDecision(starts)
        seen = state.pending if state.must_retry else state.new_jobs
        rest = [job for job in seen if (room - job.request) & job.guards == job.guards and job is not holder]
        if rest and starts:
            gone = set(starts)
            rest = [job for job in rest if job not in gone]
        if rest:
            if self.shortest_first and len(rest) > 1:
                rest.sort(key=walltime_order)
            if holder is None:
                _fill(rest, room, starts)
            else:
                _fill_around(holder, rest, now, room, _running(now, state, starts), starts)
        return PoolDecision(starts, holder)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        """Return the reservation of the job that the last decision promised one."""
        job = state.reserved_job
        if job is None:
            return []
        return [earliest_reservation(job, now, state.available, state.running)]

    def trial_order(self, now: float, state: PoolState) -> list[Job]:
        """Return the promised job, those that have waited long enough, then the others."""
        first = dict.fromkeys([] if state.reserved_job is None else [state.reserved_job])
        first |= dict.fromkeys(aged_jobs(now, state.pending, self.reserve_after))
        rest = [job for job in state.pending if job not in first]
        return [*first, *(sorted(rest, key=walltime_order) if self.shortest_first else rest)]

    def _in_order(self, now: float, state: PoolState) -> tuple[list[Job], Job | None, int]:
        """Return those that start in the order of the queue, who comes next, and what is then free."""
        starts: list[Job] = []
        room, holder = state.available, state.reserved_job
        if holder is not None:
            if (room - holder.request) & holder.guards != holder.guards:
                return starts, holder, room
            starts.append(holder)
            room -= holder.request
        for job in aged_jobs(now, state.pending, self.reserve_after):
            if job is holder:
                continue
            if (room - job.request) & job.guards == job.guards:
                starts.append(job)
                room -= job.request
            elif state.fits_capacity(job):
                return starts, job, room
        return starts, None, room


def aged_jobs(now: float, pending: Sequence[Job], reserve_after: float) -> Iterator[Job]:
    """Yield the jobs that have waited for so long, in the order of the queue: the first of each priority."""
    place = 0
    while place < len(pending) and reserve_after < inf:
        job = pending[place]
        if now - job.submitted >= reserve_after:
            yield job
            place += 1
        else:
            place = bisect_right(pending, -job.priority, place, key=_rank)


def _fill(rest: list[Job], room: int, starts: list[Job]) -> None:
    """Start what fits."""
    for job in rest:
        if (room - job.request) & job.guards == job.guards:
            room -= job.request
            starts.append(job)


def _fill_around(
    holder: Job, rest: list[Job], now: float, room: int, running: Sequence[tuple[float, int, Job]], starts: list[Job]
) -> None:
    """Start what fits and does not delay the promised job."""
    start, extra = shadow_time(holder, now, room, running)
    for job in rest:
        if (room - job.request) & job.guards != job.guards:
            continue
        if now + job.walltime > start or job.walltime == inf:
            if (extra - job.request) & job.guards != job.guards:
                continue
            extra -= job.request
        room -= job.request
        starts.append(job)


def _running(now: float, state: PoolState, starts: list[Job]) -> Sequence[tuple[float, int, Job]]:
    """Return what runs, with those that are about to."""
    if not starts:
        return state.running
    return list(merge(state.running, sorted((now + job.walltime, job.serial, job) for job in starts)))


def walltime_order(job: Job) -> tuple[int, float]:
    """Return the place of a job among those tried by their declared run times."""
    return (-job.priority, job.walltime)


def _rank(job: Job) -> int:
    return -job.priority
