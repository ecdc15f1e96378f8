"""The pods of started jobs, with only the fields that ungating needs, since there may be a million pods."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.pod_annotations import PREDICTED_ADMISSION
from zonewise_scheduler.controller.pods.pod_names import (
    ADMISSION_ANNOTATION,
    PLACEMENT_GATES,
    POD_INDEX_OFFSET_ANNOTATION,
    POD_SET_LABEL,
    WORKLOAD_ANNOTATION,
)
from zonewise_scheduler.nodes.node.kubelet_rejection import is_kubelet_rejection
from zonewise_scheduler.nodes.node.pod_requests import device_class_requests
from zonewise_scheduler.quota.api.workload_slices import SLICE_NAME_ANNOTATION

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
    """Name of the Workload, in the namespace of the pod."""
    pod_set: str
    created: float = 0.0
    """Creation time, seconds since 1970."""
    phase: str = ""
    rejection: str = ""
    """status.reason if the kubelet rejected the pod; otherwise ""."""
    rejection_message: str = ""
    node: str = ""
    """Node to which the pod is bound; "": not bound."""
    started: float = 0.0
    """Time when the kubelet admitted the pod, seconds since 1970; 0: not yet admitted."""
    terminating: bool = False
    """Whether the pod has a deletionTimestamp."""
    gates: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    """Labels, which may include the rank."""
    index_offset: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Json | None = None
    predicted_admission: str = ""
    """What the kubelet was predicted to assign; "": unknown."""
    spec: Json | None = None
    """The whole spec while a scheduler may bind the pod; None: it is bound, gated or deleted."""
    admission: str = ""
    """The quota with which it was started (workloads/noted_admission.py); "": not recorded."""
    requests: Resource | None = None
    """What the pod requests from its node; None: it is not bound, or has ended."""
    claim_templates: tuple[str, ...] = ()
    """Names of the ResourceClaimTemplates from which its claims are made."""
    first_slice: str = ""
    """Name of the first slice of its elastic job (workloads/slices.py); "": its job has one Workload."""
    device_classes: Mapping[str, int] = {}
    """Requests for resources that name a DeviceClass, in thousandths of a device; empty if `requests` is None."""

    @property
    def is_held(self) -> bool:
        """Return whether the gate of its placement, or that of its slice, holds the pod."""
        return any(gate in self.gates for gate in PLACEMENT_GATES)

    @property
    def is_active(self) -> bool:
        """Return whether the pod may run: it has not ended, and neither gate holds it."""
        return not self.is_held and not self.is_terminated

    @property
    def is_terminated(self) -> bool:
        """Return whether the phase is final, so that the pod no longer uses anything on its node."""
        return self.phase in _TERMINATED

    @property
    def workload_key(self) -> str:
        """Return the namespace and name of the Workload."""
        return f"{self.namespace}/{self.workload}"


def read_managed_pod(pod: Mapping[str, Any], requests: Resource | None = None) -> ManagedPod | None:
    """Return the fields of a v1.Pod; None: it belongs to no Workload. An invalid field counts as absent.

    `requests`: what the pod requests from its node (nodes/types.py TrackedPod). Raises FieldError if they are invalid.
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
        annotations.get(PREDICTED_ADMISSION, ""),
        dict(pod_spec) if is_bindable else None,
        intern(annotations.get(ADMISSION_ANNOTATION, "")),
        requests,
        tuple(
            intern(name)
            for claim in spec.children("resourceClaims")
            if (name := claim.text("resourceClaimTemplateName"))
        ),
        annotations.get(SLICE_NAME_ANNOTATION, ""),
        {} if requests is None else device_class_requests(pod),
    )
