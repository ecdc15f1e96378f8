"""The bound on worst waits that the benchmark prints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.least_wait import least_worst_wait
from support.pool_runs import run_pool
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.simulator.pool_log import COLUMNS, PROCESSORS, build_tasks
from zonewise_scheduler.simulator.swf import LoggedJob

HOUR = 3600


def logged(number: int, submitted: float, run: float, processors: int) -> LoggedJob:
    return LoggedJob(number, submitted, -1, run, processors, run, 1, -1, 1)


def test_jobs_that_need_everything() -> None:
    """Ten jobs of an hour each are submitted at once: the last one waits for nine others."""
    jobs = [logged(number, 0, HOUR, 8) for number in range(10)]
    assert 0.9 * 9 * HOUR < least_worst_wait(jobs, 8, 24 * HOUR) <= 9 * HOUR


_JOBS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=12)


@pytest.mark.parametrize("policy", ["fifo", "greedy", "easy-sjbf", "conservative"])
@settings(max_examples=25)
@given(_JOBS)
def test_no_policy_is_better(policy: str, found: list[tuple[int, int, int]]) -> None:
    jobs = [logged(number, *one) for number, one in enumerate(found)]
    outcome = run_pool(build_tasks(jobs), COLUMNS.pack_available({PROCESSORS: 8}), pool_policy_named(policy))
    worst = max(start - job.submitted for job, start in outcome.starts.items())
    assert least_worst_wait(jobs, 8, 256, 1) <= worst
