"""What was promised along the way, on one pool: when each job was first told a start, and which."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.shadow import earliest_reservation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision, PoolPolicy, PoolReservation, PoolState


class ReservationRecorder:
    """Notes the first promise to each job; a Watcher of the virtual clock."""

    def __init__(self, policy: PoolPolicy) -> None:
        self._policy = policy
        self.first_reservations: dict[Job, tuple[float, float]] = {}
        """When a job was first promised a start, and for when; not before anybody knew that."""
        self._waiting = 0
        """How many of them wait."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Nothing is promised yet."""

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Look for promises that are new, where anyone still lacks one."""
        made = self.first_reservations
        self._waiting -= sum(job in made for job in decision.starts)
        if len(state.pending) - len(decision.starts) > self._waiting:
            for one in self._promised(now, state, decision):
                if one.job not in made and one.start < inf:
                    made[one.job] = (now, one.start)
                    self._waiting += 1

    def ended(self, now: float, job: Job, run: float) -> None:
        """Promise nothing: ends do not."""

    def _promised(self, now: float, state: PoolState, decision: PoolDecision) -> Iterable[PoolReservation]:
        """Return what the decision promises; it is not applied yet."""
        if self._policy.eager:
            return self._policy.reservations(now, state)
        job = decision.reserved_job
        if job is None or job in self.first_reservations:
            return ()
        room = state.available - sum(one.request for one in decision.starts)
        running = sorted([*state.running, *((now + one.walltime, one.serial, one) for one in decision.starts)])
        return (earliest_reservation(job, now, room, running),)
