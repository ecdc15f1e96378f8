"""Which status of a pod says that its kubelet rejected it at admission."""

from __future__ import annotations

_REASONS = frozenset(
    {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "EmptyPodSharedPoolError"}
)
"""pkg/kubelet/cm/topologymanager, cm/cpumanager/policy_static.go, lifecycle/predicate.go."""
_OUT_OF_PREFIX = "OutOf"  # and a resource: pkg/kubelet/lifecycle/predicate.go


def is_kubelet_rejection(phase: str, reason: str) -> bool:
    """Tell whether a pod of this phase and status.reason was rejected by its kubelet at admission."""
    return phase == "Failed" and (reason in _REASONS or reason.startswith(_OUT_OF_PREFIX))
