"""The simulation of a single pool: the order of events, and the summary."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from support.pool_jobs import CPUS, PoolCase, cpus, job, pool_cases, starts, task
from support.pool_runs import pool_history, run_pool
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.simulator.accuracy import (
    ForecastError,
    ReservationAccuracy,
    forecast_error,
    reservation_accuracy,
)
from zonewise_scheduler.simulator.forecasters import PoolForecaster
from zonewise_scheduler.simulator.history import JobRun
from zonewise_scheduler.simulator.pool_simulation import Task
from zonewise_scheduler.simulator.reservations import ReservationRecorder
from zonewise_scheduler.simulator.summary import Summary, summarise

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy

EASY, GREEDY = pool_policy_named("easy"), pool_policy_named("greedy")


# --- ties, as in the published experiments


def test_quota_of_a_job_that_ends_on_time_is_free_for_jobs_submitted_at_that_time() -> None:
    assert starts([task(0, 8, 10), task(1, 8, 5, 10)], cpus(8), EASY) == [0, 10]


def test_a_submission_precedes_an_early_end_at_the_same_time() -> None:
    """The shorter job, which arrives at 10, is therefore available when the pool becomes free."""
    tasks = [task(0, 8, 20, run=10), task(1, 8, 7), task(2, 8, 1, 10)]
    assert starts(tasks, cpus(8), pool_policy_named(DEFAULT_POLICY)) == [0, 11, 10]


def test_ends_at_the_same_time_are_handled_one_by_one() -> None:
    """After the first early end only the narrow job fits; it may be backfilled, as it ends before the shadow time."""
    tasks = [task(0, 4, 20, run=10), task(1, 4, 20, run=10), task(2, 8, 5), task(3, 4, 5)]
    for name in ("greedy", "easy"):
        assert starts(tasks, cpus(8), pool_policy_named(name)) == [0, 0, 15, 10]


def test_ends_at_the_same_time_are_in_the_order_of_the_starts() -> None:
    """Job 2 starts before job 1, and both end at 10. After the end of job 2 alone, job 4 fits but job 3 does not."""
    running = [task(0, 6, 20, run=4), task(1, 4, 20, run=6), task(2, 2, 20, run=10)]
    tasks = [*running, task(3, 6, 5, 5), task(4, 4, 5, 5)]
    assert starts(tasks, cpus(8), GREEDY) == [0, 4, 0, 15, 10]


def test_a_job_may_outlive_its_walltime() -> None:
    """Its resources are free only after its actual end."""
    tasks = [task(0, 8, 10, run=130), task(1, 8, 5, 1), task(2, 8, 5, 40)]
    for name in ("easy", "conservative", "shortest-reserving"):
        assert starts(tasks, cpus(8), pool_policy_named(name)) == [0, 130, 135]


def test_a_job_without_length_starts_and_ends() -> None:
    assert starts([task(0, 8, 1, run=0), task(1, 8, 1)], cpus(8), EASY) == [0, 0]


def test_a_reservation_begins_even_if_nothing_else_happens_then() -> None:
    """Job 1 is brought forward to 7, the end of job 3's reservation, before this reservation is brought forward."""
    tasks = [task(0, 1, 10, run=1), task(1, 8, 5), task(2, 4, 5), task(3, 4, 2)]
    assert starts(tasks, cpus(8), pool_policy_named("conservative")) == [0, 7, 0, 1]


def test_a_job_that_exceeds_the_empty_pool_is_rejected() -> None:
    tasks = [task(0, 9, 10), task(1, 8, 10)]
    outcome = run_pool(tasks, cpus(8), EASY)
    assert list(outcome.starts) == [tasks[1].job]


def test_tasks_may_be_given_in_any_order() -> None:
    tasks = [task(1, 8, 10, 5), task(0, 8, 10, 0)]
    outcome = run_pool(tasks, cpus(8), EASY)
    assert [entry.job.serial for entry in outcome.tasks] == [0, 1]
    assert outcome.starts == {tasks[1].job: 0, tasks[0].job: 10}


# --- histories


def summary(case: PoolCase, policy: PoolPolicy = EASY) -> Summary:
    return summarise(pool_history(run_pool(case.tasks, case.capacity, policy), case.packing, case.capacity))


def test_an_example_of_a_summary() -> None:
    tasks = [task(0, 8, 10, 100), task(1, 8, 30, 100), task(2, 4, 2, 110), task(3, 9, 1, 90)]
    result = summary(PoolCase(CPUS, cpus(8), tasks))
    assert (result.jobs, result.rejected, result.makespan) == (3, 1, 42)
    assert (result.wait_mean, result.wait_median, result.wait_max) == (40 / 3, 10, 30)
    assert result.wait_p95 == pytest.approx(28)
    assert result.bounded_slowdown == pytest.approx((1 + 40 / 30 + 32 / 10) / 3)
    assert result.utilisation == result.effective == pytest.approx({"cpu": (80 + 240 + 8) / (8 * 42)})


def test_the_history_of_a_pool() -> None:
    tasks = [task(0, 8, 10, 100, run=7), task(1, 9, 1, 100)]
    outcome = run_pool(tasks, cpus(8), EASY)
    ran, rejections = pool_history(outcome, CPUS, cpus(8)).jobs
    assert (ran.name, ran.submitted, ran.walltime, ran.amounts) == ("job-0", 100, 10, {"cpu": 8})
    assert (ran.outcome, ran.runs, ran.wait) == ("done", (JobRun(100, 107, 100),), 0)
    assert (rejections.outcome, rejections.runs, rejections.wait) == ("refused", (), None)


@given(pool_cases())
def test_usage_never_exceeds_the_capacity(case: PoolCase) -> None:
    result = summary(case)
    assert result.jobs + result.rejected == len(case.tasks)
    assert all(0 <= share <= 1 for share in result.utilisation.values())
    assert 0 <= result.wait_median <= result.wait_max
    assert result.bounded_slowdown >= 1 or not result.jobs


# --- forecasts


def forecast_errors(tasks: list[Task], policy: PoolPolicy, every: int = 1) -> ForecastError | None:
    observer = PoolForecaster(policy, every)
    outcome = run_pool(tasks, cpus(8), policy, observer)
    return forecast_error(pool_history(outcome, CPUS, cpus(8), observer.forecasts))


def test_forecasts_are_compared_with_the_actual_starts() -> None:
    """Every job declares 100 s and runs for 10 s; the run time of similar jobs is the better forecast."""
    tasks = [Task(job(serial, 8, 100, 15.0 * (serial // 2), history_keys=("ann",)), 10) for serial in range(80)]
    result = forecast_errors(tasks, GREEDY)
    assert result is not None
    assert (result.unknown, result.median) == (0, pytest.approx(0))
    assert result.jobs > 40
    assert result.within > 0.9


def test_every_nth_job_has_a_forecast() -> None:
    result = forecast_errors([task(serial, 8, 10) for serial in range(10)], EASY, 3)
    assert result is not None
    assert (result.jobs, result.unknown, result.within) == (3, 0, 1)
    assert result.relative == pytest.approx(0)


def test_unknown_forecasts_are_counted() -> None:
    result = forecast_errors([Task(job(0, 8), 10), task(1, 8, 10)], EASY)
    assert result == ForecastError(1, 1, *(8 * [inf]))


def test_a_forecast_does_not_use_later_events() -> None:
    """Two logs are equal up to some time, and so are their forecasts until then."""
    early = [Task(job(serial, 5, 100, 7.0 * serial, history_keys=("ann",)), 10 + serial % 7) for serial in range(60)]
    late = [Task(job(100 + serial, 8, 100, 430.0 + serial, history_keys=("ann",)), 90) for serial in range(9)]
    observers = [PoolForecaster(GREEDY) for _ in range(2)]
    for observer, tasks in zip(observers, ([*early], [*early, *late]), strict=True):
        run_pool(tasks, cpus(8), GREEDY, observer)
    first, second = ({job: one for job, one in each.forecasts.items() if job.serial < 60} for each in observers)
    assert len(first) > 20
    assert first == second


def test_reservations_hold() -> None:
    tasks = [task(0, 4, 20, run=10), task(1, 4, 20, run=10), task(2, 8, 5), task(3, 4, 5)]
    observer = ReservationRecorder(EASY)
    outcome = run_pool(tasks, cpus(8), EASY, observer)
    assert reservation_accuracy(
        pool_history(outcome, CPUS, cpus(8), reservations=observer.first_reservations)
    ) == ReservationAccuracy(1, 0, 5)
