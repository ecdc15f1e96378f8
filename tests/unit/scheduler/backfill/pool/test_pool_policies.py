"""Worked examples of the policies: which jobs start when."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from support.pool_jobs import CPUS, cpus, job, start_job, starts, task, watch_reservations
from support.pool_jobs import PoolCase as Machine
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolPolicy, PoolReservation, PoolState

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job

RESERVING = ["easy", "easy-sjbf", "depth-1", "depth-2", "conservative"]


def decide(policy: PoolPolicy, now: float, state: PoolState) -> list[Job]:
    """Make a decision and apply it; return the started jobs."""
    decision = policy.decide(now, state)
    state.apply(decision, now)
    return list(decision.starts)


def waiting(free: int, *jobs: Job) -> PoolState:
    """Return a pool of some CPUs with pending jobs."""
    state = PoolState(cpus(free))
    for one in jobs:
        state.submit(one)
    return state


# --- the smallest test that distinguishes backfill from greedy


@pytest.mark.parametrize("name", RESERVING)
def test_a_job_that_would_delay_the_reservation_waits(name: str) -> None:
    """At 30 s, B waits and C starts on arrival; A starts at 90 s."""
    tasks = [task(0, 50, 90, 0), task(1, 60, 60, 10), task(2, 50, 90, 20), task(3, 50, 30, 30)]
    assert starts(tasks, cpus(100), pool_policy_named(name)) == [0, 90, 150, 30]


def test_greedy_delays_the_wide_job() -> None:
    """The control of the test above."""
    tasks = [task(0, 50, 90, 0), task(1, 60, 60, 10), task(2, 50, 90, 20), task(3, 50, 30, 30)]
    assert starts(tasks, cpus(100), pool_policy_named("greedy")) == [0, 120, 20, 90]


def test_the_default_is_greedy_until_a_job_has_waited_long_enough() -> None:
    """Narrow jobs keep arriving; the wide one gets a reservation only once it has waited for 100 s."""
    tasks = [task(0, 60, 50, 0), task(1, 100, 10, 0), *(task(2 + n, 40, 50, 20 * n + 10) for n in range(20))]
    found = starts(tasks, cpus(100), pool_policy_named(DEFAULT_POLICY, 100.0))
    overtaking = [start for start in found[2:] if start < found[1]]
    assert 100 <= found[1] <= 150
    assert max(overtaking) < 100
    assert starts(tasks, cpus(100), pool_policy_named("greedy"))[1] > 300


def test_shortest_first_and_the_order_of_the_queue_within_a_priority() -> None:
    tasks = [task(0, 8, 10), task(1, 8, 9), task(2, 8, 2), task(3, 8, 5), task(4, 8, 20, priority=1)]
    assert starts(tasks, cpus(8), pool_policy_named(DEFAULT_POLICY)) == [0, 37, 30, 32, 10]
    assert starts(tasks, cpus(8), pool_policy_named("fifo")) == [0, 30, 39, 41, 10]


def test_fifo_does_not_backfill() -> None:
    tasks = [task(0, 5, 10), task(1, 5, 10), task(2, 1, 1)]
    assert starts(tasks, cpus(8), pool_policy_named("fifo")) == [0, 10, 10]


def test_an_unknown_policy_is_an_error() -> None:
    with pytest.raises(
        ValueError, match="policy: best: unknown policy; the policies are shortest-reserving, fifo, greedy"
    ):
        pool_policy_named("best")


# --- reservations


@pytest.mark.parametrize(
    ("name", "eager"),
    [("fifo", False), ("greedy", False), ("easy", False), ("depth-1", True), ("depth-2", True), ("conservative", True)],
)
def test_some_policies_decide_on_arrival_about_each_job_that_does_not_fit(name: str, *, eager: bool) -> None:
    """These policies reserve its start at once."""
    assert pool_policy_named(name).eager is eager


@pytest.mark.parametrize("name", [*RESERVING, DEFAULT_POLICY])
def test_a_reservation_precedes_a_later_higher_priority(name: str) -> None:
    """Among jobs without a reservation, one of higher priority is first."""
    tasks = [task(0, 8, 10), task(1, 8, 10, 1), task(2, 8, 10, 2, priority=9), task(3, 8, 10, 3)]
    policy = pool_policy_named(name, 0.0)
    outcome, watcher = watch_reservations(Machine(CPUS, cpus(8), tasks), policy)
    found = [outcome.starts[task_.job] for task_ in tasks]
    assert found[0] == 0
    if name in {"conservative", "depth-2", "depth-1"}:  # reserved on arrival
        assert watcher.first_start[tasks[1].job] == found[1] == 10
    assert found[3] == 30


@pytest.mark.parametrize("name", RESERVING)
def test_a_job_without_walltime_uses_only_the_extra_amounts(name: str) -> None:
    """Beside the reserved job, 3 CPUs are too many and 2 are not; 1 more is too many until those 2 are free again."""
    unknown = [task(serial, size, inf, run=4) for serial, size in ((2, 3), (3, 2), (4, 1))]
    tasks = [task(0, 5, 10), task(1, 6, 10), *unknown]
    assert starts(tasks, cpus(8), pool_policy_named(name)) == [0, 10, 20, 0, 4]


@pytest.mark.parametrize("name", ["depth-1", "depth-2", "conservative"])
def test_without_walltimes_the_reserved_job_is_next(name: str) -> None:
    """The start is unknown, so its amounts are withheld from later jobs with or without a walltime."""
    state = waiting(8, job(0, 5), job(1, 6, 10), job(2, 3, 1), job(3, 3))
    policy = pool_policy_named(name, 0.0)
    assert [one.serial for one in decide(policy, 0, state)] == [0]
    assert policy.reservations(0, state)[0] == PoolReservation(state.pending[0], inf)
    state.end(state.running[0][2])
    assert decide(policy, 5, state)[0].serial == 1


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "shortest-reserving"])
def test_a_job_with_walltime_may_start_before_an_unknown_reservation(name: str) -> None:
    """That job ends, but a job without a walltime might not. It does not start first, and the reserved job is next."""
    state = waiting(8, job(0, 5), job(1, 6, 10), job(2, 3, 1), job(3, 3))
    policy = pool_policy_named(name, 0.0)
    assert [one.serial for one in decide(policy, 0, state)] == [0, 2]
    passing, unknown = (one for _, _, one in state.running)
    assert policy.reservations(0, state)[0] == PoolReservation(state.pending[0], inf)
    state.end(passing)
    assert decide(policy, 1, state) == []
    state.end(unknown)
    assert decide(policy, 5, state)[0].serial == 1


@pytest.mark.parametrize("name", RESERVING)
def test_jobs_that_end_after_the_reserved_start_share_the_extra_amounts(name: str) -> None:
    """One CPU is left beside the reserved job. Of two jobs that end after its start, only one starts; both fit now."""
    state = waiting(8, job(0, 6, 100), job(1, 7, 10), job(2, 1, 1000), job(3, 1, 1000))
    policy = pool_policy_named(name)
    assert [one.serial for one in decide(policy, 0, state)] == [0, 2]
    assert policy.reservations(0, state)[0].start == 100


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "depth-1", "conservative"])
def test_an_overrun_changes_what_may_start_beside_a_reservation(name: str) -> None:
    """The job would have delayed the reservation; an overrun moves the reservation, so that the job ends before it."""
    state = waiting(8, job(0, 5, 10), job(1, 8, 10), job(2, 3, 40))
    policy = pool_policy_named(name)
    assert [one.serial for one in decide(policy, 0, state)] == [0]
    assert decide(policy, 5, state) == []
    state.extend_overrun(10)
    assert [one.serial for one in decide(policy, 10, state)] == [2]


@pytest.mark.parametrize("name", ["easy", "depth-1", "conservative"])
def test_an_overrun_deadline_is_extended(name: str) -> None:
    """An overrun moves its deadline by a minute each time, and the reservation with it."""
    state = waiting(8, job(0, 5, 10), job(1, 8, 10), job(2, 3, 40))
    policy = pool_policy_named(name)
    decide(policy, 0, state)
    state.extend_overrun(12)
    decide(policy, 12, state)
    first = policy.reservations(12, state)[0]
    assert (first.job.serial, first.start) == (1, 72)
    assert 2 in {one.serial for _, _, one in state.running}  # this job ends before that


def test_only_the_deadlines_that_have_passed_are_extended() -> None:
    state = waiting(8, job(0, 3, 10), job(1, 3, 100))
    decide(pool_policy_named("easy"), 0, state)
    state.extend_overrun(12)
    assert [(deadline, serial) for deadline, serial, _ in state.running] == [(72, 0), (100, 1)]
    assert {one.serial: span for one, span in state.run_spans.items()} == {0: (0, 72), 1: (0, 100)}


def test_a_late_reservation_keeps_its_whole_walltime() -> None:
    """A timer fires late, and the next decision uses the actual time."""
    state = waiting(8, job(0, 8, 10), job(1, 8, 10), job(2, 8, 10))
    policy = pool_policy_named("conservative")
    first = decide(policy, 0, state)
    state.end(first[0])
    assert [one.serial for one in decide(policy, 10.5, state)] == [1]
    assert [reservation.start for reservation in policy.reservations(10.5, state)] == [20.0]
    assert state.running[0][0] == 20.5


@pytest.mark.parametrize("name", ["depth-1", "conservative"])
def test_a_new_job_does_not_use_the_amounts_that_a_late_job_still_holds(name: str) -> None:
    """Of two jobs that should end at 10 s, one has ended. A reserved job starts; beside it the new job lacks 2 CPUs."""
    state = waiting(8, job(0, 3, 10), job(1, 5, 10), job(2, 3, 10), job(3, 8, 10))
    policy = pool_policy_named(name)
    first = decide(policy, 0, state)
    state.end(first[1])
    state.submit(job(4, 4, 10, 10))
    assert [one.serial for one in decide(policy, 10, state)] == [2]
    assert state.available == cpus(2)


def test_the_next_job_gets_the_one_reservation_when_the_first_starts() -> None:
    state = waiting(8, job(0, 8, 10), job(1, 8, 10), job(2, 8, 10))
    policy = pool_policy_named("depth-1")
    first = decide(policy, 0, state)
    assert [(one.job.serial, one.start) for one in policy.reservations(0, state)] == [(1, 10)]
    state.end(first[0])
    assert [one.serial for one in decide(policy, 10, state)] == [1]
    assert [(one.job.serial, one.start) for one in policy.reservations(10, state)] == [(2, 20)]


def test_an_empty_decision_changes_nothing() -> None:
    state = waiting(8)
    state.apply(PoolDecision(), 0)
    assert (state.available, state.pending, state.running) == (cpus(8), [], [])


@pytest.mark.parametrize("name", ["conservative", "depth-2"])
def test_no_decision_is_due_again_at_a_reserved_start_that_has_come(name: str) -> None:
    """Job 0 must end at 10 but has not. The next decision without an event is due at the reserved start after that."""
    policy, state = pool_policy_named(name), waiting(8, job(1, 8, 5), job(2, 8, 5))
    start_job(state, job(0, 8, 10), 0)
    assert policy.decide(0, state).wake_at == 10
    state.apply(PoolDecision(), 0)
    late = policy.decide(10, state)
    assert (late.starts, late.wake_at) == ([], 15)
