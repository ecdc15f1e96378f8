"""The Workload of a job of plain pods (pod_controller.go ConstructComposableWorkload, FindMatchingWorkloads)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.pods.pod_group import MAX_ROLES
from zonewise_scheduler.controller.pods.pod_names import GROUP_POD_INDEX_LABEL
from zonewise_scheduler.controller.workloads.manifest import (
    FOLLOWED_ANNOTATIONS,
    JOB_UID_LABEL,
    build_workload,
    followed_annotations,
    job_uid_label,
    owner_reference,
)
from zonewise_scheduler.quota.api.job_pod_sets import PodIndexes, read_pod_set
from zonewise_scheduler.quota.api.workload_reader import IS_GROUP_WORKLOAD_ANNOTATION
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.controller.pods.group_owner import GroupOwner
    from zonewise_scheduler.controller.pods.pod_group import GroupPod, PlainPods
    from zonewise_scheduler.controller.workloads.manifest import ManifestOptions
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]

_OF_ONE_POD = ("schedulingGates", "nodeName", "hostname")
"""Fields of a pod that its pod set omits."""


def pod_set_name(job: PlainPods, pod: GroupPod) -> str:
    """Return the name of a pod's pod set: its role; for a single pod "main"."""
    return pod.role if job.is_group else DEFAULT_POD_SET


def role_counts(job: PlainPods, pods: Iterable[GroupPod]) -> Counter[str]:
    """Return the number of these pods in each pod set."""
    return Counter(pod_set_name(job, pod) for pod in pods)


def plain_pod_sets(job: PlainPods) -> tuple[PodSetManifest, ...]:
    """Return a pod set for each role. Raises FieldError for too many roles or invalid pods."""
    if job.pod_sets:
        return job.pod_sets
    by_name: dict[str, GroupPod] = {}
    for pod in job.needed:
        by_name.setdefault(pod_set_name(job, pod), pod)
    if len(by_name) > MAX_ROLES and not job.is_fast:
        raise FieldError(
            "spec", f"the pods of the group have {len(by_name)} roles, and at most {MAX_ROLES} are allowed"
        )
    counts = role_counts(job, job.needed)
    if job.is_fast:
        name, pod = next(iter(by_name.items()))
        return (_pod_set(name, pod, job.total),)
    return tuple(_pod_set(name, by_name[name], counts[name]) for name in sorted(by_name))


def build_plain_workload(
    job: PlainPods,
    name: str,
    pod_sets: Sequence[PodSetManifest],
    options: ManifestOptions,
    group: GroupOwner | None = None,
) -> Json:
    """Return the Workload of a job of plain pods; `name`: name of a group's Workload; `group`: the object that owns it.

    Raises FieldError under the same conditions as build_workload.
    """
    first = job.counting[0]
    workload = build_workload(first.obj, PODS, pod_sets, options)
    if not job.is_group:
        return workload
    metadata: Json = workload["metadata"]
    metadata["labels"].pop(JOB_UID_LABEL, None)
    if group is not None:
        metadata["labels"] |= job_uid_label(group.uid)
    own = {name: text for name, text in metadata["annotations"].items() if name not in FOLLOWED_ANNOTATIONS}
    annotations = {**own, **followed_annotations(job.annotations), IS_GROUP_WORKLOAD_ANNOTATION: "true"}
    owners = member_references(job) if group is None else [owner_reference(group.resource, group.name, group.uid)]
    metadata |= {"name": name, "annotations": annotations, "ownerReferences": owners}
    return workload


def member_references(job: PlainPods) -> list[Json]:
    """Return a reference to each pod of a group. The Workload is deleted together with the last of them."""
    return [_member_reference(pod) for pod in job.pods]


def missing_references(workload: Mapping[str, Any], job: PlainPods) -> bool:
    """Return whether the owners of a group's Workload lack a counting pod."""
    owners = FieldReader(workload, "", []).child("metadata").children("ownerReferences")
    known = {owner.text("uid") for owner in owners}
    return any(pod.uid not in known for pod in job.counting)


def unserved_references(workload: Mapping[str, Any], group: GroupOwner) -> list[Json] | None:
    """Return the owners of a Workload with the current API version of its group; None if they have it already.

    The garbage collector does not delete dependents of an owner whose version is no longer served
    (pkg/controller/garbagecollector/garbagecollector.go attemptToDeleteItem, restMappingError).
    """
    owners: list[Json] = workload["metadata"].get("ownerReferences") or []
    served = {"apiVersion": group.resource.api_version}
    current = [{**owner, **served} if owner.get("uid") == group.uid else owner for owner in owners]
    return None if current == owners else current


def is_group_workload(workload: Mapping[str, Any]) -> bool:
    """Return whether a Workload belongs to a pod group, and not to another job that happens to have its name."""
    annotations = FieldReader(workload, "", []).child("metadata").pairs("annotations")
    return annotations.get(IS_GROUP_WORKLOAD_ANNOTATION) == "true"


def workload_counts(workload: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of pods in each pod set of a Workload."""
    pod_sets = FieldReader(workload, "", []).child("spec").children("podSets")
    return {item.text("name", DEFAULT_POD_SET): item.count("count", 1) or 0 for item in pod_sets}


def _pod_set(name: str, pod: GroupPod, count: int) -> PodSetManifest:
    problems: list[str] = []
    pod_set = read_pod_set(name, count, FieldReader(pod.obj, "", problems), PodIndexes(GROUP_POD_INDEX_LABEL))
    if problems:
        field, _, problem = problems[0].partition(": ")
        raise FieldError(field, problem)
    spec: Json = {key: value for key, value in pod_set.template["spec"].items() if key not in _OF_ONE_POD}
    return pod_set._replace(template={"spec": spec})


def _member_reference(pod: GroupPod) -> Json:
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "name": pod.name, "uid": pod.uid}
