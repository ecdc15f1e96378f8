"""`zonewise queue --state --sort-by`: which jobs are listed, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.client.job_facts import FINISHED, STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.client.job_facts import JobFacts

_ORDERS: Mapping[str, Callable[[JobFacts], float | str | None]] = {
    "name": lambda job: job.name,
    "age": lambda job: job.created_at,
    "run": lambda job: job.started_at,
    "limit": lambda job: None if job.walltime is None else -job.walltime,
    "pods": lambda job: -job.pods,
    "priority": lambda job: -job.priority,
    "start": lambda job: job.likely if job.likely is not None else job.reserved_start,
}
SORT_COLUMNS = tuple(_ORDERS)


def read_states(text: str) -> frozenset[str]:
    """Return the states of an argument such as "pending,held". Raises ValueError if one is unknown."""
    known = {state.lower(): state for state in STATES}
    words = [word.strip().lower() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise ValueError(f"unknown state {word or '(none)'}; the states are {', '.join(known)}")
    return frozenset(known[word] for word in words)


def select_jobs(jobs: Iterable[JobFacts], states: frozenset[str], column: str) -> list[JobFacts]:
    """Return the jobs in one of the states, in the order of a column; jobs without a value come last.

    `states`: empty for all states except finished. `column`: one of SORT_COLUMNS, or "" for the order of `jobs`. The
    longest, the largest, the most important and the soonest ones come first.
    """
    selected = [job for job in jobs if (job.state in states if states else job.state != FINISHED)]
    if not column:
        return selected
    key = _ORDERS[column]
    return sorted(selected, key=lambda job: _last_if_unknown(key(job)))


def _last_if_unknown(value: float | str | None) -> tuple[bool, float | str]:
    return (True, 0.0) if value is None else (False, value)
