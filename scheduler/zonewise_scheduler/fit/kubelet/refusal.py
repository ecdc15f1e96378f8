"""Why a kubelet refuses a pod, in its own words (pkg/kubelet/cm/admission/errors.go)."""

from __future__ import annotations

TOPOLOGY = "TopologyAffinityError"
CORES = "SMTAlignmentError"
UNEXPECTED = "UnexpectedAdmissionError"
EMPTY_POOL = "EmptyPodSharedPoolError"


class Refusal(Exception):
    """One manager has said no; what has been given to the pod so far does not count."""

    def __init__(self, reason: str, message: str, resource: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.resource = resource


def unexpected(message: str, resource: str) -> Refusal:
    """Return the refusal that a failed allocation ends in (unexpectedAdmissionError)."""
    return Refusal(UNEXPECTED, f"Allocate failed due to {message}, which is unexpected", resource)
