"""Why a kubelet refuses a pod, in its own words (pkg/kubelet/cm/admission/errors.go)."""

from __future__ import annotations

TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
SMT_ALIGNMENT_ERROR = "SMTAlignmentError"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
EMPTY_POD_SHARED_POOL_ERROR = "EmptyPodSharedPoolError"


class AdmissionError(Exception):
    """One manager has said no; what has been given to the pod so far does not count."""

    def __init__(self, reason: str, message: str, resource: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.resource = resource


def unexpected_admission_error(message: str, resource: str) -> AdmissionError:
    """Return the refusal that a failed allocation ends in (unexpectedAdmissionError)."""
    return AdmissionError(
        UNEXPECTED_ADMISSION_ERROR, f"Allocate failed due to {message}, which is unexpected", resource
    )
