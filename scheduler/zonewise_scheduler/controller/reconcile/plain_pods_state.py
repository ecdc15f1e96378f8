"""The observed state of a job of plain pods: its Workload, and the object that describes its group.

the pods name                          its Workload has
nothing                                an owner reference to the pod
a group by label or annotation         the name of the group
a PodGroup, LeaderWorkerSet or          a name derived from that of the object, and from the replica
StatefulSet
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.pods.group_owner import read_group_owner
from zonewise_scheduler.controller.pods.group_workload import workload_counts
from zonewise_scheduler.controller.reconcile.plain_pods import PlainPodsState
from zonewise_scheduler.controller.reconcile.workload import workload_key
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.cluster_cache import WorkloadIndex
    from zonewise_scheduler.controller.pods.group_owner import GroupOwner
    from zonewise_scheduler.controller.pods.plain_pod_index import PlainJobKey, PlainPodIndex
    from zonewise_scheduler.controller.types import Json


def plain_pods_state(
    job: PlainJobKey,
    pods: Sequence[Json],
    get: Callable[[ObjectKey], Json | None],
    workloads: WorkloadIndex,
    index: PlainPodIndex,
) -> PlainPodsState:
    """Return the state of a job. Pods wait for the object that describes their group, and end if it is deleted.

    `get`: returns an observed object. The index records the name of the Workload. Raises FieldError for an object that
    describes no group.
    """
    if job.owner is None or job.resource is None:
        by_name = workloads.by_key.get(f"{job.namespace}/{job.group}") if job.group else None
        owned = None if job.group else next(iter(workloads.owned_by(uid_of(pods[0])).values()), None)
        return PlainPodsState(job.namespace, job.group, pods, by_name or owned)
    obj = get(job.owner)
    if obj is None:
        return PlainPodsState(job.namespace, "", pods, None, is_surplus=True)
    owner = read_group_owner(job.resource, obj)
    names = owner.workload_names(job.replica)
    name = next((name for name in names if f"{job.namespace}/{name}" in workloads.by_key), names[0])
    index.name_workload(job, name)
    workload = workloads.by_key.get(f"{job.namespace}/{name}")
    return PlainPodsState(job.namespace, name, pods, workload, owner, owner.is_surplus(job.replica))


def surplus_workloads(
    resource: Resource, obj: Json, workloads: Mapping[str, Json], active_pods: Callable[[str], int]
) -> list[Write]:
    """Return the deletions of Workloads for replicas, or for a size, that a LeaderWorkerSet or StatefulSet had before.

    `workloads`: those that it owns, by key; `active_pods`: number of active pods of a Workload. Quota is held until no
    pod is active. Raises FieldError for an invalid set.
    """
    if FieldReader(obj, "", []).child("metadata").has("deletionTimestamp"):
        return []
    owner = read_group_owner(resource, obj)
    inactive = {key: workload for key, workload in workloads.items() if not active_pods(key)}
    surplus = _surplus_names(owner, {workload["metadata"]["name"] for workload in inactive.values()})
    return [
        Write(Verb.DELETE, workload_key(key), "delete a Workload of other replicas", uid=uid_of(workload), workload=key)
        for key, workload in inactive.items()
        if workload["metadata"]["name"] in surplus or workload_counts(workload) != owner.counts
    ]


def _surplus_names(owner: GroupOwner, names: set[str]) -> set[str]:
    """Return those names that no group of an object has."""
    for replica in ("",) if owner.replicas is None else map(str, range(owner.replicas)):
        if not names:
            break
        if not owner.is_surplus(replica):
            names = names.difference(owner.workload_names(replica))
    return names
