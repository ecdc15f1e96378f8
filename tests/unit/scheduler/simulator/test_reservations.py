"""The first reservation of each job in a single pool."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given

from support.pool_jobs import CPUS, PoolCase, cpus, job, pool_cases, task
from support.pool_runs import pool_history, run_pool
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.simulator.pool_simulation import Task
from zonewise_scheduler.simulator.reservations import ReservationRecorder
from zonewise_scheduler.simulator.summary import summarise


def reserved(tasks: list[Task], policy: str) -> dict[int, tuple[float, float]]:
    """Return the first reservation by serial."""
    rules = pool_policy_named(policy)
    recorder = ReservationRecorder(rules)
    run_pool(tasks, cpus(8), rules, recorder)
    return dict(recorder.first_reservations.items())


def test_easy_reserves_when_it_decides() -> None:
    """Nothing is decided until CPUs become free at 10, when job 1 starts."""
    tasks = [task(0, 8, 10), task(1, 8, 5, 1), task(2, 8, 5, 2)]
    assert reserved(tasks, "easy") == {2: (10, 15)}


@pytest.mark.parametrize("policy", ["conservative", "depth-2"])
def test_every_job_has_a_reservation_on_arrival(policy: str) -> None:
    tasks = [task(0, 8, 10), task(1, 8, 5, 1), task(2, 8, 5, 2)]
    assert reserved(tasks, policy) == {1: (1, 10), 2: (2, 15)}


def test_a_job_that_starts_at_once_has_no_reservation() -> None:
    assert reserved([task(0, 4, 10), task(1, 4, 10)], "conservative") == {}


def test_greedy_reserves_nothing() -> None:
    assert reserved([task(0, 8, 10), task(1, 8, 5, 1)], "greedy") == {}


def test_only_the_first_reservation_counts() -> None:
    """Job 0 ends early, which brings the start forward."""
    tasks = [task(0, 8, 100, run=50), task(1, 8, 5, 1), task(2, 8, 9, 60)]
    assert reserved(tasks, "conservative")[1] == (1, 100)


def test_an_unknown_start_is_not_reserved() -> None:
    tasks = [Task(job(0, 8, inf), 10), task(1, 8, 5, 1)]
    assert reserved(tasks, "conservative") == {}


@given(pool_cases(declared=True, priorities=False))
def test_reservations_hold(case: PoolCase) -> None:
    """If declared run times are upper bounds, no job starts later than its first reserved start."""
    for name in ("easy", "easy-sjbf", "shortest-reserving", "conservative", "depth-2"):
        policy = pool_policy_named(name)
        recorder = ReservationRecorder(policy)
        outcome = run_pool(case.tasks, case.capacity, policy, recorder)
        jobs = {entry.job.serial: entry.job for entry in outcome.tasks}
        for serial, (at, start) in recorder.first_reservations.items():
            assert jobs[serial].submitted <= at <= outcome.starts[jobs[serial]] <= start


def test_reservations_are_part_of_the_history() -> None:
    policy = pool_policy_named("conservative")
    recorder = ReservationRecorder(policy)
    outcome = run_pool([task(0, 8, 10, run=4), task(1, 8, 5, 1)], cpus(8), policy, recorder)
    result = pool_history(outcome, CPUS, cpus(8), reservations=recorder.first_reservations)
    assert [entry.reservation for entry in result.jobs] == [None, (1, 10)]
    retained = summarise(result).reservations
    assert retained is not None
    assert (retained.jobs, retained.broken, retained.early_mean) == (1, 0, 6)
