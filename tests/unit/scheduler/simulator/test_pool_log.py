"""Logs of any length: tasks and histories are created when they are read."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.pool_runs import pool_history, run_pool
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy
from zonewise_scheduler.simulator.job_columns import job_columns
from zonewise_scheduler.simulator.pool_log import COLUMNS, PROCESSORS, build_tasks
from zonewise_scheduler.simulator.reservations import ReservationRecorder
from zonewise_scheduler.simulator.runner import RunOptions, run_policy
from zonewise_scheduler.simulator.summary import summarise
from zonewise_scheduler.simulator.swf import LoggedJob, LoggedJobs, SwfLog

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History

TIMES = st.integers(0, 300) | st.floats(0, 300)
JOBS = st.lists(
    st.builds(
        LoggedJob, st.integers(0, 9), TIMES, st.just(-1), TIMES, st.integers(1, 9),
        st.integers(1, 300) | st.floats(1, 300), st.integers(0, 2), st.just(0), st.just(0),
    ),
    max_size=30,
)  # fmt: skip
POLICIES = ("shortest-reserving", "easy", "conservative", "depth-2", "greedy")


def objects(jobs: LoggedJobs, name: str) -> History:
    """Return the history of a simulation that holds a job as an object."""
    decider, capacity = pool_policy(policy_named(name, 50)), COLUMNS.pack_available({PROCESSORS: 8})
    recorder = ReservationRecorder(decider)
    observer = recorder if policy_named(name).reserves else None
    outcome = run_pool(build_tasks(jobs), capacity, decider, observer)
    return pool_history(outcome, COLUMNS, capacity, reservations=recorder.first_reservations)


@given(JOBS)
def test_columns_represent_the_same_jobs_as_objects(logged: list[LoggedJob]) -> None:
    """The jobs are the same down to integers and floats in the JSON document, and so are the numbers of the summary."""
    jobs = LoggedJobs(logged)
    for name in POLICIES:
        expected = objects(jobs, name)
        actual = run_policy(SwfLog(jobs, 8, [], 0), policy_named(name, 50), RunOptions())
        assert repr(list(actual.jobs)) == repr(list(expected.jobs))
        assert repr(summarise(actual._replace(seconds=0.0))) == repr(summarise(expected._replace(seconds=0.0)))


@given(JOBS)
def test_a_log_is_a_sequence_of_its_jobs(logged: list[LoggedJob]) -> None:
    jobs = LoggedJobs(logged)
    assert (list(jobs), len(jobs), list(jobs[1:])) == (logged, len(logged), logged[1:])
    assert [jobs[row] for row in jobs.by_submission()] == sorted(
        logged, key=lambda job: (job.submit_time, job.job_number)
    )


def test_a_job_wider_than_any_machine_has_its_own_width() -> None:
    """A simulation of one pool holds widths in fewer bits than a log."""
    jobs = LoggedJobs([LoggedJob(1, 0, -1, 15, 10**9, 20, 1, 1, 1)])
    history = run_policy(SwfLog(jobs, 16, [], 0), policy_named("easy"), RunOptions())
    assert [(job.outcome, job.amounts) for job in history.jobs] == [("refused", {PROCESSORS: 10**9})]
    assert job_columns(history.jobs).amounts == [{PROCESSORS: 10**9}]


def test_a_job_uses_less_than_250_bytes() -> None:
    """A million jobs therefore fit in 400 MB; objects would use 1,000 bytes per job."""
    count = 20_000
    tracemalloc.start()
    try:
        jobs = LoggedJobs(LoggedJob(row, row * 10, -1, 15, 1 + row % 8, 20, row % 90, 1, 1) for row in range(count))
        history = run_policy(SwfLog(jobs, 16, [], 0), policy_named("easy"), RunOptions())
        summarise(history)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250 * count
