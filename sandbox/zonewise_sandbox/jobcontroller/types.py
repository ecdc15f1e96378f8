"""The fields of Jobs and pods that the Job controller reads."""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of the pods of Indexed jobs."""
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
MANAGER = "kubernetes.io/job-controller"


class OwnerReference(msgspec.Struct, rename="camel", frozen=True):
    """An ownerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class JobPodMeta(msgspec.Struct, rename="camel", frozen=True):
    """Metadata of a pod."""

    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class PodCondition(msgspec.Struct, rename="camel", frozen=True):
    """A condition of a pod."""

    type: str
    status: str
    last_transition_time: str | None = None


class Terminated(msgspec.Struct, rename="camel", frozen=True):
    """The end of a container."""

    exit_code: int = 0
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container."""

    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel", frozen=True):
    """The status of a container."""

    name: str = ""
    state: ContainerState = ContainerState()
    restart_count: int = 0


class JobPodStatus(msgspec.Struct, rename="camel", frozen=True):
    """The status of a pod."""

    phase: str = "Pending"
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class JobPodSpec(msgspec.Struct, rename="camel", frozen=True):
    """The spec of a pod."""

    node_name: str = ""


class JobPod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: JobPodMeta
    spec: JobPodSpec = JobPodSpec()
    status: JobPodStatus = JobPodStatus()

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def is_ended(self) -> bool:
        """Return whether its containers have ended permanently."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_active(self) -> bool:
        """Return whether it runs or will run (controller_utils.go IsPodActive)."""
        return not self.is_ended and self.metadata.deletion_timestamp is None

    @property
    def is_terminating(self) -> bool:
        """Return whether it is deleted but has not ended yet."""
        return not self.is_ended and self.metadata.deletion_timestamp is not None

    @property
    def is_ready(self) -> bool:
        """Return whether it has the condition Ready."""
        return any(item.type == "Ready" and item.status == "True" for item in self.status.conditions)

    @property
    def is_tracked(self) -> bool:
        """Return whether it has the Job controller's finalizer, and so is not counted yet."""
        return FINALIZER in self.metadata.finalizers

    @property
    def index(self) -> int | None:
        """Return the completion index, or None."""
        text = self.metadata.annotations.get(INDEX, "")
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def job_uid(self) -> str:
        """Return the UID of the Job that controls it; "" if there is none."""
        owner = self._owner
        return owner.uid if owner else ""

    @property
    def job_key(self) -> tuple[str, str] | None:
        """Return the namespace and name of the controlling Job; "" for a tracked orphan, None for any other pod."""
        owner = self._owner
        if owner is None and not self.is_tracked:
            return None
        return self.metadata.namespace, owner.name if owner else ""

    @property
    def _owner(self) -> OwnerReference | None:
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.controller and owner.kind == "Job"), None)

    def annotated_count(self, name: str) -> int:
        """Return the number in an annotation; 0 if it is absent or not a number."""
        text = self.metadata.annotations.get(name, "")
        return int(text) if text.isascii() and text.isdigit() else 0


class JobMeta(msgspec.Struct, rename="camel"):
    """Metadata of a Job."""

    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    deletion_timestamp: str | None = None


class JobSpec(msgspec.Struct, rename="camel"):
    """The spec of a Job, with the API server's defaults."""

    template: Object
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    pod_failure_policy: Object | None = None
    success_policy: Object | None = None
    managed_by: str = MANAGER

    @property
    def is_indexed(self) -> bool:
        """Return whether each pod has a completion index."""
        return self.completion_mode == "Indexed"

    @property
    def only_replaces_failed(self) -> bool:
        """Return whether a deleted pod is replaced only after it has ended (onlyReplaceFailedPods)."""
        return self.pod_replacement_policy == "Failed" or self.pod_failure_policy is not None


class Job(msgspec.Struct):
    """A Job; its status is plain JSON, which is written back."""

    metadata: JobMeta
    spec: JobSpec
    status: Object = {}

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.metadata.namespace, self.metadata.name

    def condition(self, kind: str) -> Object | None:
        """Return a condition that is true, or None."""
        conditions: list[Object] = self.status.get("conditions") or []
        return next((item for item in conditions if item["type"] == kind and item["status"] == "True"), None)

    @property
    def is_finished(self) -> bool:
        """Return whether it is complete or has failed."""
        return bool(self.condition("Complete") or self.condition("Failed"))


def is_failed(pod: JobPod, spec: JobSpec) -> bool:
    """Return whether a pod counts as failed; a deleted one does unless replacement waits for its end (isPodFailed)."""
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"
    return deleted and not spec.only_replaces_failed
