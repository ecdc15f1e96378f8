"""Reservations that move: what a job may lose, what it gains, and what others may take."""

from __future__ import annotations

from math import inf

import pytest

from support.pool_jobs import cpus, job
from zonewise_scheduler.backfill.policies import OVERRUN_EXTENSION
from zonewise_scheduler.backfill.pool.conservative import ConservativeBackfill
from zonewise_scheduler.backfill.pool.pool_state import PoolState


class Pool:
    """Eight CPUs under conservative backfilling; a decision follows each event."""

    def __init__(self) -> None:
        self.policy, self.state = ConservativeBackfill(), PoolState(cpus(8))

    def decide(self, now: float) -> float:
        """Return when the next decision is due."""
        decision = self.policy.decide(now, self.state)
        self.state.apply(decision, now)
        return decision.wake_at

    def starts(self, now: float = 0) -> dict[int, float]:
        """The reserved starts by serial."""
        return {reservation.job.serial: reservation.start for reservation in self.policy.reservations(now, self.state)}


def occupied() -> Pool:
    """All CPUs are in use until 10 s."""
    pool = Pool()
    pool.state.submit(job(0, 8, 10))
    pool.decide(0)
    return pool


def test_a_reservation_waits_for_the_jobs_that_end_right_at_its_start() -> None:
    """They run, or hold a reservation. Where the start is unknown, they have no walltime."""
    pool = Pool()
    jobs = [(5, 10), (3, 10), (8, 5), (7, 2), (1, 7), (8, inf), (8, 1)]
    for serial, (size, walltime) in enumerate(jobs):
        pool.state.submit(job(serial, size, walltime))
    pool.decide(0)
    reservations = pool.policy.reservations(0, pool.state)
    assert [(one.job.serial, one.start, [other.serial for other in one.waits_for]) for one in reservations] == [
        (2, 10, [0, 1]),
        (3, 15, [2]),
        (4, 15, [2]),
        (5, 22, [4]),
        (6, inf, [5]),
    ]


@pytest.mark.parametrize("withdrawn_at", [0, 4, 9])
def test_what_a_withdrawn_job_had_reserved_is_available_until_its_deadline_alone(withdrawn_at: int) -> None:
    """The next job moves forward, and what follows it finds only what is left."""
    pool = occupied()
    jobs = [job(serial, 8, walltime) for serial, walltime in ((1, 5), (2, 7), (3, 6))]
    for one in jobs:
        pool.state.submit(one)
    pool.decide(0)
    assert pool.starts() == {1: 10, 2: 15, 3: 22}
    pool.state.withdraw(jobs[0])
    pool.decide(withdrawn_at)
    assert pool.starts() == {2: 10, 3: 17}
    pool.state.submit(job(4, 1, 1))
    pool.decide(withdrawn_at)
    assert pool.starts() == {2: 10, 3: 17, 4: 23}


@pytest.mark.parametrize("now", [10, 10.5, 25])
def test_a_job_that_starts_late_uses_its_amounts_for_its_whole_walltime(now: float) -> None:
    pool = occupied()
    pool.state.submit(job(1, 8, 10))
    pool.decide(0)
    assert pool.starts() == {1: 10}
    pool.state.end(pool.state.running[0][2])
    pool.decide(now)
    pool.state.submit(job(2, 8, 5))
    pool.decide(now)
    assert pool.starts() == {2: now + 10}


@pytest.mark.parametrize("now", [3, 10, 12])
def test_a_restored_reservation_holds_its_amounts_until_its_deadline_alone(now: int) -> None:
    """Even where its start has passed, since the other job outlives its walltime: it began at 0 with 10 s."""
    pool = occupied()
    pool.state.extend_overrun(now)
    reserved = job(1, 8, 7)
    pool.state.submit(reserved)
    pool.policy.resume({reserved: 10}, now, pool.state)
    assert pool.state.must_rebuild == (now >= 10)
    pool.state.submit(job(2, 8, 5))
    pool.decide(now)
    start = 10 if now < 10 else now + OVERRUN_EXTENSION
    assert pool.starts() == {1: start, 2: start + 7}


@pytest.mark.parametrize("restored", [False, True])
def test_a_withdrawn_job_with_an_unknown_start_gives_all_back(*, restored: bool) -> None:
    pool = Pool()
    blocked, small = job(1, 6, 5), job(2, 4, 5)
    pool.state.submit(job(0, 4, inf))
    pool.state.submit(blocked)
    pool.state.submit(small)
    pool.decide(0)
    if restored:
        pool.policy.resume({blocked: float("inf"), small: float("inf")}, 0, pool.state)
        pool.decide(0)
    assert pool.starts() == {1: inf, 2: inf}
    pool.state.withdraw(blocked)
    pool.decide(3)
    assert (pool.starts(), small in pool.state.run_spans) == ({}, True)


def test_a_reservation_that_has_to_move_comes_before_those_of_new_jobs() -> None:
    """A job overruns. A new job of higher priority does not take the place that the reserved one moves to."""
    pool = occupied()
    pool.state.submit(job(1, 8, 5))
    pool.decide(0)
    pool.state.extend_overrun(10)
    pool.state.submit(job(2, 8, 5, priority=1))
    pool.decide(10)
    assert pool.starts() == {1: 10 + OVERRUN_EXTENSION, 2: 15 + OVERRUN_EXTENSION}


@pytest.mark.parametrize("now", [10, 12])
def test_no_decision_is_due_at_a_start_that_has_passed(now: int) -> None:
    """The job waits for one that has not ended by its deadline; the next decision is due at the next start."""
    pool = occupied()
    pool.state.submit(job(1, 8, 5))
    pool.state.submit(job(2, 8, 5))
    assert pool.decide(0) == 10
    assert pool.starts() == {1: 10, 2: 15}
    assert pool.decide(now) == 15
