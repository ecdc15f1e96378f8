"""`zonewise queue --state --user --sort-by`: which jobs are listed, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.client.jobs.job_facts import FINISHED, STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.client.jobs.job_facts import JobFacts

_ORDERS: Mapping[str, Callable[[JobFacts, float], float | str | None]] = {
    "name": lambda job, _: job.name,
    "age": lambda job, _: job.created_at,
    "run": lambda job, now: _descending(job.ran(now)),
    "limit": lambda job, _: _descending(job.walltime),
    "pods": lambda job, _: -job.pods,
    "priority": lambda job, _: -job.priority,
    "start": lambda job, _: job.likely if job.likely is not None else job.reserved_start,
    "waited": lambda job, _: _descending(job.waited),
    "ended": lambda job, _: _descending(job.finished_at),
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


def select_jobs(
    jobs: Iterable[JobFacts], states: frozenset[str], column: str, now: float, user: str = ""
) -> list[JobFacts]:
    """Return the jobs of a user in one of the states, in the order of a column; jobs without a value come last.

    `states`: empty for all states except finished. `column`: one of SORT_COLUMNS, or "" for the order of `jobs`. The
    longest, the largest, the most important, the soonest and the last to end come first. `user`: "" for all users.
    """
    selected = [job for job in jobs if (job.state in states if states else job.state != FINISHED)]
    selected = [job for job in selected if user in {"", job.user}]
    if not column:
        return selected
    key = _ORDERS[column]
    return sorted(selected, key=lambda job: _last_if_unknown(key(job, now)))


def _descending(value: float | None) -> float | None:
    return None if value is None else -value


def _last_if_unknown(value: float | str | None) -> tuple[bool, float | str]:
    return (True, 0.0) if value is None else (False, value)
