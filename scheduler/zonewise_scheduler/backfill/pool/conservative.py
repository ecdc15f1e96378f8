"""Policies with several reservations: depth k, and conservative backfilling, where every job has one.

A job is promised the earliest start at which the profile has room for it until its latest end, and from then on the
profile is without that room: whoever comes later finds only what no promise needs. When a job ends before its latest
end, the room it leaves is offered round: in the order of the queue each reservation is brought forward to the earliest
start there is, with all others in their places (the compression of conservative backfilling; Mu'alem and Feitelson,
TPDS 2001). Jobs beyond the depth start only where they fit into the profile at once.

The invariant: where declared run times are upper bounds, no job starts later than it was promised. The profile never
has more than what is truly free, for a job that ends only adds to it. A reservation is made only where the profile has
room for it beside all others, and is only ever moved to an earlier start. So there is room when its time comes.

A job that must wait for others which declare no run time has no time to be promised: what it needs is withheld from
everyone who comes later until they have ended.

When something happens that was not to be expected (a job outlives its run time, or nodes go), each reservation that
there still is room for stays where it was, and the others become as early as possible.
"""

from __future__ import annotations

from bisect import insort
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH
from zonewise_scheduler.backfill.pool.easy import aged_jobs, walltime_order
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolReservation, queue_order
from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolState


class ConservativeBackfill:
    """Remembers what was promised; one for each State."""

    __slots__ = ("_depth", "_grown", "_line", "_profile", "_reserve_after", "_shortest_first", "_starts")

    def __init__(
        self, depth: int = UNLIMITED_DEPTH, reserve_after: float = 0.0, *, shortest_first: bool = False
    ) -> None:
        self._depth = depth
        self._reserve_after = reserve_after
        self._shortest_first = shortest_first
        self._line: list[Job] = []
        """Who is promised a start, in the order of the queue."""
        self._starts: dict[Job, float] = {}
        """When; infinite where it is unknown."""
        self._profile = AvailabilityProfile(0.0, 0)
        self._grown = -inf
        """Until when the profile may have room that was not offered to all of the line."""

    @property
    def overtaking(self) -> bool:
        """Whoever finds room beside the reservations may start."""
        return True

    @property
    def eager(self) -> bool:
        """A job that does not fit is promised a start when it comes."""
        return True

    @property
    def reserved_starts(self) -> Mapping[Job, float]:
        """Who is promised a start, and when; infinite where it is unknown."""
        return self._starts

    def resume(self, starts: Mapping[Job, float], now: float, state: PoolState) -> None:
        """Go on from promises that were made to waiting jobs before; where there is no room for all, decide anew."""
        profile = self._profile = AvailabilityProfile(now, state.available, state.running)
        self._line, self._starts = sorted(starts, key=queue_order), dict(starts)
        self._grown = inf
        sound = True
        for job in sorted(starts, key=self._starts.__getitem__):  # what is withheld comes last, and need not be there
            begin, end = max(starts[job], now), starts[job] + job.walltime
            sound &= begin == inf or profile.fits(job, begin)
            profile.add(now if begin == inf else begin, end, -job.request)
        state.must_rebuild = not sound
        state.new_jobs = [job for job in state.new_jobs if job not in starts]

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return what starts now; promise starts to others."""
        profile = self._refresh(now, state)
        starts = self._due(now, state, profile)
        self._promise(now, state, profile, starts)
        if self._depth < UNLIMITED_DEPTH or self._reserve_after:
            self._fill(now, state, profile, starts)
        wake = self._first()
        if wake <= now:  # others must end in this very instant and have not done so yet
            wake = min((start for start in self._starts.values() if start > now), default=inf)
        return PoolDecision(starts, None, wake)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:  # noqa: ARG002 -- promised at the decision
        """Return what is promised, in the order of the queue."""
        ends: dict[float, list[Job]] = {}
        for latest, _, job in state.running:
            ends.setdefault(latest, []).append(job)
        for job, start in self._starts.items():
            if start < inf:
                ends.setdefault(start + job.walltime, []).append(job)
        promised = ((job, self._starts[job]) for job in self._line)
        return [PoolReservation(job, start, tuple(ends.get(start, ()))) for job, start in promised]

    def trial_order(self, now: float, state: PoolState) -> list[Job]:
        """Return those that are promised a start, those that will be, then the others."""
        first = dict.fromkeys([*self._line, *aged_jobs(now, state.pending, self._reserve_after)])
        rest = [job for job in state.pending if job not in first]
        return [*first, *(sorted(rest, key=walltime_order) if self._shortest_first else rest)]

    # --- what has changed since the last decision

    def _refresh(self, now: float, state: PoolState) -> AvailabilityProfile:
        """Bring the profile and the reservations up to now."""
        if state.must_rebuild:
            return self._build(now, state)
        profile = self._profile
        profile.advance(now)
        offered = len(state.withdrawn) > 0
        for job, latest in state.ended:
            if latest > now:
                profile.add(now, latest, job.request)
                self._grown = max(self._grown, latest)
                offered = True
        for job in state.withdrawn:
            if job in self._starts:
                self._grown = max(self._grown, self._give_up(job, now, profile))
        if offered:
            self._compress(now, profile)
        return profile

    def _build(self, now: float, state: PoolState) -> AvailabilityProfile:
        """Begin anew; reservations stay where they were as far as there is room for them."""
        profile = self._profile = AvailabilityProfile(now, state.available, state.running)
        late: list[Job] = []
        before, line = (
            self._starts,
            [job for job in self._line if job not in state.withdrawn and state.fits_capacity(job)],
        )
        self._line, self._starts = [], {}
        for job in line:
            start = max(before[job], now)
            if start < inf and profile.fits(job, start):
                self._place(job, start, now, profile)
            else:
                late.append(job)
        for job in late:
            self._place(job, profile.earliest(job), now, profile)
        self._grown = inf
        self._compress(now, profile)
        return profile

    def _compress(self, now: float, profile: AvailabilityProfile) -> None:
        """Offer the room that has come free to each in the order of the queue."""
        grown, left = self._grown, -inf
        for job in self._line:
            if self._starts[job] == inf:
                profile.add(now, inf, job.request)
                grown = inf
        for job in self._line:
            start = self._starts[job]
            if start == inf:
                self._take(job, profile.earliest(job), now, profile)
                left = inf
            elif (better := profile.earlier_start(job, start, grown)) is not None:
                profile.add(better, min(start, better + job.walltime), -job.request)
                profile.add(max(start, better + job.walltime), start + job.walltime, job.request)
                self._starts[job] = better
                grown, left = max(grown, start + job.walltime), max(left, start + job.walltime)
        self._grown = left

    # --- what happens now

    def _due(self, now: float, state: PoolState, profile: AvailabilityProfile) -> list[Job]:
        """Return those whose time has come; one that comes late is given all of its run time."""
        starts: list[Job] = []
        if self._first() > now:
            return starts
        room = state.available
        for job in self._line:
            start = self._starts[job]
            if start <= now and (room - job.request) & job.guards == job.guards:
                profile.add(max(start + job.walltime, now), now + job.walltime, -job.request)
                room -= job.request
                starts.append(job)
                del self._starts[job]
        if starts:
            self._line = [job for job in self._line if job in self._starts]
        return starts

    def _promise(self, now: float, state: PoolState, profile: AvailabilityProfile, starts: list[Job]) -> None:
        """Give reservations to those next in the order of the queue; one that is for now is a start.

        Unless others must end in this very instant and have not done so yet: then it is due when they have.
        """
        gone = set(starts)
        room = state.available - sum(job.request for job in starts)
        for job in self._next(now, state):
            if len(self._line) >= self._depth:
                return
            if job in self._starts or job in gone or not state.fits_capacity(job):
                continue
            start = profile.earliest(job)
            if start <= now and (room - job.request) & job.guards == job.guards:
                profile.add(now, now + job.walltime, -job.request)
                room -= job.request
                starts.append(job)
            else:
                self._place(job, start, now, profile)

    def _fill(self, now: float, state: PoolState, profile: AvailabilityProfile, starts: list[Job]) -> None:
        """Start what fits between all reservations."""
        gone = set(starts)
        room = state.available - sum(job.request for job in starts)
        seen = state.pending if state.must_retry else state.new_jobs
        rest = [job for job in seen if job not in self._starts and job not in gone]
        if self._shortest_first:
            rest.sort(key=walltime_order)
        for job in rest:
            if (room - job.request) & job.guards == job.guards and profile.fits(job, now):
                profile.add(now, now + job.walltime, -job.request)
                room -= job.request
                starts.append(job)

    def _next(self, now: float, state: PoolState) -> Iterable[Job]:
        """Return who may lack a reservation, in the order of the queue: if all have one, only those that just came."""
        if self._depth < UNLIMITED_DEPTH or self._reserve_after or state.must_rebuild:
            return aged_jobs(now, state.pending, self._reserve_after)
        return sorted(state.new_jobs, key=queue_order)

    def _first(self) -> float:
        """Return the earliest start that is promised; infinite where there is none."""
        return min(self._starts.values(), default=inf)

    # --- one reservation

    def _place(self, job: Job, start: float, now: float, profile: AvailabilityProfile) -> None:
        """Promise a start."""
        insort(self._line, job, key=queue_order)
        self._take(job, start, now, profile)

    def _take(self, job: Job, start: float, now: float, profile: AvailabilityProfile) -> None:
        """Take the room from the profile; from now on where the start is unknown."""
        self._starts[job] = start
        profile.add(now if start == inf else start, start + job.walltime, -job.request)

    def _give_up(self, job: Job, now: float, profile: AvailabilityProfile) -> float:
        """Forget a reservation; return until when there is more room."""
        self._line.remove(job)
        start = self._starts.pop(job)
        profile.add(now if start == inf else max(start, now), start + job.walltime, job.request)
        return start + job.walltime
