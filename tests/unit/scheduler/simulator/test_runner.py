"""One way to play whatever was read."""

from __future__ import annotations

from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.simulator.runner import RunOptions, run_policy
from zonewise_scheduler.simulator.swf import SwfLog, parse_swf

LOG = parse_swf(
    [
        "; MaxProcs: 8",
        *(
            f"{one} {one * 3} -1 {one % 7 * 5} {1 + one * 5 % 8} -1 -1 -1 40 -1 1 {one % 2} 1 1 1 -1 -1 -1"
            for one in range(99)
        ),
    ]
)


def test_a_log_runs_on_its_processors() -> None:
    found = run_policy(LOG, policy_named("easy"), RunOptions())
    assert found.capacity == {"processors": 8}
    assert [one.name for one in found.jobs] == [str(number) for number in range(99)]


def test_observers_change_nothing() -> None:
    """Promises, forecasts and progress are told beside the same starts."""
    rules = policy_named("easy")
    alone = run_policy(LOG, rules, RunOptions())
    watched = run_policy(LOG, rules, RunOptions(forecast_every=2), lambda done, total, now: None)
    assert [one._replace(forecast=None) for one in watched.jobs] == list(alone.jobs)
    assert sum(one.forecast is not None for one in watched.jobs) > 10
    assert any(one.reservation is not None for one in alone.jobs)


def test_progress_is_how_many_have_ended_of_all() -> None:
    told: list[tuple[int, int, float]] = []
    run_policy(LOG, policy_named("greedy"), RunOptions(), lambda done, total, now: told.append((done, total, now)))
    assert len(told) > 3
    assert told == sorted(told)
    assert {total for _, total, _ in told} == {99}


def test_with_exact_run_times_nothing_declared_counts() -> None:
    found = run_policy(LOG, policy_named("conservative"), RunOptions(exact=True))
    assert {one.walltime for one in found.jobs} == {1, 5, 10, 15, 20, 25, 30}


def test_no_jobs_are_no_failure() -> None:
    assert run_policy(SwfLog([], 8, [], 0), policy_named("easy"), RunOptions()).jobs == []
