"""Samples of starts: the queue of a pool is simulated forward."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from support.pool_jobs import PoolCase, cpus, job, pool_cases, start_job
from support.pool_runs import PoolRun, run_pool
from zonewise_scheduler.backfill.forecast.arrival_history import DAY, ArrivalHistory
from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.forecast.run_time_samples import MIN_SAMPLES
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_forecast import MAX_SAMPLE_PATHS, number_of_pool_sample_paths, sample_starts
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolState
from zonewise_scheduler.simulator.pool_simulation import Task

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy, PoolReservation

ANN = ("ann", "q", "solve")
POLICIES = ["fifo", "greedy", "easy-sjbf", "conservative", "depth-2", DEFAULT_POLICY]


def no_inputs() -> ForecastInputs[Job]:
    return ForecastInputs(RunTimeHistory(), ArrivalHistory())


def learned(*runs: float) -> ForecastInputs[Job]:
    """Return a history of the run times of ann, who declares 100 s."""
    history = no_inputs()
    for run in runs:
        history.run_times.observe(job(0, 1, 100, history_keys=ANN), run)
    return history


def running(*jobs: tuple[int, int, float]) -> PoolState:
    """Return a pool of 8 CPUs on which jobs of ann have run since 0."""
    state = PoolState(cpus(8))
    for serial, size, limit in jobs:
        start_job(state, job(serial, size, limit, history_keys=ANN), 0)
    return state


def starts_by_serial(
    state: PoolState, policy: str, history: ForecastInputs[Job] | None = None
) -> dict[int, set[float]]:
    """Return the distinct sampled starts of each pending job at time 0."""
    sampled = sample_starts(0, state, pool_policy_named(policy), history or no_inputs())
    return {job.serial: set(starts) for job, starts in sampled.items()}


def test_a_sample_is_the_queue_simulated_forward() -> None:
    """The jobs of ann declare 100 s but run for 10, 20 or 30 s; two of them precede the last job."""
    state = running((0, 8, 100))
    for serial in (1, 2):
        state.submit(job(serial, 8, 100, history_keys=ANN))
    sampled = starts_by_serial(state, "greedy", learned(10, 20, 30))
    assert sampled[1] == {10, 20, 30}
    assert {20, 60} < sampled[2] <= {20, 30, 40, 50, 60}


def test_a_sample_path_decides_on_declared_walltimes() -> None:
    """Ann's jobs always run for 10 s. Still, a job that declares 100 s may not start before the reservation at 50 s."""
    state = running((0, 4, 50))
    state.submit(job(1, 8, 10, history_keys=("ben",)))
    state.submit(job(2, 4, 100, history_keys=ANN))
    assert starts_by_serial(state, "easy", learned(10, 10, 10)) == {1: {5}, 2: {15}}


def test_samples_follow_the_policy() -> None:
    def pending() -> PoolState:
        state = running((0, 8, 10))
        for serial, limit in ((1, 50), (2, 5)):
            state.submit(job(serial, 8, limit))
        return state

    assert starts_by_serial(pending(), DEFAULT_POLICY) == {1: {15}, 2: {10}}
    assert starts_by_serial(pending(), "fifo") == {1: {10}, 2: {60}}


def test_a_sample_path_begins_without_a_decision_if_none_is_due() -> None:
    """The earlier job is already due when the later one arrives, which does not fit. At the next end both are due."""
    policy, state = pool_policy_named(DEFAULT_POLICY, 5.0), running((0, 5, 300))
    state.submit(job(1, 4, 30, priority=0))
    state.apply(policy.decide(0, state), 0)
    state.submit(job(2, 5, 30, submitted=200, priority=1))
    assert {job.serial: set(starts) for job, starts in sample_starts(200, state, policy, no_inputs()).items()} == {
        1: {330},
        2: {300},
    }


@pytest.mark.parametrize("policy", ["greedy", "conservative"])
def test_a_sample_path_begins_with_a_decision_if_a_new_job_fits_or_is_reserved_on_arrival(policy: str) -> None:
    state = running((0, 5, 300))
    state.apply(PoolDecision(), 0)
    state.submit(job(1, 4, 30))
    state.submit(job(2, 3, 400))
    assert starts_by_serial(state, policy) == {1: {300}, 2: {0}}


def test_a_start_that_depends_on_unknown_run_times_is_unknown() -> None:
    state = running((0, 5, inf))
    state.submit(job(1, 8, 10))
    state.submit(job(2, 3, 10))
    assert starts_by_serial(state, "greedy") == {1: {inf}, 2: {0}}


def test_a_job_that_never_fits_has_an_unknown_start() -> None:
    state = running((0, 8, 5))
    state.submit(job(1, 9, 10))
    assert starts_by_serial(state, "greedy") == {1: {inf}}


@pytest.mark.parametrize(("days", "start"), [(30, 30 * 86_400), (30 + 1e-9, inf)])
def test_a_sample_path_ends_after_thirty_days(days: float, start: float) -> None:
    """A job that has not started by then has an unknown start."""
    state = running((0, 8, 86_400 * days))
    state.submit(job(1, 8, 10))
    assert starts_by_serial(state, "greedy") == {1: {start}}


def test_an_overrun_job_is_expected_to_end_soon() -> None:
    state = running((0, 8, 10))
    state.submit(job(1, 8, 10))
    (starts,) = sample_starts(500, state, pool_policy_named("easy"), no_inputs()).values()
    assert set(starts) == {500}


def test_the_jobs_of_the_previous_day_arrive_again() -> None:
    """Each day at the same hour, ten shorter jobs arrive and delay the longer one."""
    history = no_inputs()
    for serial in range(10):
        earlier = job(serial, 8, 60, DAY / 2 + serial, history_keys=("ben",))
        history.arrivals.observe(earlier, earlier, earlier.submitted)
        history.arrivals.observe_end(earlier, 60)
    now = DAY * 1.5 - 100
    state = PoolState(cpus(8))
    start_job(state, job(100, 8, 200), now)
    state.submit(job(101, 8, 300, now))
    state.submit(job(102, 8, 10, now))
    sampled = sample_starts(now, state, pool_policy_named(DEFAULT_POLICY), history)
    # without them, history of the first day has no shift: less than a day has passed since its first submission
    assert {job.serial: {start - now for start in starts} for job, starts in sampled.items()} == {
        101: {210},
        102: {200},
    }
    now += 100
    later = PoolState(cpus(8))
    start_job(later, job(100, 8, 200), now)
    later.submit(job(101, 8, 300, now))
    sampled = sample_starts(now, later, pool_policy_named(DEFAULT_POLICY), history)
    assert {start - now for starts in sampled.values() for start in starts} == {200 + 9 * 60}


def test_a_job_that_arrives_again_starts_once_it_fits_but_not_before_its_arrival() -> None:
    """Six of eight CPUs are in use until 100 s. Jobs of two CPUs arrive at 50 s and 120 s and run for 100 s each."""
    history = no_inputs()
    for serial, time in ((0, 50.0), (1, 120.0)):
        earlier = job(serial, 2, 100, time, history_keys=("ben",))
        history.arrivals.observe(earlier, earlier, earlier.submitted)
        history.arrivals.observe_end(earlier, 100)
    now = DAY + 50 - 1e-9
    state = PoolState(cpus(8))
    start_job(state, job(100, 6, 100), now - 50)
    state.submit(job(101, 8, 10, now))
    history.arrivals.observe("first", job(9, 9, 1), 0.0)
    sampled = sample_starts(now, state, pool_policy_named("greedy"), history)
    assert {round(start - DAY) for starts in sampled.values() for start in starts} == {220}


class Noted:
    """A policy that delegates to another one and counts its decisions by time."""

    def __init__(self, policy: PoolPolicy, times: Counter[float]) -> None:
        self.policy, self.times, self.eager = policy, times, policy.eager

    def fork(self) -> Noted:
        return Noted(self.policy.fork(), self.times)

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        self.times[now] += 1
        return self.policy.decide(now, state)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        return self.policy.reservations(now, state)


class Sleeper:
    """A policy that starts nothing before 7 s."""

    eager = False

    def fork(self) -> Sleeper:
        return self

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        return PoolDecision(list(state.pending)) if now >= 7 else PoolDecision(wake_at=7.0)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        return []


@pytest.mark.parametrize("limit", [5, 7, 20])
def test_a_sample_path_decides_at_the_wake_time_of_the_policy(limit: int) -> None:
    """Another job may end before that time, at it or after it."""
    state = running((0, 2, limit))
    state.submit(job(1, 6, 10))
    (starts,) = sample_starts(0, state, Sleeper(), no_inputs()).values()
    assert set(starts) == {7}


@pytest.mark.parametrize(
    ("policy", "size", "run_time", "decisions"),
    [
        ("greedy", 3, 4, [0, 100]),
        ("greedy", 2, 4, [0, 50, 54, 100]),
        ("greedy", 2, None, [0, 50, 60, 100]),
        ("easy", 3, None, [0, 100]),
        ("conservative", 3, None, [0, 50, 100]),
    ],
)
def test_an_arrival_needs_a_decision_if_it_fits_or_gets_a_reservation(
    policy: str, size: int, run_time: float | None, decisions: list[int]
) -> None:
    """Two CPUs are available until 100 s, when the pending job starts. At 50 s, a job of the previous day arrives
    again.

    It runs as long as on that day, or for its walltime of 10 s if it has not ended yet.
    """
    history = no_inputs()
    history.arrivals.observe("first", job(9, 9, 1), 0.0)
    history.arrivals.observe("again", job(1, size, 10, 50), 50.0)
    if run_time is not None:
        history.arrivals.observe_end("again", run_time)
    state = PoolState(cpus(8))
    start_job(state, job(100, 6, 100), DAY)
    state.submit(job(101, 8, 10, DAY))
    times = Counter[float]()
    sample_starts(DAY, state, Noted(pool_policy_named(policy), times), history)
    assert times == {DAY + time: MAX_SAMPLE_PATHS for time in decisions}


def test_sampling_is_deterministic_and_changes_nothing() -> None:
    state = running((0, 8, 100))
    state.submit(job(1, 8, 100, history_keys=ANN))
    history = learned(10, 20, 30, 40, 50)
    before = (state.available, list(state.pending), list(state.running), list(state.new_jobs))
    policy = pool_policy_named("depth-2")
    assert sample_starts(0, state, policy, history) == sample_starts(0, state, policy, history)
    assert before == (state.available, list(state.pending), list(state.running), list(state.new_jobs))


def test_many_jobs_are_sampled_less_often() -> None:
    state = running((0, 8, 100))
    for serial in range(1, 3):
        state.submit(job(serial, 8, 1))
    assert {len(starts) for starts in sample_starts(0, state, pool_policy_named("fifo"), no_inputs()).values()} == {
        MAX_SAMPLE_PATHS
    }
    for serial in range(3, 2000):
        state.submit(job(serial, 8, 1))
    few = sample_starts(0, state, pool_policy_named("fifo"), no_inputs(), state.pending[:2])
    assert {len(starts) for starts in few.values()} == {MIN_SAMPLES}


# --- random histories


class Sampling:
    """An observer that samples at every arrival. It learns no run times, so jobs run for their declared walltimes."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy = policy
        self.sampled: list[tuple[float, dict[Job, list[float]]]] = []

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        reserved_starts = {reservation.job: reservation.start for reservation in self.policy.reservations(now, state)}
        sampled = sample_starts(now, state, self.policy, no_inputs())
        assert sampled.keys() == set(state.pending)
        for pending, starts in sampled.items():
            assert all(now <= start <= max(reserved_starts.get(pending, inf), now) for start in starts)
        self.sampled.append((now, sampled))

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None: ...

    def ended(self, now: float, job: Job, run: float) -> None: ...


def simulated(case: PoolCase, name: str, *, sampling: bool) -> tuple[PoolRun, Sampling]:
    policy = pool_policy_named(name, 5.0)
    observer = Sampling(policy)
    return run_pool(case.tasks, case.capacity, policy, observer if sampling else None), observer


@pytest.mark.parametrize("name", POLICIES)
@given(pool_cases(most=10))
def test_samples_change_no_decision_and_respect_reservations(name: str, case: PoolCase) -> None:
    assert simulated(case, name, sampling=True)[0].starts == simulated(case, name, sampling=False)[0].starts


@pytest.mark.parametrize("name", ["fifo", "greedy", "easy-sjbf", DEFAULT_POLICY])
@given(pool_cases(most=10, declared=True))
def test_with_exact_run_times_and_no_later_arrivals_a_sample_is_exact(name: str, case: PoolCase) -> None:
    """The sample is the last one; no two events coincide, since their order would be up to the simulator."""
    case = case._replace(tasks=[_apart(task) for task in case.tasks])
    result, observer = simulated(case, name, sampling=True)
    last = case.tasks[-1].job
    for _, sampled in observer.sampled[-1:] if last in result.starts else []:
        for pending, starts in sampled.items():
            assert set(starts) == {result.starts[pending]}


def _apart(task: Task) -> Task:
    """Return the job with a submission and an end that coincide with no other event; it runs for its walltime."""
    serial = task.job.serial
    walltime = task.job.walltime * 37 + serial / 1024
    return Task(replace(task.job, submitted=100 * serial + serial / 64, walltime=walltime), walltime)


@pytest.mark.parametrize(
    ("jobs", "paths"),
    [(0, 48), (175, 48), (176, 47), (249, 24), (299, 16), (399, 10), (500, 7), (1332, 3), (5000, 3)],
)
def test_a_pool_of_few_jobs_is_sampled_more_often(jobs: int, paths: int) -> None:
    """All paths sum up to at most 1.5 million squares of jobs or 4,000 jobs, but there are at least three of them."""
    assert number_of_pool_sample_paths(jobs) == paths
