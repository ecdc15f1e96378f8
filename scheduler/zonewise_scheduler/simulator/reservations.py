"""Records the first reservation of each job during a simulation of one pool."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.shadow import earliest_reservation
from zonewise_scheduler.simulator.number_column import NumberColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolPolicy, PoolReservation, PoolState


class FirstReservations:
    """The first reservation with a finite start of each job, by serial: the time when it was made, and its start."""

    __slots__ = ("_made", "_starts")

    def __init__(self) -> None:
        self._made, self._starts = NumberColumn(), NumberColumn()

    def __contains__(self, serial: int) -> bool:
        """Return whether a job has a reservation."""
        return serial in self._made

    def add(self, serial: int, made: float, start: float) -> None:
        """Add the reservation of a job; times in seconds."""
        self._made[serial], self._starts[serial] = made, start

    def get(self, serial: int) -> tuple[float, float] | None:
        """Return the reservation of a job; None if it has none."""
        return (self._made[serial], self._starts[serial]) if serial in self._made else None

    def items(self) -> Iterator[tuple[int, tuple[float, float]]]:
        """Yield the serials with their reservations, ascending."""
        return ((serial, (self._made[serial], self._starts[serial])) for serial in self._made.indices())


class ReservationRecorder:
    """Records the first reservation of each job; a PoolObserver."""

    def __init__(self, policy: PoolPolicy) -> None:
        self._policy = policy
        self.first_reservations = FirstReservations()
        self._reserved_pending = 0
        """Number of recorded jobs that are pending."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Ignore submissions, which make no reservations."""

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Record new reservations, if any pending job lacks one."""
        first = self.first_reservations
        self._reserved_pending -= sum(job.serial in first for job in decision.starts)
        if len(state.pending) - len(decision.starts) > self._reserved_pending:
            for reservation in self._reservations(now, state, decision):
                if reservation.job.serial not in first and reservation.start < inf:
                    first.add(reservation.job.serial, now, reservation.start)
                    self._reserved_pending += 1

    def ended(self, now: float, job: Job, run: float) -> None:
        """Ignore ends, which make no reservations."""

    def _reservations(self, now: float, state: PoolState, decision: PoolDecision) -> Iterable[PoolReservation]:
        """Return the reservations of a decision that is not applied yet."""
        if self._policy.eager:
            return self._policy.reservations(now, state)
        job = decision.reserved_job
        if job is None or job.serial in self.first_reservations:
            return ()
        available = state.available - sum(started.request for started in decision.starts)
        starting = ((now + started.walltime, started.serial, started) for started in decision.starts)
        running = sorted([*state.running, *starting])
        return (earliest_reservation(job, now, available, running),)
