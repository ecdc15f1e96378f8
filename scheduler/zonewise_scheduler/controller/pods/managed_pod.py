"""The pods of started jobs, with the fields that their ungating needs. There may be a million: all else is dropped."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.pods.pod_names import (
    ADMISSION_ANNOTATION,
    POD_INDEX_OFFSET_ANNOTATION,
    POD_SET_LABEL,
    PREDICTED_ADMISSION_ANNOTATION,
    TOPOLOGY_GATE,
    WORKLOAD_ANNOTATION,
)
from zonewise_scheduler.nodes.node.kubelet_rejection import is_kubelet_rejection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.node import Resource

Json = dict[str, Any]

_TERMINATED = frozenset({"Succeeded", "Failed"})


class ManagedPod(msgspec.Struct, frozen=True):
    """A pod whose annotation names its Workload."""

    uid: str
    namespace: str
    name: str
    workload: str
    """The Workload's name, of the same namespace."""
    pod_set: str
    created: float = 0.0
    """Seconds since 1970."""
    phase: str = ""
    rejection: str = ""
    """status.reason where its kubelet rejected it; else ""."""
    rejection_message: str = ""
    node: str = ""
    """"": not bound."""
    started: float = 0.0
    """When its kubelet admitted it, seconds since 1970; 0: it has not yet."""
    terminating: bool = False
    """It has a deletionTimestamp."""
    gates: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    """They may hold its rank."""
    index_offset: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Json | None = None
    predicted_admission: str = ""
    """What its kubelet was predicted to assign; "": unknown."""
    spec: Json | None = None
    """The whole spec while a scheduler may bind the pod; None: no more, or not yet."""
    admission: str = ""
    """What was noted of its admission (workloads/noted_admission.py); "": nothing."""
    requests: Resource | None = None
    """What it requests of its node; None: it is not bound, or has ended."""

    @property
    def is_held(self) -> bool:
        """Tell whether the topology gate holds it."""
        return TOPOLOGY_GATE in self.gates

    @property
    def is_terminated(self) -> bool:
        """Tell whether its phase is final: it uses nothing of its node any more."""
        return self.phase in _TERMINATED

    @property
    def workload_key(self) -> str:
        """Namespace and name of its Workload."""
        return f"{self.namespace}/{self.workload}"


def read_managed_pod(pod: Mapping[str, Any], requests: Resource | None = None) -> ManagedPod | None:
    """Return the fields of a v1.Pod; None: it is of no Workload. An invalid field counts as absent.

    `requests`: of its node (nodes/types.py TrackedPod).
    """
    reader = FieldReader(pod, "", [])
    metadata, spec, status = reader.child("metadata"), reader.child("spec"), reader.child("status")
    annotations, labels = metadata.pairs("annotations"), metadata.pairs("labels")
    workload = annotations.get(WORKLOAD_ANNOTATION, "")
    if not workload:
        return None
    phase, reason = status.text("phase"), status.text("reason")
    is_rejected = is_kubelet_rejection(phase, reason)
    pod_spec = spec.obj
    is_bindable = not (pod_spec.get("nodeName") or pod_spec.get("schedulingGates") or metadata.has("deletionTimestamp"))
    return ManagedPod(
        metadata.text("uid"),
        metadata.text("namespace"),
        metadata.text("name"),
        workload,
        labels.get(POD_SET_LABEL, ""),
        metadata.time("creationTimestamp") or 0.0,
        phase,
        reason if is_rejected else "",
        status.text("message") if is_rejected else "",
        spec.text("nodeName"),
        status.time("startTime") or 0.0,
        metadata.has("deletionTimestamp"),
        tuple(gate.text("name") for gate in spec.children("schedulingGates")),
        labels,
        annotations.get(POD_INDEX_OFFSET_ANNOTATION, ""),
        spec.pairs("nodeSelector"),
        dict(spec.child("affinity").obj) if spec.has("affinity") else None,
        annotations.get(PREDICTED_ADMISSION_ANNOTATION, ""),
        dict(pod_spec) if is_bindable else None,
        intern(annotations.get(ADMISSION_ANNOTATION, "")),
        requests,
    )
