"""Jobs that wait for other Jobs: they have no Workload yet (quota/api/job_dependency.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.client.jobs.unqueued_jobs import unqueued_job
from zonewise_scheduler.quota.api.job_dependency import (
    dependency_message,
    dependency_state,
    read_dependencies,
    read_fulfilled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.client.jobs.job_facts import JobFacts

Json = dict[str, Any]

DEPENDENCY, DEPENDENCY_NEVER_SATISFIED = "Dependency", "DependencyNeverSatisfied"
"""Reasons, as squeue shows them."""


def read_dependent_job(job: Mapping[str, Any], find: Callable[[str], Json | None]) -> JobFacts | None:
    """Return a Job without a Workload that waits for other Jobs; None if it waits for none.

    `find` returns another Job of its namespace by name, or None if there is none.
    """
    try:
        noted = read_fulfilled(job)
        dependencies = [(each, find(each.job)) for each in read_dependencies(job) if each not in noted]
    except FieldError as error:
        clauses, is_lost = [str(error)], True
    else:
        clauses = [clause for pair in dependencies if (clause := dependency_message(*pair))]
        is_lost = any(dependency_state(*pair) == "never" for pair in dependencies)
    if not clauses:
        return None
    reason = DEPENDENCY_NEVER_SATISFIED if is_lost else DEPENDENCY
    return replace(unqueued_job(job), reason=reason, message="; ".join(clauses))
