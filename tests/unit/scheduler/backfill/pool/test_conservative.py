"""Reservations that move: which times a reservation may lose or gain, and what other jobs may use."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from support.pool_jobs import cpus, job
from zonewise_scheduler.backfill.policies import OVERRUN_EXTENSION, UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.pool.conservative import ConservativeBackfill
from zonewise_scheduler.backfill.pool.pool_state import PoolState

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job


class Pool:
    """A pool of eight CPUs, with conservative backfilling by default; each event is followed by a decision."""

    def __init__(self, policy: BackfillPolicy | None = None) -> None:
        self.policy = ConservativeBackfill() if policy is None else ConservativeBackfill(policy)
        self.state = PoolState(cpus(8))

    def submit(self, *jobs: Job) -> None:
        """Submit jobs without making a decision."""
        for one in jobs:
            self.state.submit(one)

    def running(self) -> list[int]:
        """Return the serials of the running jobs."""
        return sorted(one.serial for one in self.state.run_spans)

    def decide(self, now: float) -> float:
        """Make and apply a decision; return when the next one is due."""
        decision = self.policy.decide(now, self.state)
        self.state.apply(decision, now)
        return decision.wake_at

    def starts(self, now: float = 0) -> dict[int, float]:
        """Return the reserved starts by serial."""
        return {reservation.job.serial: reservation.start for reservation in self.policy.reservations(now, self.state)}


def occupied() -> Pool:
    """Return a pool all of whose CPUs are in use until 10 s."""
    pool = Pool()
    pool.state.submit(job(0, 8, 10))
    pool.decide(0)
    return pool


@pytest.mark.parametrize("now", [10, 10.5, 25])
def test_a_job_that_starts_late_uses_its_amounts_for_its_whole_walltime(now: float) -> None:
    """The next job that needs all CPUs starts after it; a small job beside it may run for the same time."""
    pool = occupied()
    pool.submit(job(1, 7, 10))
    pool.decide(0)
    assert pool.starts() == {1: 10}
    pool.state.end(pool.state.running[0][2])
    pool.decide(now)
    pool.submit(job(2, 8, 5), job(3, 1, 10))
    pool.decide(now)
    assert (pool.running(), pool.starts()) == ([1, 3], {2: now + 10})


def test_a_job_that_is_not_due_may_overtake_and_be_overtaken() -> None:
    """Under a policy that reserves after 5 s, no job has a reservation before then, and the shortest job is first."""
    pool = Pool(BackfillPolicy(reserve_after=5, depth=UNLIMITED_DEPTH, shortest_first=True))
    pool.submit(job(0, 6, 10), job(1, 8, 10), job(2, 2, 30), job(3, 2, 20), job(4, 2, 40, priority=-1))
    pool.decide(0)
    assert (pool.running(), pool.starts()) == ([0, 3], {})
    pool.decide(5)
    assert pool.starts() == {1: 20, 2: 30, 4: 30}


def test_a_reservation_that_has_to_move_precedes_those_of_new_jobs() -> None:
    """A job overruns. A new job of higher priority does not take the time to which the existing reservation moves."""
    pool = occupied()
    pool.state.submit(job(1, 8, 5))
    pool.decide(0)
    pool.state.extend_overrun(10)
    pool.state.submit(job(2, 8, 5, priority=1))
    pool.decide(10)
    assert pool.starts() == {1: 10 + OVERRUN_EXTENSION, 2: 15 + OVERRUN_EXTENSION}


def test_a_reservation_that_still_fits_still_precedes_those_that_have_to_move() -> None:
    """A job overruns, and the reservation of the first job has to move. It does not displace the second, which still
    fits.

    The second is then brought forward and starts beside the job that overruns.
    """
    pool = Pool()
    pool.submit(job(0, 5, 10), job(1, 8, 10), job(2, 3, 100))
    pool.decide(0)
    assert pool.starts() == {1: 10, 2: 20}
    pool.state.extend_overrun(10)
    pool.decide(10)
    assert (pool.running(), pool.starts()) == ([0, 2], {1: 120})


def test_a_reservation_with_an_unknown_start_moves_after_those_that_still_fit() -> None:
    """A job of higher priority waits for one without a walltime. That one ends, and another overruns its walltime."""
    pool = Pool()
    pool.submit(job(0, 4, inf), job(1, 4, 10), job(2, 4, 10))
    pool.decide(0)
    pool.submit(job(3, 8, 10, priority=1))
    pool.decide(0)
    assert pool.starts() == {3: inf, 2: 10}
    pool.state.end(pool.state.running[-1][2])
    pool.state.extend_overrun(10)
    pool.decide(10)
    assert (pool.running(), pool.starts()) == ([1, 2], {3: 10 + OVERRUN_EXTENSION})


@pytest.mark.parametrize("now", [10, 12])
def test_no_decision_is_due_at_a_start_that_has_passed(now: int) -> None:
    """The reserved job waits for one that is past its deadline. The next decision is due at the next reserved start."""
    pool = occupied()
    pool.state.submit(job(1, 8, 5))
    pool.state.submit(job(2, 8, 5))
    assert pool.decide(0) == 10
    assert pool.starts() == {1: 10, 2: 15}
    assert pool.decide(now) == 15
