"""Jobs that are queued only after other Jobs have ended (quota/api/job_dependency.py).

Such a Job has no Workload until then, so it has neither a position in a queue nor quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.reverse_index import ReverseIndex
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import dependency_message, read_dependencies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_scheduler.controller.types import Json


class DependentJobs:
    """The observed Jobs that depend on others."""

    def __init__(self, find: Callable[[ObjectKey], Json | None]) -> None:
        """`find` returns an observed object; None: it does not exist."""
        self.waiting: dict[ObjectKey, str] = {}
        """Jobs that waited at their last check, each with the reason."""
        self._find = find
        self._dependencies: ReverseIndex[ObjectKey, ObjectKey] = ReverseIndex()

    def change(self, key: ObjectKey, job: Json | None) -> Collection[ObjectKey]:
        """Record a Job that has changed, and return the Jobs that depend on it; None: it was deleted."""
        if job is None:
            self.waiting.pop(key, None)
        self._dependencies.change(key, () if job is None else _dependency_keys(key, job))
        return self._dependencies.sources(key)

    def waits(self, key: ObjectKey, job: Json) -> bool:
        """Return whether a dependency of a Job is not fulfilled. Raises FieldError for an invalid annotation."""
        messages = (
            dependency_message(dependency, self._find(ObjectKey(JOBS, key.namespace, dependency.job)))
            for dependency in read_dependencies(job)
        )
        message = "; ".join(filter(None, messages))
        if message:
            self.waiting[key] = message
        return bool(message)


def _dependency_keys(key: ObjectKey, job: Json) -> tuple[ObjectKey, ...]:
    try:
        names = dict.fromkeys(dependency.job for dependency in read_dependencies(job))
    except FieldError:  # the reconciler reports it
        return ()
    return tuple(ObjectKey(JOBS, key.namespace, name) for name in names)
