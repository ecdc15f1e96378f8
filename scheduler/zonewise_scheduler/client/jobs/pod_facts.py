"""Pods as values, without a placement algorithm: their requests, resources and status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.pod_annotations import LEFT_TO_KUBE_SCHEDULER, PREDICTED_ADMISSION
from zonewise_scheduler.client.jobs.job_labels import JOB_NAME_LABEL
from zonewise_scheduler.quota.api.amount import amount_text, resource_value

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
_REJECTIONS = frozenset(
    {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "EmptyPodSharedPoolError"}
)
_OUT_OF_PREFIX = "OutOf"
"""Prefix of status.reason if the kubelet has rejected a pod (nodes/node/kubelet_rejection.py); a resource follows."""
_TERMINAL = frozenset({"Succeeded", "Failed"})


class PodFacts(NamedTuple):
    """What the commands show of a pod. Times are in seconds since 1970; None: unknown."""

    namespace: str
    name: str
    node: str
    phase: str
    requests: Mapping[str, int]
    """Amounts as in quota/api/amount.py, by resource."""
    workload: str = ""
    job: str = ""
    predicted_admission: str = ""
    """The zones and CPUs that the kubelet was predicted to assign; "" if unknown."""
    left_to_kube_scheduler: str = ""
    gates: tuple[str, ...] = ()
    created_at: float | None = None
    started_at: float | None = None
    reason: str = ""
    message: str = ""
    """status.reason and status.message."""
    unscheduled: str = ""
    """The message of the condition PodScheduled=False."""
    container_problems: tuple[str, ...] = ()

    @property
    def workload_key(self) -> str:
        """Return the namespace and name of its Workload: "ns/job-train-1a2b3"; "" if the pod is in no queue."""
        return f"{self.namespace}/{self.workload}" if self.workload else ""

    @property
    def holds_resources(self) -> bool:
        """Return whether the pod counts towards its node's usage."""
        return bool(self.node) and self.phase not in _TERMINAL

    @property
    def has_failed(self) -> bool:
        """Return whether the pod or one of its containers has failed."""
        return self.phase == "Failed" or bool(self.container_problems)

    @property
    def is_rejected(self) -> bool:
        """Return whether its kubelet has rejected it."""
        return self.phase == "Failed" and (self.reason in _REJECTIONS or self.reason.startswith(_OUT_OF_PREFIX))


def read_pod_facts(obj: Mapping[str, Any], problems: list[str]) -> PodFacts:
    """Return a pod; damaged fields are reported as problems."""
    reader = FieldReader(obj, "", problems)
    metadata, spec, status = reader.child("metadata"), reader.child("spec"), reader.child("status")
    annotations, labels = metadata.pairs("annotations"), metadata.pairs("labels")
    conditions = {entry.text("type"): entry for entry in status.children("conditions")}
    scheduled = conditions.get("PodScheduled")
    is_waiting = scheduled is not None and scheduled.text("status") == "False"
    return PodFacts(
        metadata.text("namespace"),
        metadata.text("name"),
        spec.text("nodeName"),
        status.text("phase"),
        pod_totals(spec),
        annotations.get(WORKLOAD_ANNOTATION, ""),
        labels.get(JOB_NAME_LABEL, ""),
        annotations.get(PREDICTED_ADMISSION, ""),
        annotations.get(LEFT_TO_KUBE_SCHEDULER, ""),
        tuple(gate.text("name") for gate in spec.children("schedulingGates")),
        metadata.time("creationTimestamp"),
        status.time("startTime"),
        status.text("reason"),
        status.text("message"),
        scheduled.text("message") if is_waiting and scheduled is not None else "",
        tuple(problem for each in status.children("containerStatuses") if (problem := _container_problem(each))),
    )


def pod_totals(spec: FieldReader) -> dict[str, int]:
    """Return the requests of a pod, in amounts by resource (k8s.io/component-helpers/resource/helpers.go PodRequests).

    Init containers run one after another, each alongside the sidecars before it. Pod-level requests replace those of
    containers.
    """
    running: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.children("initContainers"):
        amounts = _container_requests(container)
        if container.text("restartPolicy") == "Always":
            _add(sidecars, amounts)
        else:
            for name, amount in amounts.items():
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
    _add(running, sidecars)
    for container in spec.children("containers"):
        _add(running, _container_requests(container))
    totals = {name: max(running.get(name, 0), peak.get(name, 0)) for name in running | peak}
    totals |= spec.child("resources").amounts("requests", resource_value)
    _add(totals, spec.amounts("overhead", resource_value))
    return totals


def amount_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts by resource as quantities, for a JSON document."""
    return {resource: amount_text(resource, amount) for resource, amount in amounts.items()}


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts by resource as text: "4 cpu, 16Gi memory"; "" without any."""
    return ", ".join(f"{text} {resource}" for resource, text in amount_texts(amounts).items())


def _container_requests(container: FieldReader) -> dict[str, int]:
    """Return amounts by resource.

    A limit without a request counts as one (pkg/apis/core/v1/defaults.go SetDefaults_Pod).
    """
    resources = container.child("resources")
    return {**resources.amounts("limits", resource_value), **resources.amounts("requests", resource_value)}


def _add(totals: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        totals[name] = totals.get(name, 0) + amount


def _container_problem(container: FieldReader) -> str:
    """Return why a container waits or has failed, or ""."""
    state = container.child("state")
    waiting, ended = state.child("waiting"), state.child("terminated")
    if waiting.text("reason") not in {"", "ContainerCreating", "PodInitializing"}:
        return f"container {container.text('name')}: {waiting.text('reason')}: {waiting.text('message')}".rstrip(": ")
    if ended.obj and ended.number("exitCode", 0):
        reason = ended.text("reason", "Error")
        return f"container {container.text('name')}: exit code {ended.number('exitCode')} ({reason})"
    return ""
