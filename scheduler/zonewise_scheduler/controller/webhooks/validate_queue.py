"""Validation of Kueue's kinds. The problems come from their readers (quota/api/queue_reader.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.queue_reader import (
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_resource_flavor,
    read_workload_priority_class,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest

_READERS: Mapping[str, Callable[[Json], tuple[object, tuple[str, ...]]]] = {
    "ClusterQueue": read_cluster_queue,
    "Cohort": read_cohort,
    "LocalQueue": read_local_queue,
    "ResourceFlavor": read_resource_flavor,
    "WorkloadPriorityClass": read_workload_priority_class,
}
QUEUE_KINDS = frozenset(("kueue.x-k8s.io", kind) for kind in _READERS)


def queue_problems(request: AdmissionRequest) -> tuple[str, ...]:
    """Return the problems that a creation or update introduces. An old problem does not block a change elsewhere.

    So a finalizer can be removed from an object that was stored before the webhook ran.
    """
    read = _READERS[request.kind]
    known = set(read(request.old)[1]) if request.old else set[str]()
    return tuple(problem for problem in read(request.obj)[1] if problem not in known)
