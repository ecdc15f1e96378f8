"""Which jobs `zonewise queue` lists, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zonewise_scheduler.client.jobs.job_facts import STATES, JobFacts
from zonewise_scheduler.client.jobs.job_selection import SORT_COLUMNS, read_states, select_jobs

JOB = JobFacts("ns", "w", "Job", "batch/v1", "a", "gpu", "Pending")
NOW = 9.0
OTHERS = {
    "name": ("name", ["a", "b", "c"]),
    "age": ("created_at", [1.0, 2.0, None]),
    "run": ("started_at", [1.0, 2.0, None]),
    "limit": ("walltime", [9.0, 3.0, None]),
    "pods": ("pods", [9, 3, 0]),
    "priority": ("priority", [9, 3, -1]),
    "start": ("likely", [1.0, 2.0, None]),
    "waited": ("created_at", [1.0, 2.0, None]),
    "ended": ("finished_at", [2.0, 1.0, None]),
}
"""For each column: the field, and its values in the expected order."""


def test_finished_jobs_are_listed_only_if_selected() -> None:
    jobs = [replace(JOB, state=state) for state in STATES]
    assert [job.state for job in select_jobs(jobs, frozenset(), "", NOW)] == [*STATES[:-1]]
    assert [job.state for job in select_jobs(jobs, frozenset({"Finished", "Held"}), "", NOW)] == ["Held", "Finished"]


@pytest.mark.parametrize("column", SORT_COLUMNS)
def test_jobs_without_a_value_come_last(column: str) -> None:
    field, values = OTHERS[column]
    base = replace(JOB, started_at=3.0) if column == "waited" else JOB
    jobs = [replace(base, **{field: value}) for value in values]
    assert [getattr(job, field) for job in select_jobs(jobs[::-1], frozenset(), column, NOW)] == values


def test_equal_jobs_keep_their_order() -> None:
    jobs = [replace(JOB, name=name) for name in "cab"]
    assert select_jobs(jobs, frozenset(), "pods", NOW) == jobs


def test_the_run_of_a_finished_job_ends_with_it() -> None:
    finished = replace(JOB, state="Finished", started_at=1.0, finished_at=3.0)
    running = replace(JOB, state="Admitted", started_at=4.0)
    assert select_jobs([finished, running], frozenset(STATES), "run", NOW) == [running, finished]


def test_a_reserved_start_is_a_start() -> None:
    reserved, likely = replace(JOB, name="r", reserved_start=1.0), replace(JOB, name="l", likely=2.0)
    assert select_jobs([likely, reserved], frozenset(), "start", NOW) == [reserved, likely]


def test_states_are_words_in_any_case() -> None:
    assert read_states("pending, Held") == {"Pending", "Held"}
    for text in ("", "pending,", "running"):
        with pytest.raises(ValueError, match="the states are admitted, stopping, reserved, pending, held, finished"):
            read_states(text)


def test_only_the_jobs_of_a_user_are_selected() -> None:
    """An unknown user is none of the users."""
    jobs = [replace(JOB, name=name, user=user) for name, user in (("a", "ann"), ("b", "ben"), ("c", ""))]
    assert [[job.name for job in select_jobs(jobs, frozenset(), "", NOW, user)] for user in ("ann", "ann2", "")] == [
        ["a"],
        [],
        ["a", "b", "c"],
    ]
