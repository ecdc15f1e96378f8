"""Queued plain pods as jobs: a single pod, or a group of pods (pkg/controller/jobs/pod/pod_controller.go).

    | job                       | its pods name it in                           | pods of the job                    |
    |---------------------------|-----------------------------------------------|------------------------------------|
    | a pod                     | -                                             | 1                                  |
    | a group                   | label or annotation of GROUP_NAME_LABEL       | annotation GROUP_TOTAL_ANNOTATION  |
    | PodGroup, scheduling.x-k8s.io | label scheduling.x-k8s.io/pod-group       | minMember                          |
    | PodGroup, scheduling.k8s.io   | schedulingGroup.podGroupName              | schedulingPolicy.gang.minCount     |
    | a replica of a LeaderWorkerSet | its labels of name and group-index       | leaderWorkerTemplate.size          |
    | a StatefulSet             | the reference to their controller             | replicas                           |

All of these pods carry a queue label, and the webhook has gated them. The gates hold the job back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.controller.pods.pod_names import (
    ADMISSION_GATE,
    FAST_ADMISSION_ANNOTATION,
    GROUP_NAME_LABEL,
    GROUP_TOTAL_ANNOTATION,
    MANAGED_LABEL,
    PARENT_ANNOTATION,
    POD_FINALIZER,
    RETRIABLE_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    SERVING_ANNOTATION,
    SET_PARENTS,
    WORKER_INDEX_LABEL,
)
from zonewise_scheduler.controller.pods.role_hash import role_hash
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL, parse_pod_count
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.pods.group_owner import GroupOwner
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]

MAX_ROLES = 18
"""Maximum number of pod sets in a Workload (jobframework MaxPodSets)."""
TERMINATION_TARGET = "TerminationTarget"
"""Condition that marks a pod which the queue stops."""

_ACTIVE_PHASES = frozenset({"Pending", "Running", "Unknown", ""})
_LAST_SECONDS = 30.0
"""Grace period in seconds, for a deletion that specifies none."""


class GroupPod(NamedTuple):
    """A pod of a job of plain pods."""

    obj: Json
    name: str
    uid: str
    role: str
    phase: str
    created: float
    is_held: bool
    """Whether the admission gate holds the pod."""
    is_bound: bool
    has_finalizer: bool
    deleted_at: float | None
    """Time by which a deleted pod is to be removed, seconds since 1970; None: not deleted."""
    grace: float
    is_ready: bool
    is_stopped: bool
    """Whether the queue has marked the pod as one that it stops."""
    is_retriable: bool

    @property
    def is_terminated(self) -> bool:
        """Return whether the phase is final."""
        return self.phase not in _ACTIVE_PHASES

    @property
    def is_gone(self) -> bool:
        """Return whether the pod no longer runs and never will."""
        return self.is_terminated or (self.deleted_at is not None and not self.is_bound)

    @property
    def counts(self) -> bool:
        """Return whether the pod can run, runs or has succeeded (pod_controller.go isPodRunnableOrSucceeded)."""
        return self.phase != "Failed" and (self.deleted_at is None or self.is_bound)

    def holds_quota(self, now: float) -> bool:
        """Return whether the pod may be using its node.

        A deleted pod whose node is lost never ends. It counts until its grace period has passed a second time, as in
        pod_controller.go IsActive.
        """
        if self.is_terminated or self.is_held:
            return False
        if self.deleted_at is None:
            return True
        return self.is_bound and now <= self.deleted_at + self.grace


class PlainPods(NamedTuple):
    """A job of plain pods."""

    pods: tuple[GroupPod, ...]
    """Pods in order of creation."""
    queue: str
    total: int
    annotations: Mapping[str, str]
    """Annotations of the set that owns the pods, or of the first pod and the PodGroup."""
    is_group: bool = False
    """Whether the pods form a group; otherwise there is one single pod."""
    may_exceed: bool = False
    """Whether more pods than the total may exist. The surplus pods wait."""
    is_fast: bool = False
    is_serving: bool = False
    pod_sets: tuple[PodSetManifest, ...] = ()
    """Pod sets that the owner of the group specifies; empty: they are derived from the pods, once all exist."""
    priority_class: str = ""
    """WorkloadPriorityClass, from the set that owns the pods, or from the first pod; "": none."""

    @property
    def counting(self) -> tuple[GroupPod, ...]:
        """Return the pods that can run, run or have succeeded."""
        return tuple(pod for pod in self.pods if pod.counts)

    @property
    def needed(self) -> tuple[GroupPod, ...]:
        """Return the counting pods that make up the job; of those that may exceed the total, these are the oldest."""
        return self.counting[: self.total] if self.may_exceed else self.counting

    @property
    def succeeded(self) -> int:
        """Return the number of pods that have succeeded."""
        return sum(pod.phase == "Succeeded" for pod in self.pods)


def group_name(pod: Json) -> str:
    """Return the name of a pod's pod group; "": it belongs to none."""
    metadata = FieldReader(pod, "", []).child("metadata")
    return metadata.pairs("annotations").get(GROUP_NAME_LABEL) or metadata.pairs("labels").get(GROUP_NAME_LABEL, "")


def is_queued_pod(pod: Json) -> bool:
    """Return whether a pod belongs to a job of plain pods, as the label that the webhook sets shows."""
    labels = FieldReader(pod, "", []).child("metadata").pairs("labels")
    return labels.get(MANAGED_LABEL) == "true" and (bool(labels.get(QUEUE_LABEL)) or is_pod_of_set(pod))


def is_pod_of_set(pod: Json) -> bool:
    """Return whether a pod belongs to a StatefulSet or LeaderWorkerSet that names the queue, so it need not do so."""
    return FieldReader(pod, "", []).child("metadata").pairs("annotations").get(PARENT_ANNOTATION) in SET_PARENTS


def _group_annotations(group: GroupOwner, first: Mapping[str, str]) -> Mapping[str, str]:
    """Return the annotations of a group; `first`: those of its first pod, which apply to PodGroups.

    The webhooks check the user who submitted an object only if the object names a queue.
    """
    own = {name: text for name, text in group.annotations.items() if group.queue or name != SUBMITTED_BY_ANNOTATION}
    return own if group.pod_sets else {**first, **own}


def read_plain_pods(pods: Sequence[Json], group: GroupOwner | None = None) -> PlainPods:
    """Return the job that consists of these pods (at least one); `group`: the object that describes it.

    Raises FieldError if the pods disagree about their queue or total, or if a pod is invalid.
    """
    members = sorted((read_group_pod(pod) for pod in pods), key=lambda pod: (pod.created, pod.name))
    described = [pod for pod in members if pod.phase != "Failed"] or members
    queue = (group.queue if group else "") or _common(described, "labels", QUEUE_LABEL)
    metadata = FieldReader(members[0].obj, "", []).child("metadata")
    first = metadata.pairs("annotations")
    priority_class = (group.priority_class if group else "") or metadata.pairs("labels").get(PRIORITY_CLASS_LABEL, "")
    if group is not None:
        return PlainPods(
            tuple(_with_role(pod, group) for pod in members),
            queue,
            group.pods,
            _group_annotations(group, first),
            is_group=True,
            may_exceed=group.may_exceed,
            is_fast=group.is_fast,
            is_serving=group.is_serving,
            pod_sets=group.pod_sets,
            priority_class=priority_class,
        )
    if not group_name(members[0].obj):
        return PlainPods(tuple(members), queue, 1, first, priority_class=priority_class)
    return PlainPods(
        tuple(members),
        queue,
        _total(_common(described, "annotations", GROUP_TOTAL_ANNOTATION)),
        first,
        is_group=True,
        is_fast=first.get(FAST_ADMISSION_ANNOTATION) == "true",
        is_serving=first.get(SERVING_ANNOTATION) == "true",
        priority_class=priority_class,
    )


def read_group_pod(pod: Json) -> GroupPod:
    """Return one pod of a job of plain pods, independently of the others. Raises FieldError."""
    return read_strictly(pod, lambda reader: _pod(pod, reader))


def _with_role(pod: GroupPod, group: GroupOwner) -> GroupPod:
    labels = FieldReader(pod.obj, "", []).child("metadata").pairs("labels")
    return pod._replace(role=group.role(pod.role, labels.get(WORKER_INDEX_LABEL, "")))


def _pod(pod: Json, reader: FieldReader) -> GroupPod:
    metadata, spec, status = reader.child("metadata"), reader.child("spec"), reader.child("status")
    annotations = metadata.pairs("annotations")
    conditions = {item.text("type") for item in status.children("conditions") if item.text("status") == "True"}
    gates = {gate.text("name") for gate in spec.children("schedulingGates")}
    deleted_at = metadata.time("deletionTimestamp")
    return GroupPod(
        pod,
        metadata.required_name(),
        metadata.required_name("uid"),
        annotations.get(ROLE_HASH_ANNOTATION) or role_hash(spec.obj),
        status.text("phase"),
        metadata.time("creationTimestamp") or 0.0,
        ADMISSION_GATE in gates,
        bool(spec.text("nodeName")),
        POD_FINALIZER in metadata.texts("finalizers"),
        deleted_at,
        metadata.non_negative("deletionGracePeriodSeconds", _LAST_SECONDS),
        "Ready" in conditions,
        TERMINATION_TARGET in conditions,
        annotations.get(RETRIABLE_ANNOTATION) != "false",
    )


def _common(pods: Sequence[GroupPod], field: str, name: str) -> str:
    """Return the value of a label or annotation that all pods share. Raises FieldError if the values differ."""
    values = {FieldReader(pod.obj, "", []).child("metadata").pairs(field).get(name, ""): pod for pod in pods}
    if len(values) > 1:
        (one, pod), (two, other), *_ = sorted(values.items())
        problem = f"pod {pod.name} has {one!r:.80}, pod {other.name} of its group {two!r:.80}"
        raise FieldError(f"metadata.{field}[{name}]", problem)
    return next(iter(values))


def _total(text: str) -> int:
    total = parse_pod_count(text)
    if total is None:
        raise FieldError(f"metadata.annotations[{GROUP_TOTAL_ANNOTATION}]", f"not a number of pods: {text!r:.80}")
    return total
