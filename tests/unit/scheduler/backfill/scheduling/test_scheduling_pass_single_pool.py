"""A queue without a cohort and a topology is a single pool: the planner starts the same jobs as the pool's policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import Submission, queue, story, submission
from support.pool_jobs import CPUS, cpus, task
from support.pool_runs import run_pool, unpack_request
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.simulator.pool_simulation import Task

SIZE = 8


@st.composite
def task_lists(draw: st.DrawFn, overruns: Sequence[int] = ()) -> list[Task]:
    """Draw jobs that end by their deadlines, except those with a walltime that an overrun exceeds."""
    drawn: list[Task] = []
    now = 0
    for serial in range(draw(st.integers(1, 12))):
        now += draw(st.integers(0, 4))
        run = draw(st.integers(1, 12))
        limit = max(1, run + draw(st.sampled_from([0, 0, 1, 3, 10, float("inf"), *overruns])))
        drawn.append(task(serial, draw(st.integers(1, SIZE)), limit, now, run))
    return drawn


@pytest.mark.parametrize("name", ["fifo", "greedy", "easy", "easy-sjbf", DEFAULT_POLICY])
@given(task_lists() | task_lists(overruns=(-1, -3, -10)), st.sampled_from([0.0, 2.0, 10.0]))
def test_starts_equal_those_of_the_pool(name: str, tasks: list[Task], reserve_after: float) -> None:
    assert_equal_starts(tasks, policy_named(name, reserve_after))


@given(
    task_lists(),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.sampled_from([0.1, 0.5, 2.0, float("inf")]),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_ages_count_as_in_a_pool(
    tasks: list[Task], base: float, walltimes: float, max_hold: float, age_weight: float
) -> None:
    """The default's rules at the scale of these walltimes."""
    policy = BackfillPolicy(30.0, base, walltimes, max_hold, shortest_first=True, age_weight=age_weight)
    assert_equal_starts(tasks, policy)


def assert_equal_starts(tasks: list[Task], policy: BackfillPolicy) -> None:
    expected = run_pool(tasks, cpus(SIZE), pool_policy(policy)).starts
    played = story([queue("q", SIZE)], [as_submission(task_) for task_ in tasks], policy, lazy=True).starts
    assert [expected.get(one.job) for one in tasks] == [played.get(f"/{one.job.serial:03}") for one in tasks]


def as_submission(one: Task) -> Submission:
    amounts = unpack_request(CPUS, one.job.request)
    return submission(
        f"{one.job.serial:03}", amounts["cpu"], one.run_time, at=one.job.submitted, limit=one.job.walltime
    )
