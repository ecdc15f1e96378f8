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

from zonewise_scheduler.queue.time.shadow import reservation_of, shadow_of
from zonewise_scheduler.queue.time.state import Decision, Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.queue.time.state import Reservation, State


class Backfill(NamedTuple):
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

    def decide(self, now: float, state: State) -> Decision:
        """Return what starts now."""
        starts, holder, room = self._in_order(now, state)
        if not self.overtaking:
            return Decision(starts)
        seen = state.waiting if state.stale else state.fresh
        rest = [job for job in seen if (room - job.demand) & job.guards == job.guards and job is not holder]
        if rest and starts:
            gone = set(starts)
            rest = [job for job in rest if job not in gone]
        if rest:
            if self.shortest_first and len(rest) > 1:
                rest.sort(key=shortest)
            if holder is None:
                _fill(rest, room, starts)
            else:
                _fill_around(holder, rest, now, room, _running(now, state, starts), starts)
        return Decision(starts, holder)

    def reservations(self, now: float, state: State) -> list[Reservation]:
        """Return the reservation of the job that the last decision promised one."""
        job = state.holder
        if job is None:
            return []
        return [reservation_of(job, now, state.room, state.running)]

    def turn(self, now: float, state: State) -> list[Job]:
        """Return the promised job, those that have waited long enough, then the others."""
        first = dict.fromkeys([] if state.holder is None else [state.holder])
        first |= dict.fromkeys(aged(now, state.waiting, self.reserve_after))
        rest = [job for job in state.waiting if job not in first]
        return [*first, *(sorted(rest, key=shortest) if self.shortest_first else rest)]

    def _in_order(self, now: float, state: State) -> tuple[list[Job], Job | None, int]:
        """Return those that start in the order of the queue, who comes next, and what is then free."""
        starts: list[Job] = []
        room, holder = state.room, state.holder
        if holder is not None:
            if (room - holder.demand) & holder.guards != holder.guards:
                return starts, holder, room
            starts.append(holder)
            room -= holder.demand
        for job in aged(now, state.waiting, self.reserve_after):
            if job is holder:
                continue
            if (room - job.demand) & job.guards == job.guards:
                starts.append(job)
                room -= job.demand
            elif state.possible(job):
                return starts, job, room
        return starts, None, room


def aged(now: float, waiting: Sequence[Job], reserve_after: float) -> Iterator[Job]:
    """Yield the jobs that have waited for so long, in the order of the queue: the first of each priority."""
    place = 0
    while place < len(waiting) and reserve_after < inf:
        job = waiting[place]
        if now - job.submitted >= reserve_after:
            yield job
            place += 1
        else:
            place = bisect_right(waiting, -job.priority, place, key=_rank)


def _fill(rest: list[Job], room: int, starts: list[Job]) -> None:
    """Start what fits."""
    for job in rest:
        if (room - job.demand) & job.guards == job.guards:
            room -= job.demand
            starts.append(job)


def _fill_around(
    holder: Job, rest: list[Job], now: float, room: int, running: Sequence[tuple[float, int, Job]], starts: list[Job]
) -> None:
    """Start what fits and does not delay the promised job."""
    start, extra = shadow_of(holder, now, room, running)
    for job in rest:
        if (room - job.demand) & job.guards != job.guards:
            continue
        if now + job.limit > start or job.limit == inf:
            if (extra - job.demand) & job.guards != job.guards:
                continue
            extra -= job.demand
        room -= job.demand
        starts.append(job)


def _running(now: float, state: State, starts: list[Job]) -> Sequence[tuple[float, int, Job]]:
    """Return what runs, with those that are about to."""
    if not starts:
        return state.running
    return list(merge(state.running, sorted((now + job.limit, job.serial, job) for job in starts)))


def shortest(job: Job) -> tuple[int, float]:
    """Return the place of a job among those tried by their declared run times."""
    return (-job.priority, job.limit)


def _rank(job: Job) -> int:
    return -job.priority
