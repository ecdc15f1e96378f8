"""The summary of a history, computed manually."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from zonewise_scheduler.simulator.accuracy import (
    ForecastError,
    ReservationAccuracy,
    forecast_error,
    reservation_accuracy,
)
from zonewise_scheduler.simulator.history import History, JobHistory, JobRun
from zonewise_scheduler.simulator.summary import Summary, by_kind, summarise


def job(name: str, *runs: JobRun, submitted: float = 0, **fields: Any) -> JobHistory:
    """Return a job of 4 CPUs that completed with its last run."""
    fields = {"kind": "", "amounts": {"cpu": 4}, "outcome": "done"} | fields
    return JobHistory(name, "q", submitted=submitted, walltime=inf, pods=1, priority=0, runs=runs, **fields)


def history(*jobs: JobHistory, capacity: int = 8) -> History:
    return History(list(jobs), {"cpu": capacity}, 12, 0.5)


def test_a_summary_without_jobs() -> None:
    nothing = {"cpu": 0.0}
    expected = Summary(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, nothing, nothing, nothing, 0, 0, None, None, 24)
    assert summarise(history()) == expected
    assert summarise(History([], {"cpu": 8}, 0, 0.0)).decisions_per_second == 0


def test_waits_last_until_the_start_of_the_completed_run() -> None:
    lost, whole = JobRun(10, 20, 10, whole=False), JobRun(30, 50, 31)
    result = summarise(history(job("a", JobRun(10, 30, 12)), job("b", lost, whole, submitted=5)))
    assert (result.jobs, result.wait_mean, result.wait_median, result.wait_max) == (2, 17.5, 17.5, 25)
    assert result.ready_mean == (12 + 26) / 2
    assert result.bounded_slowdown == pytest.approx((30 / 20 + 45 / 20) / 2)
    assert result.makespan == 50


def test_shares_of_allocated_effective_and_lost_usage() -> None:
    result = summarise(history(job("a", JobRun(0, 10, 2)), job("b", JobRun(0, 4, 1, whole=False), JobRun(5, 10, 5))))
    assert result.utilisation == {"cpu": pytest.approx((10 + 4 + 5) / 20)}
    assert result.effective == {"cpu": pytest.approx((8 + 5) / 20)}
    assert result.lost == {"cpu": pytest.approx(4 / 20)}
    assert result.preemptions == 1


def test_the_makespan_covers_preempted_runs_of_a_job_that_is_pending_at_the_end() -> None:
    """A share of a resource is therefore never above one."""
    preempted = job("a", JobRun(0, 90, 0, whole=False), outcome="waiting")
    result = summarise(history(preempted, job("b", JobRun(90, 100, 90), submitted=90), capacity=4))
    assert (result.makespan, result.utilisation, result.lost) == (100, {"cpu": 1}, {"cpu": pytest.approx(0.9)})


def test_the_work_of_a_failed_job_is_not_effective() -> None:
    result = summarise(history(job("a", JobRun(0, 10, 2)), job("b", JobRun(0, 10, 2), outcome="failed")))
    assert (result.jobs, result.failed, result.effective) == (2, 1, {"cpu": pytest.approx(8 / 20)})


def test_jobs_that_did_not_run_are_counted_separately() -> None:
    outcomes = ("refused", "waiting", "waiting")
    result = summarise(history(*(job(str(index), outcome=entry) for index, entry in enumerate(outcomes))))
    assert (result.jobs, result.rejected, result.waiting, result.makespan) == (0, 1, 2, 0)


def test_a_missing_resource_has_no_share() -> None:
    """The same applies to a resource without a limit."""
    entry = job("a", JobRun(0, 10, 0), amounts={"cpu": 0, "memory": 5})
    assert summarise(history(entry, capacity=0)).utilisation == {"cpu": 0}


def test_each_kind_has_its_own_summary() -> None:
    result = by_kind(
        history(
            job("a", JobRun(2, 10, 2), kind="small"),
            job("b", JobRun(0, 20, 0), kind="large"),
            job("c", JobRun(4, 8, 4), kind="small"),
            job("d", JobRun(0, 9, 0)),
        )
    )
    assert {kind: (entry.jobs, entry.wait_mean) for kind, entry in result.items()} == {"small": (2, 3), "large": (1, 0)}


# --- forecasts and reservations


def test_forecasts_predict_the_first_start() -> None:
    again = job("a", JobRun(12, 15, 12, whole=False), JobRun(90, 95, 90), forecast=(5, 10, 20))
    jobs = (
        again,
        job("b", JobRun(30, 40, 30), forecast=(5, 24, 28)),
        job("c", JobRun(3, 4, 3)),
        job("d", forecast=(1, 2, 3)),
    )
    unknown = job("e", JobRun(1, 2, 1), forecast=(0, inf, inf))
    assert forecast_error(history(*jobs, unknown)) == ForecastError(
        3,
        1,
        mean=4,
        median=4,
        relative=(2 / 12 + 6 / 30) / 2,
        short_median=4,
        long_relative=None,
        within=0.5,
        width=(15 / 12 + 23 / 30) / 2,
        long_width=None,
    )
    assert forecast_error(history(unknown)) == ForecastError(1, 1, *(8 * [inf]))
    assert forecast_error(history(jobs[2])) is None


def test_errors_relative_to_the_wait_count_from_the_second_week_on() -> None:
    """The forecast of the first week is wrong by a day, the later one by an hour of ten, with thrice the width."""
    day, hour, later = 86400.0, 3600.0, 8 * 86400.0
    first = job("a", JobRun(2 * day, 3 * day, 2 * day), forecast=(0, day, day))
    run = JobRun(later + 10 * hour, later + day, later + 10 * hour)
    second = job("b", run, forecast=(later, later + 9 * hour, later + 30 * hour))
    second = second._replace(submitted=later)
    assert forecast_error(history(first, second)) == ForecastError(
        2, 0, 12.5 * hour, 12.5 * hour, 0.1, short_median=None, long_relative=0.1, within=1, width=3, long_width=3
    )


def test_short_and_long_waits_have_errors_of_their_own() -> None:
    """A wait of an hour is forecast as two hours, and one of ten hours as eleven."""
    hour = 3600.0
    short = job("a", JobRun(hour, 3 * hour, hour), forecast=(0, 2 * hour, 4 * hour))
    long = job("b", JobRun(10 * hour, 11 * hour, 10 * hour), forecast=(5 * hour, 11 * hour, 15 * hour))
    error = forecast_error(history(short, long))
    assert error is not None
    assert (error.short_median, error.long_relative, error.long_width) == (hour, 0.1, 1)
    assert (error.relative, error.width) == ((1 + 0.1) / 2, (4 + 1) / 2)


def test_a_reservation_is_met_by_the_first_start_after_it() -> None:
    jobs = (
        job("early", JobRun(6, 9, 6), reservation=(1, 10)),
        job("in time", JobRun(10, 12, 10), reservation=(0, 10)),
        job("late", JobRun(11, 12, 11), reservation=(0, 10)),
        job("never", outcome="waiting", reservation=(0, 10)),
        job("preempted before", JobRun(0, 3, 0, whole=False), JobRun(8, 9, 8), reservation=(3, 8)),
        job("preempted after", JobRun(4, 6, 4, whole=False), JobRun(20, 21, 20), reservation=(3, 8)),
        job("unknown", JobRun(50, 60, 50), reservation=(3, inf)),
    )
    assert reservation_accuracy(history(*jobs)) == ReservationAccuracy(6, 2, (4 + 0 + 0 + 4) / 4)
    assert reservation_accuracy(history(job("a", JobRun(0, 1, 0)))) is None
