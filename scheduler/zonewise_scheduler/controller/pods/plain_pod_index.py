"""The pods of jobs of plain pods, indexed by job. A job is a pod group or a single pod."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import IN_TREE_POD_GROUPS, LEADER_WORKER_SETS, POD_GROUPS, STATEFUL_SETS, Resource
from zonewise_scheduler.controller.pods.pod_group import group_name
from zonewise_scheduler.controller.pods.pod_names import (
    LEADER_WORKER_SET_LABEL,
    PARENT_ANNOTATION,
    REPLICA_INDEX_LABEL,
    STATEFUL_SET_PARENT,
)
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.pod_group_key import read_group_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.controller.types import Json

RECHECK = 5.0
"""Seconds until a job with deleted pods is checked again, since such a pod counts only for its grace period."""


class PlainJobKey(NamedTuple):
    """The key of a job of plain pods."""

    namespace: str
    group: str
    """Name of the group, or of the object that describes it; "": a single pod."""
    pod: str
    """Name of a single pod; "": a group."""
    resource: Resource | None = None
    """Resource of the object that describes the group; None: there is none."""
    replica: str = ""
    """Index of the group within its object; "": the object is one group."""

    @property
    def owner(self) -> ObjectKey | None:
        """Return the object that describes the group; None: there is none."""
        return None if self.resource is None else ObjectKey(self.resource, self.namespace, self.group)


def plain_job_key(namespace: str, name: str, pod: Json) -> PlainJobKey:
    """Return the job of a queued pod. Raises FieldError.

    Kueue gives the pods of a StatefulSet, and of each LeaderWorkerSet replica, a group name. Later pods have none, but
    belong to the same job.
    """
    metadata = FieldReader(pod, "", []).child("metadata")
    labels = metadata.pairs("labels")
    leader_worker_set = labels.get(LEADER_WORKER_SET_LABEL)
    parent = metadata.pairs("annotations").get(PARENT_ANNOTATION, "")
    if parent == STATEFUL_SET_PARENT and (stateful_set := _stateful_set(metadata)):
        return PlainJobKey(namespace, stateful_set, "", STATEFUL_SETS)
    is_adopted = bool(leader_worker_set and parent)
    if (group := group_name(pod)) and not is_adopted:
        return PlainJobKey(namespace, group, "")
    if (key := read_group_key(pod)) is not None:
        return PlainJobKey(namespace, key.name, "", _POD_GROUPS[key.api_group])
    if leader_worker_set:
        return PlainJobKey(namespace, leader_worker_set, "", LEADER_WORKER_SETS, labels.get(REPLICA_INDEX_LABEL, ""))
    return PlainJobKey(namespace, "", name)


def _stateful_set(metadata: FieldReader) -> str:
    """Return the name of the StatefulSet that controls a pod; "": none does."""
    kind = STATEFUL_SETS.api_version, STATEFUL_SETS.kind
    owners = (owner for owner in metadata.children("ownerReferences") if owner.flag("controller", default=False))
    return next((owner.text("name") for owner in owners if (owner.text("apiVersion"), owner.text("kind")) == kind), "")


_POD_GROUPS = {resource.group: resource for resource in (POD_GROUPS, IN_TREE_POD_GROUPS)}


class PlainPodIndex:
    """Finds the pods of a job, and the jobs that have changed."""

    def __init__(self) -> None:
        self._pods: dict[PlainJobKey, dict[str, Json]] = {}
        self._jobs: dict[tuple[str, str], PlainJobKey] = {}
        """Job of each pod, by namespace and name of the pod."""
        self._dirty: dict[PlainJobKey, None] = {}
        self._rechecks: dict[PlainJobKey, float] = {}
        self._by_owner: dict[ObjectKey, dict[PlainJobKey, None]] = {}
        self._by_workload: dict[tuple[str, str], PlainJobKey] = {}
        """Jobs whose Workload is named after another object, by namespace and name of the Workload."""
        self._workload_names: dict[PlainJobKey, str] = {}

    @property
    def recheck_at(self) -> float:
        """Return when the next unchanged job is due for a check; infinite: never."""
        return min(self._rechecks.values(), default=inf)

    def observe(self, namespace: str, name: str, pod: Json | None) -> ObjectKey | None:
        """Record a pod; None: it was deleted, or belongs to no job of plain pods.

        Return the object that describes the group to which it belonged; None: there is none. Raises FieldError.
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
        """Check the job of a pod in the next step."""
        if (key := self._jobs.get((namespace, name))) is not None:
            self._dirty[key] = None

    def mark_workload(self, namespace: str, name: str, owners: Iterable[str]) -> None:
        """Check the jobs of a Workload in the next step; `owners`: names of the pods that own it."""
        group = self._by_workload.get((namespace, name), PlainJobKey(namespace, name, ""))
        for key in (group, *(PlainJobKey(namespace, "", owner) for owner in owners)):
            if key in self._pods:
                self._dirty[key] = None

    def mark_owner(self, owner: ObjectKey) -> None:
        """Check the groups that an object describes in the next step."""
        self._dirty.update(self._by_owner.get(owner, {}))

    def name_workload(self, job: PlainJobKey, name: str) -> None:
        """Record the Workload name of a group that an object describes."""
        self._forget_workload(job)
        self._by_workload[job.namespace, name] = job
        self._workload_names[job] = name

    def take_dirty(self, now: float) -> list[tuple[PlainJobKey, list[Json]]]:
        """Return the jobs that have changed or are due, with their pods."""
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
        """Forget a job that has no pods."""
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
