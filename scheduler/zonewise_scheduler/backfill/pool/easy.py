"""Policies with one reservation or none: FIFO, greedy, EASY and its variants.

1. Jobs that have waited for `reserve_after` start in the order of the queue while they fit. The first of them that does
   not fit has the reservation. Its shadow time is the earliest time at which it fits if running jobs end at their
   deadlines. The extra amounts are what is available beside it from then on.
2. Every other job, in the order of the queue or the shortest first, starts if it fits and either ends by the shadow
   time, or fits into the extra amounts, which it uses up.

With `reserve_after` of zero that is EASY; if it is infinite there are no reservations.

Invariant: where walltimes are upper bounds, no job that starts ever delays the reservation.

Proof.
1. A job that ends by the shadow time has given back all that it took by then.
2. A job within the extra amounts leaves what the reserved job needs. A job without a walltime has only this way.
3. A job that ends early only moves the shadow time to an earlier time.
4. The reservation stays with its job until that starts. A later job of higher priority is the first of the others.
5. So the shadow time, though computed anew at every decision, never moves to a later time.

The shadow time is unknown (infinite) where jobs without a walltime must end first. Jobs with a walltime may start all
the same, since they end. Jobs without one use only the extra amounts.
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
    """The parameters of the policy; it remembers nothing between two decisions."""

    reserve_after: float = 0.0
    """Seconds that a job waits before it may have the reservation."""
    shortest_first: bool = False
    """Whether the other jobs are tried by walltime (SJBF) within a priority, not in the order of the queue."""
    overtaking: bool = True
    """Whether the other jobs are tried at all. If not: FIFO (Kueue's StrictFIFO), without reservations."""

    @property
    def eager(self) -> bool:
        """A reservation is made when it is needed, not on arrival."""
        return False

    def fork(self) -> EasyBackfill:
        """Return itself, since it remembers nothing."""
        return self

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return what starts now."""
        starts, reserved_job, available = self._start_in_order(now, state)
        if not self.overtaking:
            return PoolDecision(starts)
        candidates = state.pending if state.must_retry else state.new_jobs
        rest = [
            job
            for job in candidates
            if (available - job.request) & job.guards == job.guards and job is not reserved_job
        ]
        if rest and starts:
            started = set(starts)
            rest = [job for job in rest if job not in started]
        if rest:
            if self.shortest_first and len(rest) > 1:
                rest.sort(key=walltime_order)
            if reserved_job is None:
                _start_fitting(rest, available, starts)
            else:
                _backfill(reserved_job, rest, now, available, _running_with(now, state, starts), starts)
        return PoolDecision(starts, reserved_job)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        """Return the reservation that the last decision made."""
        job = state.reserved_job
        if job is None:
            return []
        return [earliest_reservation(job, now, state.available, state.running)]

    def _start_in_order(self, now: float, state: PoolState) -> tuple[list[Job], Job | None, int]:
        """Return the jobs that start in the order of the queue, the reserved job, and what is then available."""
        starts: list[Job] = []
        available, reserved_job = state.available, state.reserved_job
        if reserved_job is not None:
            if (available - reserved_job.request) & reserved_job.guards != reserved_job.guards:
                return starts, reserved_job, available
            starts.append(reserved_job)
            available -= reserved_job.request
        for job in aged_jobs(now, state.pending, self.reserve_after):
            if job is reserved_job:
                continue
            if (available - job.request) & job.guards == job.guards:
                starts.append(job)
                available -= job.request
            elif state.fits_capacity(job):
                return starts, job, available
        return starts, None, available


def aged_jobs(now: float, pending: Sequence[Job], reserve_after: float) -> Iterator[Job]:
    """Yield the jobs that have waited for `reserve_after` seconds, in the order of the queue.

    They are the first of each priority.
    """
    index = 0
    while index < len(pending) and reserve_after < inf:
        job = pending[index]
        if now - job.submitted >= reserve_after:
            yield job
            index += 1
        else:
            index = bisect_right(pending, -job.priority, index, key=_falling_priority)


def _start_fitting(rest: list[Job], available: int, starts: list[Job]) -> None:
    """Add the jobs that fit to the starts."""
    for job in rest:
        if (available - job.request) & job.guards == job.guards:
            available -= job.request
            starts.append(job)


def _backfill(
    reserved_job: Job,
    rest: list[Job],
    now: float,
    available: int,
    running: Sequence[tuple[float, int, Job]],
    starts: list[Job],
) -> None:
    """Add the jobs that fit and do not delay the reservation to the starts."""
    start, extra = shadow_time(reserved_job, now, available, running)
    for job in rest:
        if (available - job.request) & job.guards != job.guards:
            continue
        if now + job.walltime > start or job.walltime == inf:
            if (extra - job.request) & job.guards != job.guards:
                continue
            extra -= job.request
        available -= job.request
        starts.append(job)


def _running_with(now: float, state: PoolState, starts: list[Job]) -> Sequence[tuple[float, int, Job]]:
    """Return the running jobs by deadline, those that start now included."""
    if not starts:
        return state.running
    return list(merge(state.running, sorted((now + job.walltime, job.serial, job) for job in starts)))


def walltime_order(job: Job) -> tuple[int, float]:
    """Return the sort key of jobs that are tried shortest first."""
    return (-job.priority, job.walltime)


def _falling_priority(job: Job) -> int:
    return -job.priority
