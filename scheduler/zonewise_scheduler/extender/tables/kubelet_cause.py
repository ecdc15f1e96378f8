"""Determines the resource that makes a kubelet reject a pod."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.aligned_requests import container_aligned_request, pod_aligned_request
from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.errors import TOPOLOGY_AFFINITY_ERROR, AdmissionError
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.admission.scope import admit_containers, resource_hints
from zonewise_scheduler.admission.wide_affinity import is_wide
from zonewise_scheduler.extender.failed_nodes import RejectionCause

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.scope import ResourceHints
    from zonewise_scheduler.admission.verdict import Verdict

SEVERAL = "several"
"""Label for several resources, each of which would fit by itself, or none of which does."""
OTHER = "other"
"""Label for a resource that the node does not have: pods may name any resource, and labels must be few."""
NO_VERDICT = "NoVerdict"
"""The kubelet does not start, panics, or cannot be predicted."""


def kubelet_cause(state: NodeState, shape: PodShape, verdict: Verdict) -> RejectionCause:
    """Return the cause of a rejection that was computed from `state` and `shape`."""
    if not verdict.reason:
        return RejectionCause(NO_VERDICT)
    if verdict.reason == TOPOLOGY_AFFINITY_ERROR:
        return RejectionCause(verdict.reason, _misaligned_resource(state, shape, verdict.container))
    kind = state.kind
    is_known = verdict.resource in {"", CPU, *kind.memory_types, *kind.device_indices}
    return RejectionCause(verdict.reason, verdict.resource if is_known else OTHER)


def _misaligned_resource(state: NodeState, shape: PodShape, name: str) -> str:
    """Return the resource that no preferred set of zones has, or SEVERAL if more than one decides."""
    context = AdmissionContext(state, shape)
    with suppress(AdmissionError):
        admit_containers(context)  # up to the rejected container
    container = next((each for each in shape.containers if each.name == name), None)
    if container is None:
        aligned = pod_aligned_request(shape, state.kind)
    else:
        aligned = container_aligned_request(shape, container, state.kind)
    if is_wide(state.kind, aligned):
        return SEVERAL
    requests = resource_hints(context, aligned, include_not_preferred=False)
    single = state.kind.policies.topology == "single-numa-node"
    short = [request.resource for request in requests if not _is_preferred(request, single=single)]
    resources = short or [request.resource for request in requests]
    return resources[0] if len(resources) == 1 else SEVERAL


def _is_preferred(request: ResourceHints, *, single: bool) -> bool:
    """Return whether the policy may use a preferred set; `single`: it uses sets of one zone only."""
    return any(zones.bit_count() == 1 or not single for zones in request.hints.preferred)
