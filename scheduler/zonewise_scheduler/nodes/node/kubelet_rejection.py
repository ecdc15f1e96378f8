"""Recognizes the pod status of a rejection by the kubelet at admission."""

from __future__ import annotations

_REASONS = frozenset(
    {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "EmptyPodSharedPoolError"}
)
"""Reasons from pkg/kubelet/cm/topologymanager, cm/cpumanager/policy_static.go, lifecycle/predicate.go."""
_OUT_OF_PREFIX = "OutOf"  # followed by a resource: pkg/kubelet/lifecycle/predicate.go


def is_kubelet_rejection(phase: str, reason: str) -> bool:
    """Return whether a pod of this phase and status.reason was rejected by its kubelet at admission."""
    return phase == "Failed" and (reason in _REASONS or reason.startswith(_OUT_OF_PREFIX))
