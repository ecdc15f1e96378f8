"""Forecasts of pending jobs, and run times predicted from similar jobs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.pool_jobs import PoolCase, cpus, job, pool_cases
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_forecast import forecast_pool
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolState
from zonewise_scheduler.backfill.run_time_history import SAMPLES_PER_GROUP, RunTimeEstimate, RunTimeHistory
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.simulator.pool_simulation import simulate_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision, PoolPolicy

ANN, BEN = ("ann", "q", "solve"), ("ben", "q", "solve")


def learned(**runs: Sequence[float]) -> RunTimeHistory:
    """A history of the run times of ann and ben."""
    times = RunTimeHistory()
    for user, lengths in runs.items():
        for run in lengths:
            times.observe(job(0, 1, history_keys=(user, "q", "solve")), run)
    return times


# --- run times


def test_the_narrowest_group_with_enough_samples_predicts() -> None:
    times = learned(ann=[10, 20, 30])
    times.observe(job(0, 1, history_keys=("ann", "q", "other")), 500)
    times.observe(job(0, 1, history_keys=("ann", "q", "other")), 600)
    assert times.estimate(job(1, 1, 100, history_keys=ANN)) == RunTimeEstimate(10, 20, 100)
    assert times.estimate(job(1, 1, 1000, history_keys=("ann", "q", "other"))) == RunTimeEstimate(10, 30, 1000)


def test_without_samples_a_job_may_end_at_once_or_take_its_walltime() -> None:
    assert learned(ann=[10, 20]).estimate(job(1, 1, 100, history_keys=ANN)) == RunTimeEstimate(0, 100, 100)
    assert learned(ann=[10, 20, 30]).estimate(job(1, 1, 100, history_keys=BEN)) == RunTimeEstimate(0, 100, 100)
    assert learned(ann=[10, 20, 30]).estimate(job(1, 1)) == RunTimeEstimate(0, inf, inf)


def test_no_estimate_exceeds_the_walltime() -> None:
    assert learned(ann=[10, 20, 30]).estimate(job(1, 1, 15, history_keys=ANN)) == RunTimeEstimate(10, 15, 15)


def test_shorter_samples_do_not_count_for_a_running_job() -> None:
    times = learned(ann=[10, 20, 30, 40])
    assert times.estimate(job(1, 1, 100, history_keys=ANN), elapsed=15) == RunTimeEstimate(20, 30, 100)
    assert times.estimate(job(1, 1, 100, history_keys=ANN), elapsed=35) == RunTimeEstimate(35, 100, 100)


def test_only_the_last_run_times_count() -> None:
    assert learned(ann=[1] * 50 + [9] * SAMPLES_PER_GROUP).estimate(job(1, 1, 100, history_keys=ANN)).short == 9


# --- forecasts


def running(*jobs: tuple[int, int, float]) -> PoolState:
    """A machine of 8 CPUs on which jobs of ann run since 0."""
    state = PoolState(cpus(8))
    for serial, size, limit in jobs:
        state.start(job(serial, size, limit, history_keys=ANN), 0)
    return state


def test_a_forecast_is_the_queue_played_forward() -> None:
    """The jobs of ann declare 100 s and take 10 to 30 s; two of them precede the last."""
    state = running((0, 8, 100))
    for serial in (1, 2):
        state.submit(job(serial, 8, 100, history_keys=ANN))
    found = forecast_pool(5, state, pool_policy_named("greedy"), learned(ann=[10, 20, 30]))
    assert list(found.items()) == [
        (state.pending[0], Forecast(10, 20, 100)),
        (state.pending[1], Forecast(20, 40, 200)),
    ]


def test_a_forecast_follows_the_trial_order() -> None:
    state = running((0, 8, 10))
    for serial, limit in ((1, 50), (2, 5)):
        state.submit(job(serial, 8, limit))
    by_serial = {
        job.serial: forecast.latest
        for job, forecast in forecast_pool(0, state, pool_policy_named(DEFAULT_POLICY), RunTimeHistory()).items()
    }
    assert by_serial == {2: 10, 1: 15}
    by_serial = {
        job.serial: forecast.latest
        for job, forecast in forecast_pool(0, state, pool_policy_named("fifo"), RunTimeHistory()).items()
    }
    assert by_serial == {1: 10, 2: 60}


def _forecasts(state: PoolState, policy: str) -> list[Forecast]:
    return list(forecast_pool(0, state, pool_policy_named(policy), RunTimeHistory()).values())


def test_a_forecast_of_fifo_has_no_overtaking() -> None:
    state = running((0, 5, 10))
    state.submit(job(1, 8, 10))
    state.submit(job(2, 1, 1))
    assert [forecast.latest for forecast in _forecasts(state, "fifo")] == [10, 20]
    assert [forecast.latest for forecast in _forecasts(state, "greedy")] == [10, 0]


def test_a_start_that_depends_on_unknown_run_times_is_unknown() -> None:
    state = running((0, 5, inf))
    state.submit(job(1, 8, 10))
    state.submit(job(2, 3, 10))
    assert _forecasts(state, "greedy") == [Forecast(0, inf, inf), Forecast(0, 0, 0)]


class Asking:
    """Forecasts at every arrival."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy = policy

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        reserved_starts = {reservation.job: reservation.start for reservation in self.policy.reservations(now, state)}
        found = forecast_pool(now, state, self.policy, RunTimeHistory())
        assert found.keys() == set(state.pending)
        for waiting, forecast in found.items():
            bound = reserved_starts.get(waiting, inf)
            assert now <= forecast.earliest <= forecast.likely <= forecast.latest <= bound

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None: ...

    def ended(self, now: float, job: Job, run: float) -> None: ...


@given(pool_cases(), st.sampled_from(["fifo", "greedy", "easy-sjbf", "conservative", "depth-2", DEFAULT_POLICY]))
def test_no_forecast_is_later_than_the_reservation(case: PoolCase, name: str) -> None:
    policy = pool_policy_named(name, 5.0)
    simulate_pool(case.tasks, case.capacity, policy, Asking(policy))
