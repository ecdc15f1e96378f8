"""Whether pods of a Workload are active. While they are, its quota is held, even if its object shows none.

A user may delete or change the Workload of a running job. The job is then stopped, and until its last pod has ended,
its quota must not go to others. A job and its pods record their admission, so the next leader knows it too
(lost_workload.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.cluster_cache import uid_of, workload_owner_uid
from zonewise_scheduler.controller.jobs.elastic_job import is_sliced
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION, is_injected
from zonewise_scheduler.controller.jobs.job_fields import annotation_of
from zonewise_scheduler.controller.jobs.registry import adapter_of_job, group_kind
from zonewise_scheduler.controller.planning.lost_workload import noted_workload_name, workload_of_job, workload_of_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.types import Json, ObjectKey
    from zonewise_scheduler.quota.api.pod_defaults import PodDefaults
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.resource_settings import ResourceSettings


class ActiveJobs:
    """Finds the jobs and pods of Workloads. See the module docstring."""

    def __init__(
        self,
        find: Callable[[ObjectKey], Json | None],
        job_by_uid: Mapping[str, ObjectKey],
        adapters: Mapping[tuple[str, str], JobAdapter],
        pods: NodeTracker,
        pods_of: Callable[[str], Iterable[ManagedPod]],
    ) -> None:
        """Set the observed objects and pods, and the adapters of jobs by API group and kind.

        `pods_of` returns the pods of a Workload by its key.
        """
        self._find = find
        self._job_by_uid = job_by_uid
        self._adapters = adapters
        self._pods = pods
        self._pods_of = pods_of
        self._owners: dict[str, str] = {}
        """UIDs of the jobs that own Workloads, by key of the Workload. Deleted Workloads are included."""
        self._noted: dict[ObjectKey, tuple[str, str]] = {}
        """For each started job, the annotation of its start and the key of the Workload that the annotation names."""

    def set_owner(self, key: str, workload: Json | None) -> None:
        """Record a Workload; None: it was deleted, but remains known until forget()."""
        if workload is not None:
            self._owners[key] = workload_owner_uid(workload)

    def set_job(self, job_key: ObjectKey, job: Json | None) -> str:
        """Record a job; None: it was deleted. Return the key of the Workload that started it; "": it records none.

        The Workload need not exist.
        """
        text = "" if job is None else annotation_of(job, INJECTED_ANNOTATION)
        if job is None or not text:
            self._noted.pop(job_key, None)
            return ""
        noted = self._noted.get(job_key)
        if noted is None or noted[0] != text:
            name = noted_workload_name(job)
            noted = self._noted[job_key] = text, f"{job_key.namespace}/{name}" if name else ""
        if noted[1]:
            self._owners.setdefault(noted[1], uid_of(job))
        return noted[1]

    def lost_workload(
        self, key: str, flavors: Mapping[str, ResourceFlavor], defaults: PodDefaults, resources: ResourceSettings
    ) -> Json | None:
        """Return the admitted Workload by which an active job was started, if its object shows no quota.

        `flavors`: ResourceFlavors by name. `defaults`: what the API server adds to pods. `resources`: which requests
        count. None: neither an active job nor active pods record its admission.
        """
        by_job = self._lost_by_job(key, defaults, resources)
        return by_job or workload_of_pods(key, self._pods_of(key), flavors, defaults, resources)

    def _lost_by_job(self, key: str, defaults: PodDefaults, resources: ResourceSettings) -> Json | None:
        found = self._find_job(key)
        if found is None or not is_injected(found[0]) or not self.is_active(key):
            return None
        job, adapter = found
        if is_sliced(adapter, job):
            return None  # the start records only its first slice; its pods record their quota
        try:
            lost = workload_of_job(job, adapter.resource, adapter.pod_sets(job), defaults, resources)
        except FieldError:
            return None
        return lost if lost is not None and lost["metadata"]["name"] == key.partition("/")[2] else None

    def forget(self, key: str) -> None:
        """Forget a Workload that was deleted."""
        self._owners.pop(key, None)

    def active_pods(self, key: str) -> int:
        """Return the number of pods of a Workload that have not ended."""
        return self._pods.active_pods(key)

    def is_active(self, key: str) -> bool:
        """Return whether a pod of a Workload is active, or its job reports active pods.

        A pod that the topology gate holds uses nothing. A job that has ended no longer counts, whatever its status
        reports about pods.
        """
        return any(pod.is_active for pod in self._pods_of(key)) or self._holds_for_job(
            key, lambda adapter, job: adapter.finished(job) is None and adapter.is_active(job)
        )

    def is_done(self, key: str) -> bool:
        """Return whether a Workload's job needs no more pods and none is active. The status may show this later."""
        return not self._pods.active_pods(key) and self._holds_for_job(
            key,
            lambda adapter, job: adapter.is_done(
                job, [pod.labels for pod in self._pods_of(key) if pod.phase == "Succeeded"]
            ),
        )

    def _holds_for_job(self, key: str, condition: Callable[[JobAdapter, Json], bool]) -> bool:
        """Return whether a condition holds for the job of a Workload; False if the job is unknown or invalid."""
        found = self._find_job(key)
        if found is None:
            return False
        job, adapter = found
        try:
            return condition(adapter, job)
        except FieldError:
            return False

    def _find_job(self, key: str) -> tuple[Json, JobAdapter] | None:
        """Return the job that owns a Workload, and its adapter; None: one of them is unknown."""
        job_key = self._job_by_uid.get(self._owners.get(key, ""))
        job = None if job_key is None else self._find(job_key)
        adapter = None if job_key is None else self._adapters.get(group_kind(job_key.resource))
        if job is None or adapter is None:
            return None
        try:
            of_job = adapter_of_job(adapter, job, self._find)
        except FieldError:
            return None
        return None if of_job is None else (job, of_job)
