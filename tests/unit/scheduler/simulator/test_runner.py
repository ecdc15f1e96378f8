"""A single function runs any trace."""

from __future__ import annotations

from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.simulator.runner import RunOptions, run_policy
from zonewise_scheduler.simulator.swf import LoggedJobs, SwfLog, parse_swf

LOG = parse_swf(
    [
        "; MaxProcs: 8",
        *(
            f"{entry} {entry * 3} -1 {entry % 7 * 5} {1 + entry * 5 % 8} -1 -1 -1 40 -1 1 {entry % 2} 1 1 1 -1 -1 -1"
            for entry in range(99)
        ),
    ]
)


def test_a_log_runs_on_its_processors() -> None:
    result = run_policy(LOG, policy_named("easy"), RunOptions())
    assert result.capacity == {"processors": 8}
    assert [entry.name for entry in result.jobs] == [str(number) for number in range(99)]


def test_observers_change_nothing() -> None:
    """Reservations, forecasts and progress are recorded without changing any start."""
    rules = policy_named("easy")
    single = run_policy(LOG, rules, RunOptions())
    watched = run_policy(LOG, rules, RunOptions(forecast_every=2), lambda done, total, now: None)
    assert [entry._replace(forecast=None) for entry in watched.jobs] == list(single.jobs)
    assert sum(entry.forecast is not None for entry in watched.jobs) > 10
    assert any(entry.reservation is not None for entry in single.jobs)


def test_progress_is_the_number_of_ended_jobs_of_all_jobs() -> None:
    reported: list[tuple[int, int, float]] = []
    run_policy(LOG, policy_named("greedy"), RunOptions(), lambda done, total, now: reported.append((done, total, now)))
    assert len(reported) > 3
    assert reported == sorted(reported)
    assert {total for _, total, _ in reported} == {99}


def test_with_exact_run_times_declared_ones_do_not_count() -> None:
    result = run_policy(LOG, policy_named("conservative"), RunOptions(exact=True))
    assert {entry.walltime for entry in result.jobs} == {1, 5, 10, 15, 20, 25, 30}


def test_a_trace_without_jobs_is_not_an_error() -> None:
    assert list(run_policy(SwfLog(LoggedJobs(), 8, [], 0), policy_named("easy"), RunOptions()).jobs) == []
