"""What the webhooks know about the settings and the cluster, and which objects are jobs of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import object_in, objects_in
from zonewise_common.kube.resources import JOBS, LEADER_WORKER_SETS
from zonewise_scheduler.controller.jobs.interface import ParentAdapter
from zonewise_scheduler.controller.jobs.job_fields import annotations_of, queue_name
from zonewise_scheduler.controller.jobs.managed_owner import has_managed_owner, has_queued_owner
from zonewise_scheduler.controller.jobs.registry import group_kind
from zonewise_scheduler.controller.pods.group_owner import leader_worker_pod_sets
from zonewise_scheduler.controller.pods.pod_names import WORKLOAD_ANNOTATION
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.status import has_quota

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

POD = ("", "Pod")
LEADER_WORKER_SET = group_kind(LEADER_WORKER_SETS)
"""Group and kind of plain pods, which are gated, and of the sets that own them. Other kinds are suspended."""
BATCH_JOB = group_kind(JOBS)


class AdmissionRules(NamedTuple):
    """The facts besides the object itself that determine the response."""

    suspend_paths: Mapping[tuple[str, str], FieldPath]
    """Path of the field that holds a job, by API group and kind; empty if its pods are held. See suspend_paths()."""
    has_default_queue: Callable[[str], bool]
    """Returns whether a namespace has the LocalQueue `default`. Several threads call it."""
    has_default_priority_class: Callable[[], bool]
    """Returns whether there is the WorkloadPriorityClass `default`. Several threads call it."""
    pod_sets: Callable[[tuple[str, str], Json], tuple[PodSetManifest, ...]]
    """Returns the pod sets of a job of an API group and kind. Raises FieldError for an invalid job."""
    find_job: Callable[[str], Json | None]
    """Returns the observed job with a UID. Several threads call it."""
    find_workload: Callable[[str], Json | None]
    """Returns the observed Workload with a namespace and name. Several threads call it."""
    manages: Callable[[str], bool]
    """Returns whether the jobs of a namespace are queued. Several threads call it."""
    manages_without_queue_name: bool = False
    """The setting manageJobsWithoutQueueName. If it is true, jobs without a queue are suspended too."""


def belongs_to_job(obj: Json, namespace: str, rules: AdmissionRules) -> bool:
    """Return whether an object belongs to a job that is queued instead of it. Raises FieldError."""
    if queue_name(obj):
        without = rules.manages_without_queue_name
        is_owned = has_queued_owner(obj, rules.suspend_paths, rules.find_job, manages_without_queue_name=without)
    else:
        is_owned = has_managed_owner(obj, rules.suspend_paths)
    return is_owned or _is_pod_of_started_job(obj, namespace, rules)


def _is_pod_of_started_job(obj: Json, namespace: str, rules: AdmissionRules) -> bool:
    """Return whether a start has named the Workload of a job in the template of an owned pod.

    This covers owners of any kind, such as the ReplicaSet of a Deployment in an AppWrapper. Plain pods own their
    Workload themselves, so a copy of one is queued.
    """
    name = annotations_of(obj).get(WORKLOAD_ANNOTATION)
    owners = objects_in(object_in(obj, "metadata", ""), "ownerReferences", "metadata.")
    workload = rules.find_workload(f"{namespace}/{name}") if name and owners else None
    if workload is None or not has_quota(workload) or is_true(workload, "Finished"):
        return False
    return has_managed_owner(workload, {kind for kind, path in rules.suspend_paths.items() if path})


def suspend_paths(adapters: Mapping[tuple[str, str], JobAdapter]) -> dict[tuple[str, str], FieldPath]:
    """Return the suspend paths of all kinds with an adapter (jobs/registry.py adapters_by_kind()).

    Those of pods and LeaderWorkerSets are empty.
    """
    return {**{kind: adapter.suspend_path for kind, adapter in adapters.items()}, POD: (), LEADER_WORKER_SET: ()}


def pod_sets_reader(
    adapters: Mapping[tuple[str, str], JobAdapter],
) -> Callable[[tuple[str, str], Json], tuple[PodSetManifest, ...]]:
    """Return the function that reads the pod sets of a new job; those of another object are not known yet."""

    def read(kind: tuple[str, str], job: Json) -> tuple[PodSetManifest, ...]:
        if kind == LEADER_WORKER_SET:
            return leader_worker_pod_sets(job)
        adapter = adapters.get(kind)
        return () if adapter is None or isinstance(adapter, ParentAdapter) else adapter.pod_sets(job)

    return read


def is_suspended(obj: Json, path: FieldPath) -> bool:
    """Return whether the suspend field of its kind holds a job. Raises FieldError."""
    *parents, name = map(str, path)
    for parent in parents:
        obj = object_in(obj, parent, "")
    return obj.get(name) is True
