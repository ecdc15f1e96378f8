"""Objects that describe groups of pods: PodGroups, StatefulSets, and LeaderWorkerSets with one group per replica.

Source: Kueue's pkg/controller/jobs/leaderworkerset/leaderworkerset_reconciler.go podSets, filterWorkloads;
pkg/controller/jobs/statefulset/statefulset_reconciler.go constructWorkload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_common.kube.resources import IN_TREE_POD_GROUPS, LEADER_WORKER_SETS, POD_GROUPS, STATEFUL_SETS, Resource
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.controller.pods.pod_names import POD_INDEX_LABEL, WORKER_INDEX_LABEL
from zonewise_scheduler.controller.workloads.workload_names import adopted_workload_name, workload_name
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS, QUEUE_LABEL, PodIndexes, read_pod_set
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL
from zonewise_scheduler.quota.api.pod_group_key import read_min_member
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

GROUP_RESOURCES = (POD_GROUPS, IN_TREE_POD_GROUPS, LEADER_WORKER_SETS, STATEFUL_SETS)
LEADER = "leader"
WORKER = "worker"
"""LEADER and WORKER: the roles of the pods of a LeaderWorkerSet that has a leader template."""
LEADER_INDEX = "0"
"""Index of the leader in its replica."""
MAX_REPLICAS = 100_000
"""Maximum number of replicas of a LeaderWorkerSet. The names of all of them may have to be compared
(surplus_workloads)."""


class GroupOwner(NamedTuple):
    """The description of groups of pods that an object gives."""

    resource: Resource
    """Its kind, in the version that the API server serves."""
    name: str
    uid: str
    pods: int
    """Number of pods in one group."""
    annotations: Mapping[str, str]
    """Annotations of the object."""
    may_exceed: bool = True
    """Whether more pods than that may exist. The surplus pods wait."""
    queue: str = ""
    """LocalQueue of the groups; "": their pods name it."""
    priority_class: str = ""
    """WorkloadPriorityClass of the groups; "": their pods name it."""
    is_fast: bool = False
    """Whether the pods are created one after another, so that the first one is enough to queue the group."""
    is_serving: bool = False
    """Whether the groups never end."""
    pod_sets: tuple[PodSetManifest, ...] = ()
    """Pod sets of one group, named after the roles of its pods; empty: they are derived from the pods."""
    replicas: int | None = None
    """Number of groups of the object; None: the object is itself one group."""

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of pods in each pod set of one group; empty: the pods decide."""
        return {pod_set.name: pod_set.pods for pod_set in self.pod_sets}

    def workload_names(self, replica: str) -> tuple[str, str]:
        """Return the name of a group's Workload, and the name that an adopted Workload may have."""
        name = f"{self.name}-{replica}" if self.replicas is not None else self.name
        identity = self.resource, name, self.uid
        return workload_name(*identity), adopted_workload_name(*identity)

    def role(self, pod_role: str, worker_index: str) -> str:
        """Return the role of a pod: the role that it declares, or else the role for its index in the replica.

        The pods of templates that Kueue has left on a LeaderWorkerSet declare no roles.
        """
        names = [pod_set.name for pod_set in self.pod_sets]
        if not names or pod_role in names:
            return pod_role
        return names[0] if worker_index == LEADER_INDEX else names[-1]

    def is_surplus(self, replica: str) -> bool:
        """Return whether a group is to be removed because the object now has fewer replicas."""
        if self.replicas is None:
            return not self.pods
        return not (replica.isdecimal() and int(replica) < self.replicas)


def read_group_owner(resource: Resource, obj: Json) -> GroupOwner:
    """Read the description from an object.

    Raises FieldError for an invalid object, and for a PodGroup that is not a gang.
    """
    if resource == LEADER_WORKER_SETS:
        return read_strictly(obj, _leader_worker_set)
    if resource == STATEFUL_SETS:
        return read_strictly(obj, _stateful_set)
    reader = FieldReader(obj, "", [])
    metadata, version = reader.child("metadata"), reader.text("apiVersion").rpartition("/")[2]
    pods = read_min_member(resource.group, obj)
    if pods is None or not 1 <= pods <= MAX_PODS:
        field = "spec.minMember" if resource == POD_GROUPS else "spec.schedulingPolicy.gang.minCount"
        raise FieldError(field, f"a queued PodGroup is a gang of 1 to {MAX_PODS} pods: {pods!r}")
    served = resource._replace(version=version or resource.version)
    return GroupOwner(served, metadata.text("name"), metadata.text("uid"), pods, metadata.pairs("annotations"))


def leader_worker_pod_sets(obj: Json) -> tuple[PodSetManifest, ...]:
    """Return the pod sets of each replica of a LeaderWorkerSet. Raises FieldError for an invalid set."""

    def read(reader: FieldReader) -> tuple[PodSetManifest, ...]:
        template = reader.child("spec").child("leaderWorkerTemplate")
        return tuple(_pod_sets(template, _size(template)))

    return read_strictly(obj, read)


def _leader_worker_set(reader: FieldReader) -> GroupOwner:
    metadata, spec = reader.child("metadata"), reader.child("spec")
    template = spec.child("leaderWorkerTemplate")
    size = _size(template)
    return GroupOwner(
        LEADER_WORKER_SETS,
        metadata.required_name(),
        metadata.required_name("uid"),
        size,
        metadata.pairs("annotations"),
        may_exceed=False,
        queue=metadata.pairs("labels").get(QUEUE_LABEL, ""),
        priority_class=metadata.pairs("labels").get(PRIORITY_CLASS_LABEL, ""),
        is_serving=True,
        pod_sets=tuple(_pod_sets(template, size)),
        replicas=_replicas(spec, reader.child("status")),
    )


def _stateful_set(reader: FieldReader) -> GroupOwner:
    metadata, spec = reader.child("metadata"), reader.child("spec")
    pods = spec.int_in_range("replicas", 1, MAX_PODS, minimum=0)
    pod_set = read_pod_set(DEFAULT_POD_SET, pods, spec.child("template"), PodIndexes(POD_INDEX_LABEL))
    return GroupOwner(
        STATEFUL_SETS,
        metadata.required_name(),
        metadata.required_name("uid"),
        pods,
        metadata.pairs("annotations"),
        queue=metadata.pairs("labels").get(QUEUE_LABEL, ""),
        priority_class=metadata.pairs("labels").get(PRIORITY_CLASS_LABEL, ""),
        is_fast=True,
        is_serving=True,
        pod_sets=(_without_metadata(pod_set),),
    )


def _size(template: FieldReader) -> int:
    return template.int_in_range("size", 1, MAX_PODS)


def _pod_sets(template: FieldReader, size: int) -> Iterator[PodSetManifest]:
    role = DEFAULT_POD_SET
    if template.has("leaderTemplate"):
        yield _without_metadata(read_pod_set(LEADER, 1, template.child("leaderTemplate")))
        role, size = WORKER, size - 1
    if size:
        indexes = PodIndexes(WORKER_INDEX_LABEL)
        yield _without_metadata(read_pod_set(role, size, template.child("workerTemplate"), indexes))


def _without_metadata(pod_set: PodSetManifest) -> PodSetManifest:
    return pod_set._replace(template={"spec": pod_set.template["spec"]})


def _replicas(spec: FieldReader, status: FieldReader) -> int:
    """Return the number of groups, including those that a rolling update adds temporarily and that status counts."""
    replicas = spec.int_in_range("replicas", 1, MAX_REPLICAS, minimum=0)
    surge = spec.child("rolloutStrategy").child("rollingUpdateConfiguration").obj.get("maxSurge", 0)
    is_updating = surge not in {0, "0", "0%"} and (status.count("updatedReplicas", 0) or 0) < replicas
    return max(replicas, status.int_in_range("replicas", 0, MAX_REPLICAS, minimum=0)) if is_updating else replicas
