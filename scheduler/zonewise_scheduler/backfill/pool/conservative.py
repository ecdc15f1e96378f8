"""Policies with several reservations: depth k, and conservative backfilling, which gives every job one.

A job gets a reservation at the earliest start at which it fits into the profile until its deadline. Its amounts are
then removed from the profile, so a later job can use only what no reservation needs. When a job ends before its
deadline, each reservation is brought forward in the order of the queue, while all others keep their starts. This is the
compression of conservative backfilling (Mu'alem and Feitelson, TPDS 2001). Jobs beyond the depth start only if they fit
into the profile at once.

Invariant: if walltimes are upper bounds, no job starts later than reserved.

Proof.
1. The profile never has more than is really available: the end of a job only adds to it.
2. A reservation is made only where it fits into the profile alongside all others.
3. A reservation moves only to earlier starts, so the job fits when its start comes.

A job that must wait for others without a walltime has no known start. Its amounts are withheld from all later jobs
until those others have ended.

After an overrun, each reservation that still fits keeps its start. The others move to the earliest possible starts.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.pool.job import queue_order
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolReservation
from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolState


_RESERVES_ALL = BackfillPolicy(depth=UNLIMITED_DEPTH)


class ConservativeBackfill:
    """Holds the reservations of one PoolState, however far away: no policy with several has BackfillPolicy.max_hold."""

    __slots__ = (
        "_freed_until", "_policy", "_profile", "_reserved_jobs", "_starts",
    )  # fmt: skip

    def __init__(self, policy: BackfillPolicy = _RESERVES_ALL) -> None:
        self._policy = policy
        self._reserved_jobs: list[Job] = []
        """The jobs that have reservations, in the order of the queue."""
        self._starts: dict[Job, float] = {}
        """Their reserved starts; infinite if unknown."""
        self._profile = AvailabilityProfile(0.0, 0)
        self._freed_until = inf
        """Up to this time, the profile may have freed amounts that would let some reservation move forward."""

    @property
    def eager(self) -> bool:
        """A job that does not fit gets its reservation on arrival."""
        return True

    def fork(self) -> ConservativeBackfill:
        """Return an independent copy of the reservations, for a copy of the state."""
        other = ConservativeBackfill(self._policy)
        other._reserved_jobs, other._starts = self._reserved_jobs[:], self._starts.copy()
        other._profile, other._freed_until = self._profile.copy(), self._freed_until
        return other

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return the jobs that start now; make reservations for others."""
        profile = self._refresh(now, state)
        starts = self._start_reserved(now, state, profile)
        self._make_reservations(now, state, profile, starts)
        if not self._reserves_at_once:
            self._backfill(now, state, profile, starts)
        wake_at = self._first_start()
        if wake_at <= now:  # that job waits for jobs that are due to end now and have not ended yet
            wake_at = min((start for start in self._starts.values() if start > now), default=inf)
        return PoolDecision(starts, None, wake_at)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:  # noqa: ARG002 -- as of the decision
        """Return the reservations, in the order of the queue."""
        return [PoolReservation(job, self._starts[job]) for job in self._reserved_jobs]

    # --- changes since the last decision

    def _refresh(self, now: float, state: PoolState) -> AvailabilityProfile:
        """Update the profile and the reservations to the current time."""
        if state.must_rebuild:
            return self._rebuild(now, state)
        profile = self._profile
        profile.advance(now)
        freed = False
        for job, deadline in state.ended:
            if deadline > now:
                profile.add(now, deadline, job.request)
                self._freed_until = max(self._freed_until, deadline)
                freed = True
        if freed:
            self._compress(now, profile)
        return profile

    def _rebuild(self, now: float, state: PoolState) -> AvailabilityProfile:
        """Rebuild the profile; reservations that still fit keep their starts."""
        profile = self._profile = AvailabilityProfile(now, state.available, state.running)
        moved: list[Job] = []
        jobs, old_starts = self._reserved_jobs, self._starts
        self._reserved_jobs, self._starts = [], {}
        for job in jobs:
            start = max(old_starts[job], now)
            if start < inf and profile.fits(job, start):
                self._reserve(job, start, now, profile)
            else:
                moved.append(job)
        for job in moved:
            self._reserve(job, profile.earliest(job), now, profile)
        self._freed_until = inf
        self._compress(now, profile)
        return profile

    def _compress(self, now: float, profile: AvailabilityProfile) -> None:
        """Bring each reservation forward, in the order of the queue."""
        freed_until, still_freed_until = self._freed_until, now
        for job in self._reserved_jobs:
            if self._starts[job] == inf:
                profile.add(now, inf, job.request)
                freed_until = inf
        for job in self._reserved_jobs:
            start = self._starts[job]
            if start == inf:
                self._set_start(job, profile.earliest(job), now, profile)
                still_freed_until = inf
            elif (earlier := profile.earlier_start(job, start, freed_until)) is not None:
                end, earlier_end = start + job.walltime, earlier + job.walltime
                profile.add(earlier, min(start, earlier_end), -job.request)
                profile.add(max(start, earlier_end), end, job.request)
                self._starts[job] = earlier
                freed_until, still_freed_until = max(freed_until, end), max(still_freed_until, end)
        self._freed_until = still_freed_until

    # --- the decision

    def _start_reserved(self, now: float, state: PoolState, profile: AvailabilityProfile) -> list[Job]:
        """Return the jobs whose reserved start has come; a job that starts late keeps its whole walltime."""
        starts: list[Job] = []
        if self._first_start() > now:
            return starts
        available = state.available
        for job in self._reserved_jobs:
            start = self._starts[job]
            if start <= now and (available - job.request) & job.guards == job.guards:
                profile.add(max(start + job.walltime, now), now + job.walltime, -job.request)
                available -= job.request
                starts.append(job)
                del self._starts[job]
        if starts:
            self._reserved_jobs = [job for job in self._reserved_jobs if job in self._starts]
        return starts

    def _make_reservations(self, now: float, state: PoolState, profile: AvailabilityProfile, starts: list[Job]) -> None:
        """Make reservations in the order of the queue, up to the depth; a job that fits now starts instead.

        A start that waits for jobs which are due to end now and have not ended yet remains a reservation.
        """
        started = set(starts)
        available = state.available - sum(job.request for job in starts)
        for job in self._without_reservation(now, state):
            if len(self._reserved_jobs) >= self._policy.depth:
                return
            if job in self._starts or job in started:
                continue
            start = profile.earliest(job)
            if start <= now and (available - job.request) & job.guards == job.guards:
                profile.add(now, now + job.walltime, -job.request)
                available -= job.request
                starts.append(job)
            else:
                self._reserve(job, start, now, profile)

    def _backfill(self, now: float, state: PoolState, profile: AvailabilityProfile, starts: list[Job]) -> None:
        """Add to the starts the jobs that fit alongside all reservations."""
        started = set(starts)
        available = state.available - sum(job.request for job in starts)
        candidates = state.pending if state.must_retry else state.new_jobs
        rest = [job for job in candidates if job not in self._starts and job not in started]
        _sort_for_backfill(rest, self._policy)
        for job in rest:
            if (available - job.request) & job.guards == job.guards and profile.fits(job, now):
                profile.add(now, now + job.walltime, -job.request)
                available -= job.request
                starts.append(job)

    def _without_reservation(self, now: float, state: PoolState) -> Iterable[Job]:
        """Return the jobs that may lack a reservation, in the order of the queue; if all get one, only the new jobs."""
        if not self._reserves_at_once or state.must_rebuild:
            return _due_jobs(now, state.pending, self._policy)
        return sorted(state.new_jobs, key=queue_order)

    @property
    def _reserves_at_once(self) -> bool:
        """Whether each job gets a reservation on arrival."""
        return self._policy.depth >= UNLIMITED_DEPTH and not self._policy.reserve_after

    def _first_start(self) -> float:
        """Return the earliest reserved start; infinite if there is none."""
        return min(self._starts.values(), default=inf)

    # --- one reservation

    def _reserve(self, job: Job, start: float, now: float, profile: AvailabilityProfile) -> None:
        insort(self._reserved_jobs, job, key=queue_order)
        self._set_start(job, start, now, profile)

    def _set_start(self, job: Job, start: float, now: float, profile: AvailabilityProfile) -> None:
        """Set a job's start and remove its amounts from the profile, from now on if the start is unknown."""
        self._starts[job] = start
        profile.add(now if start == inf else start, start + job.walltime, -job.request)


def _due_jobs(now: float, pending: Sequence[Job], policy: BackfillPolicy) -> Iterator[Job]:
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


def _sort_for_backfill(jobs: list[Job], policy: BackfillPolicy) -> None:
    """Sort jobs that are not due by the policy's order; they must be in the order of the queue."""
    if policy.shortest_first:
        jobs.sort(key=lambda job: (-job.priority, policy.backfill_key(job.walltime, job.submitted)))


def _falling_priority(job: Job) -> int:
    return -job.priority
