"""Policies with one reservation or none: FIFO, greedy, EASY and its variants.

1. Jobs that are due (BackfillPolicy.reserve_age) start in the order of the queue while they fit. The first of them that
   does not fit has the reservation. Its shadow time is the earliest time at which it fits if running jobs end at their
   deadlines. The extra amounts are what is available beside it from then on.
2. Every other job, in the order of the queue or the shortest first (BackfillPolicy.backfill_key), starts if it fits and
   either ends by the shadow time, or fits into the extra amounts, which it uses up.

Where all jobs are due at once, that is EASY. Where none ever is, there are no reservations.

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

from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision
from zonewise_scheduler.backfill.pool.shadow import earliest_reservation, shadow_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.backfill.pool.pool_state import PoolReservation, PoolState


class EasyBackfill(NamedTuple):
    """It remembers nothing between two decisions."""

    policy: BackfillPolicy = BackfillPolicy()
    """Its depth is one. Without overtaking: FIFO (Kueue's StrictFIFO), without reservations."""

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
        if not self.policy.overtaking:
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
            sort_for_backfill(rest, self.policy)
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
        for job in due_jobs(now, state.pending, self.policy):
            if job is reserved_job:
                continue
            if (available - job.request) & job.guards == job.guards:
                starts.append(job)
                available -= job.request
            elif state.fits_capacity(job):
                return starts, job, available
        return starts, None, available


def due_jobs(now: float, pending: Sequence[Job], policy: BackfillPolicy) -> Iterator[Job]:
    """Yield the jobs that have waited long enough for a reservation, in the order of the queue."""
    youngest = policy.shortest_reserve_age
    index = 0
    while index < len(pending) and policy.reserve_after < inf:
        job = pending[index]
        age = now - job.submitted
        if age >= youngest:
            if age >= policy.reserve_age(job.walltime):
                yield job
            index += 1
        else:  # all later ones of this priority are younger
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


def sort_for_backfill(jobs: list[Job], policy: BackfillPolicy) -> None:
    """Sort jobs that are not due by the policy's order; they come in the order of the queue."""
    if policy.shortest_first and len(jobs) > 1:
        jobs.sort(key=lambda job: (-job.priority, policy.backfill_key(job.walltime, job.submitted)))


def _falling_priority(job: Job) -> int:
    return -job.priority
