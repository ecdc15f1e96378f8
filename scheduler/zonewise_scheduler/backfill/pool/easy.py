"""Policies with one reservation or none: FIFO, greedy, EASY and its variants.

1. Jobs that are due (BackfillPolicy.reserve_age) start in the order of the queue while they fit. The first one that
   does not fit, and whose shadow time is near enough (BackfillPolicy.latest_start), gets the reservation. The shadow
   time is the earliest time at which a job fits if running jobs end at their deadlines. The extra amounts are what is
   available alongside the reserved job from then on.
2. All other jobs follow, in the order of the queue or the shortest first (BackfillPolicy.backfill_key). Such a job
   starts if it fits, and either ends by the shadow time or fits into the extra amounts. In the latter case, it uses
   them up.

If all jobs are due at once, this is EASY. If none ever is, there are no reservations.

Invariant: if walltimes are upper bounds, no job that starts ever delays the reservation.

Proof.
1. A job that ends by the shadow time has released all its amounts by then.
2. A job within the extra amounts leaves enough for the reserved job. A job without a walltime can start only this way.
3. A job that ends early only moves the shadow time to an earlier time.
4. A job keeps the reservation until it starts. A later job of higher priority is the first of the others.
5. So the shadow time, though recomputed at every decision, never moves to a later time.

The shadow time is unknown (infinite) if jobs without a walltime must end first. Jobs with a walltime may still start,
since they will end. Jobs without one may use only the extra amounts.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace, merge
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.policies import MAX_POSTPONED, BackfillPolicy
from zonewise_scheduler.backfill.pool.pending_order import PendingOrder
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision
from zonewise_scheduler.backfill.pool.shadow import Shadow, earliest_reservation, shadow_time

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pending_order import RequestGroup
    from zonewise_scheduler.backfill.pool.pool_state import PoolReservation, PoolState


class EasyBackfill(NamedTuple):
    """A policy with at most one reservation; it holds no state between two decisions."""

    policy: BackfillPolicy = BackfillPolicy()
    """Its depth is one. Without overtaking: FIFO (Kueue's StrictFIFO), without reservations."""

    @property
    def eager(self) -> bool:
        """A reservation is made when it is needed, not on arrival."""
        return False

    def fork(self) -> EasyBackfill:
        """Return the policy itself, since it holds no state."""
        return self

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return the jobs that start now."""
        starts, reserved_job, available = self._start_in_order(now, state)
        if not self.policy.overtaking:
            return PoolDecision(starts)
        order = state.pending_order(self.policy) if state.must_retry else PendingOrder(self.policy, state.new_jobs)
        groups = order.fitting(available)
        if groups:
            shadow = _shadow(reserved_job, now, available, state, starts)
            starts += backfilled(groups, now, available, shadow, {*starts, reserved_job})
        return PoolDecision(starts, reserved_job)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        """Return the reservation that the last decision made."""
        job = state.reserved_job
        if job is None:
            return []
        return [earliest_reservation(job, now, state.available, state.running)]

    def _start_in_order(self, now: float, state: PoolState) -> tuple[list[Job], Job | None, int]:
        """Return the jobs that start in the order of the queue, the reserved job, and the amounts then available."""
        starts: list[Job] = []
        available, reserved_job = state.available, state.reserved_job
        if reserved_job is not None:
            if (available - reserved_job.request) & reserved_job.guards != reserved_job.guards:
                return starts, reserved_job, available
            starts.append(reserved_job)
            available -= reserved_job.request
        postponed = 0
        for job in self._due(now, state):
            if job is reserved_job:
                continue
            if (available - job.request) & job.guards == job.guards:
                starts.append(job)
                available -= job.request
            else:
                latest = self.policy.latest_start(now, job.submitted)
                if latest == inf or _shadow(job, now, available, state, starts).time <= latest:
                    return starts, job, available
                postponed += 1
                if postponed == MAX_POSTPONED:
                    break
        return starts, None, available

    def _due(self, now: float, state: PoolState) -> Iterable[Job]:
        """Return the jobs that have waited long enough for a reservation, in the order of the queue."""
        if not self.policy.reserve_after:
            return state.pending
        return state.pending_order(self.policy).due(now) if self.policy.reserve_after < inf else ()


def backfilled(
    groups: Iterable[RequestGroup], now: float, available: int, shadow: Shadow, excluded: Container[Job | None]
) -> Iterator[Job]:
    """Yield the jobs that fit and do not delay a reservation, in the policy's order; each uses what it requests.

    `excluded`: jobs that start anyway, and the reserved job.
    """
    reserved_start, extra = shadow
    heads = [
        (group.entries[0], 0, group)
        for group in groups
        if now + group.walltimes[0] <= reserved_start or (extra - group.request) & group.guards == group.guards
    ]
    heapify(heads)
    while heads:
        (*_, job), index, group = heads[0]
        request, guards, entries, _ = group
        if (available - request) & guards != guards:
            heappop(heads)
            continue
        beside = (extra - request) & guards == guards
        if job not in excluded:
            ends_before = now + job.walltime <= reserved_start and job.walltime < inf
            if ends_before or beside:
                yield job
                available -= request
                extra -= 0 if ends_before else request
                beside = (extra - request) & guards == guards
        index += 1
        while not beside and index < len(entries) and now + entries[index][-1].walltime > reserved_start:
            index += 1
        if index < len(entries):
            heapreplace(heads, (entries[index], index, group))
        else:
            heappop(heads)


def _shadow(reserved_job: Job | None, now: float, available: int, state: PoolState, starts: Sequence[Job]) -> Shadow:
    """Return the shadow of the reserved job; without one, nothing can be delayed."""
    if reserved_job is None:
        return Shadow(inf, available)
    return shadow_time(reserved_job, now, available, _running_with(now, state, starts))


def _running_with(now: float, state: PoolState, starts: Sequence[Job]) -> Sequence[tuple[float, int, Job]]:
    """Return the running jobs by deadline, including those that start now."""
    if not starts:
        return state.running
    return list(merge(state.running, sorted((now + job.walltime, job.serial, job) for job in starts)))
