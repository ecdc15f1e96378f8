"""Jobs that are queued only after other Jobs have ended (quota/api/job_dependency.py).

Such a Job has no Workload until then, so it has neither a position in a queue nor quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import dependency_state, read_dependencies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_scheduler.controller.types import Json


class DependentJobs:
    """The observed Jobs that depend on others."""

    def __init__(self, find: Callable[[ObjectKey], Json | None]) -> None:
        """`find` returns an observed object; None: it does not exist."""
        self._find = find
        self._by_dependency: dict[ObjectKey, dict[ObjectKey, None]] = {}
        """Jobs that depend on a Job, by the key of that Job, which need not exist."""
        self._dependencies: dict[ObjectKey, tuple[ObjectKey, ...]] = {}

    def change(self, key: ObjectKey, job: Json | None) -> Collection[ObjectKey]:
        """Record a Job that has changed, and return the Jobs that depend on it; None: it was deleted."""
        dependencies = () if job is None else _dependency_keys(key, job)
        if dependencies != self._dependencies.get(key, ()):
            self._forget(key)
            for dependency in dependencies:
                self._by_dependency.setdefault(dependency, {})[key] = None
            if dependencies:
                self._dependencies[key] = dependencies
        return self._by_dependency.get(key, ())

    def waits(self, key: ObjectKey, job: Json) -> bool:
        """Return whether a dependency of a Job is not fulfilled. Raises FieldError for an invalid annotation."""
        return any(
            dependency_state(dependency, self._find(ObjectKey(JOBS, key.namespace, dependency.job))) != "fulfilled"
            for dependency in read_dependencies(job)
        )

    def _forget(self, key: ObjectKey) -> None:
        for dependency in self._dependencies.pop(key, ()):
            dependents = self._by_dependency[dependency]
            del dependents[key]
            if not dependents:
                del self._by_dependency[dependency]


def _dependency_keys(key: ObjectKey, job: Json) -> tuple[ObjectKey, ...]:
    try:
        names = dict.fromkeys(dependency.job for dependency in read_dependencies(job))
    except FieldError:  # the reconciler reports it
        return ()
    return tuple(ObjectKey(JOBS, key.namespace, name) for name in names)
