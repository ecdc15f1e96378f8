"""Why a kubelet rejects a pod: reasons and messages.

pkg/kubelet/cm/admission/errors.go. TopologyAffinityError is in cm/topologymanager/topology_manager.go, and
SMTAlignmentError in cm/cpumanager/policy_static.go.
"""

from __future__ import annotations

TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
SMT_ALIGNMENT_ERROR = "SMTAlignmentError"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
EMPTY_POD_SHARED_POOL_ERROR = "EmptyPodSharedPoolError"

UNKNOWN_PREFIX = "unknown: "
"""Prefix of the message of an AdmissionError with an empty reason: no verdict can be computed."""
PANIC_PREFIX = "its kubelet panics: "
"""Prefix of the message of an AdmissionError with an empty reason: the kubelet's process would end."""


class AdmissionError(Exception):
    """A manager rejects the pod; earlier allocations to the pod do not count."""

    def __init__(self, reason: str, message: str, resource: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.resource = resource


def unexpected_admission_error(message: str, resource: str) -> AdmissionError:
    """Return the error for a failed allocation (unexpectedAdmissionError)."""
    return AdmissionError(
        UNEXPECTED_ADMISSION_ERROR, f"Allocate failed due to {message}, which is unexpected", resource
    )
