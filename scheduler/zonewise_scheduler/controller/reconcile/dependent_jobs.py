"""Jobs that are queued only after other Jobs have ended (quota/api/job_dependency.py).

Such a Job has no Workload until then, so it has neither a position in a queue nor quota. A Job that has ended may be
deleted at once. Its last state counts until the Jobs that depend on it note that their dependencies are fulfilled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.reverse_index import ReverseIndex
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import (
    dependency_message,
    dependency_state,
    fulfilled_annotation,
    read_dependencies,
    read_fulfilled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.job_dependency import JobDependency


class DependencyProgress(NamedTuple):
    """The dependencies of a Job."""

    waits: bool = False
    """Whether one of them is not fulfilled."""
    annotation: str = ""
    """The annotation that notes the fulfilled ones; "": there is nothing new to note."""


class DependentJobs:
    """The observed Jobs that depend on others."""

    def __init__(self, find: Callable[[ObjectKey], Json | None]) -> None:
        """`find` returns an observed object; None: it does not exist."""
        self.waiting: dict[ObjectKey, str] = {}
        """Jobs that waited at their last check, each with the reason."""
        self._find = find
        self._dependencies: ReverseIndex[ObjectKey, ObjectKey] = ReverseIndex()
        self._deleted: dict[ObjectKey, Json] = {}
        """The last state of each deleted Job, until no other Job needs it."""

    def change(self, key: ObjectKey, old: Json | None, new: Json | None) -> Collection[ObjectKey]:
        """Record a Job before and after a change, and return the Jobs that depend on it; None: it does not exist."""
        if new is None:
            self.waiting.pop(key, None)
        self._dependencies.change(key, () if new is None else _dependency_keys(key, new))
        for other in () if old is None else _dependency_keys(key, old):
            if not self._dependencies.sources(other):
                self._deleted.pop(other, None)
        dependents = self._dependencies.sources(key)
        self._deleted.pop(key, None)
        if new is None and old is not None and dependents:
            self._deleted[key] = old
        return dependents

    def progress(self, key: ObjectKey, job: Json) -> DependencyProgress:
        """Return which dependencies of a Job are fulfilled. Raises FieldError for an invalid annotation."""
        dependencies, noted = read_dependencies(job), read_fulfilled(job)
        others = {each: ObjectKey(JOBS, key.namespace, each.job) for each in dependencies if each not in noted}
        ended = {each for each, other in others.items() if self._is_fulfilled(each, other)}
        message = "; ".join(
            dependency_message(each, self._find(other)) for each, other in others.items() if each not in ended
        )
        if message:
            self.waiting[key] = message
        fulfilled = [each for each in dependencies if each in noted or each in ended]
        return DependencyProgress(bool(message), fulfilled_annotation(job, fulfilled) if ended else "")

    def _is_fulfilled(self, dependency: JobDependency, other: ObjectKey) -> bool:
        return dependency_state(dependency, self._find(other) or self._deleted.get(other)) == "fulfilled"


def _dependency_keys(key: ObjectKey, job: Json) -> tuple[ObjectKey, ...]:
    """Return the Jobs on which a Job depends, without those that it notes as fulfilled."""
    try:
        noted = read_fulfilled(job)
        names = dict.fromkeys(each.job for each in read_dependencies(job) if each not in noted)
    except FieldError:  # the reconciler reports it
        return ()
    return tuple(ObjectKey(JOBS, key.namespace, name) for name in names)
