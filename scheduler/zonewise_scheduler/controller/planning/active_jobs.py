"""Whether pods of a Workload are active: while they are, its quota is held, whatever its object says.

A user may delete or change the Workload of a job that runs. The job is stopped then, and until its last pod has ended
nothing else may have its quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.cluster_cache import owner_uid
from zonewise_scheduler.controller.jobs.registry import adapter_of_job, group_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
    from zonewise_scheduler.controller.types import Json, ObjectKey


class ActiveJobs:
    """See the module."""

    def __init__(
        self,
        find: Callable[[ObjectKey], Json | None],
        job_by_uid: Mapping[str, ObjectKey],
        adapters: Mapping[tuple[str, str], JobAdapter],
        pods: NodeTracker,
    ) -> None:
        """Take the observed objects and pods, and the adapters of jobs by API group and kind."""
        self._find = find
        self._job_by_uid = job_by_uid
        self._adapters = adapters
        self._pods = pods
        self._owners: dict[str, str] = {}
        """UIDs of the jobs that own Workloads, by key of the Workload; also of deleted Workloads."""

    def set_owner(self, key: str, workload: Json | None) -> None:
        """Take a Workload; None: it was deleted, and is known until forget()."""
        if workload is not None:
            self._owners[key] = owner_uid(workload)

    def forget(self, key: str) -> None:
        """Drop a Workload that was deleted."""
        self._owners.pop(key, None)

    def is_active(self, key: str) -> bool:
        """Tell whether a pod of a Workload is active, or its job says so. The end of a job counts before its pods."""
        if self._pods.active_pods(key):
            return True
        job_key = self._job_by_uid.get(self._owners.get(key, ""))
        job = None if job_key is None else self._find(job_key)
        adapter = None if job_key is None else self._adapters.get(group_kind(job_key.resource))
        if job is None or adapter is None:
            return False
        try:
            of_job = adapter_of_job(adapter, job, self._find)
            return of_job is not None and of_job.finished(job) is None and of_job.is_active(job)
        except FieldError:
            return False
