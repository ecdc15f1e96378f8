"""The pods of jobs of plain pods, by job: a pod group, or one pod for itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import IN_TREE_POD_GROUPS, LEADER_WORKER_SETS, POD_GROUPS, Resource
from zonewise_scheduler.controller.pods.pod_group import group_name
from zonewise_scheduler.controller.pods.pod_names import LEADER_WORKER_SET_LABEL, PARENT_ANNOTATION, REPLICA_INDEX_LABEL
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.pod_group_key import read_group_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.controller.types import Json

RECHECK = 5.0
"""Seconds until a job with deleted pods is looked at again: such a pod counts for its grace period."""


class PlainJobKey(NamedTuple):
    """A job of plain pods."""

    namespace: str
    group: str
    """Its name, or that of the object that describes it; "": a pod for itself."""
    pod: str
    """Its name; "": a group."""
    resource: Resource | None = None
    """Of the object that describes the group; None: there is none."""
    replica: str = ""
    """Which of the groups of the object it is; "": the object is one group."""

    @property
    def owner(self) -> ObjectKey | None:
        """The object that describes the group; None: there is none."""
        return None if self.resource is None else ObjectKey(self.resource, self.namespace, self.group)


def plain_job_key(namespace: str, name: str, pod: Json) -> PlainJobKey:
    """Return the job of a pod of a queue. Raises FieldError.

    Kueue names groups for the replicas of a LeaderWorkerSet. Pods that come later name none, and are of the same job.
    """
    metadata = FieldReader(pod, "", []).child("metadata")
    labels = metadata.pairs("labels")
    leader_worker_set = labels.get(LEADER_WORKER_SET_LABEL)
    is_adopted = bool(leader_worker_set) and PARENT_ANNOTATION in metadata.pairs("annotations")
    if (group := group_name(pod)) and not is_adopted:
        return PlainJobKey(namespace, group, "")
    if (key := read_group_key(pod)) is not None:
        return PlainJobKey(namespace, key.name, "", _POD_GROUPS[key.api_group])
    if leader_worker_set:
        return PlainJobKey(namespace, leader_worker_set, "", LEADER_WORKER_SETS, labels.get(REPLICA_INDEX_LABEL, ""))
    return PlainJobKey(namespace, "", name)


_POD_GROUPS = {resource.group: resource for resource in (POD_GROUPS, IN_TREE_POD_GROUPS)}


class PlainPodIndex:
    """See the module."""

    def __init__(self) -> None:
        self._pods: dict[PlainJobKey, dict[str, Json]] = {}
        self._jobs: dict[tuple[str, str], PlainJobKey] = {}
        """By namespace and name of each pod."""
        self._dirty: dict[PlainJobKey, None] = {}
        self._rechecks: dict[PlainJobKey, float] = {}
        self._by_owner: dict[ObjectKey, dict[PlainJobKey, None]] = {}
        self._by_workload: dict[tuple[str, str], PlainJobKey] = {}
        """Jobs whose Workload has a name that follows from another object, by namespace and name."""
        self._workload_names: dict[PlainJobKey, str] = {}

    @property
    def recheck_at(self) -> float:
        """When the next job is looked at though nothing has changed; infinite: none is."""
        return min(self._rechecks.values(), default=inf)

    def observe(self, namespace: str, name: str, pod: Json | None) -> ObjectKey | None:
        """Take a pod of a job; None: it was deleted, or is of no such job.

        Return the object that describes the group in which it was; None: there is none. Raises FieldError.
        """
        key = None if pod is None else plain_job_key(namespace, name, pod)
        old = self._jobs.pop((namespace, name), None)
        if old is not None:
            del self._pods[old][name]
            self._dirty[old] = None
        if key is not None and pod is not None:
            self._jobs[namespace, name] = key
            self._pods.setdefault(key, {})[name] = pod
            self._dirty[key] = None
            if key.owner is not None:
                self._by_owner.setdefault(key.owner, {})[key] = None
        if old is not None and not self._pods[old]:
            self._remove(old)
        return None if old is None else old.owner

    def mark_pod(self, namespace: str, name: str) -> None:
        """Look at the job of a pod in the next step."""
        if (key := self._jobs.get((namespace, name))) is not None:
            self._dirty[key] = None

    def mark_workload(self, namespace: str, name: str, owners: Iterable[str]) -> None:
        """Look at the jobs of a Workload in the next step; `owners`: names of the pods that own it."""
        group = self._by_workload.get((namespace, name), PlainJobKey(namespace, name, ""))
        for key in (group, *(PlainJobKey(namespace, "", owner) for owner in owners)):
            if key in self._pods:
                self._dirty[key] = None

    def mark_owner(self, owner: ObjectKey) -> None:
        """Look in the next step at the groups that an object describes."""
        self._dirty.update(self._by_owner.get(owner, {}))

    def name_workload(self, job: PlainJobKey, name: str) -> None:
        """Note the name of the Workload of a group that an object describes."""
        self._forget_workload(job)
        self._by_workload[job.namespace, name] = job
        self._workload_names[job] = name

    def take_dirty(self, now: float) -> list[tuple[PlainJobKey, list[Json]]]:
        """Return the jobs that have changed, or are due, with their pods."""
        due = [key for key, at in self._rechecks.items() if at <= now]
        dirty, self._dirty = dict.fromkeys([*self._dirty, *due]), {}
        jobs: list[tuple[PlainJobKey, list[Json]]] = []
        for key in dirty:
            self._rechecks.pop(key, None)
            pods = list(self._pods.get(key, {}).values())
            if pods:
                jobs.append((key, pods))
            if any(pod["metadata"].get("deletionTimestamp") for pod in pods):
                self._rechecks[key] = now + RECHECK
        return jobs

    def _remove(self, job: PlainJobKey) -> None:
        """Forget a job without pods."""
        del self._pods[job]
        self._dirty.pop(job, None)
        self._forget_workload(job)
        if job.owner is not None:
            groups = self._by_owner[job.owner]
            del groups[job]
            if not groups:
                del self._by_owner[job.owner]

    def _forget_workload(self, job: PlainJobKey) -> None:
        name = self._workload_names.pop(job, None)
        if name is not None:
            self._by_workload.pop((job.namespace, name), None)
