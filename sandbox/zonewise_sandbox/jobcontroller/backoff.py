"""The delay before a failed pod is replaced (pkg/controller/job/backoff_utils.go)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_sandbox.jobcontroller.types import JobPod

FIRST_BACKOFF = 10.0
"""Seconds before the first failed pod is replaced; doubled with each failure (DefaultJobPodFailureBackOff)."""
MAX_BACKOFF = 600.0
"""Seconds (MaxJobPodFailureBackOff)."""


class BackoffRecord(NamedTuple):
    """The failures of a Job since its last success."""

    failures: int = 0
    last: float = 0.0
    """When the last failure occurred, in seconds since 1970."""

    def after(self, succeeded: Iterable[JobPod], failed: Iterable[JobPod]) -> BackoffRecord:
        """Return the record after newly ended pods."""
        ends = sorted(map(end_time, failed))
        successes = [end_time(pod) for pod in succeeded]
        if successes:
            ends = [end for end in ends if end > max(successes)]
            return BackoffRecord(len(ends), ends[-1] if ends else 0.0)
        return BackoffRecord(self.failures + len(ends), ends[-1]) if ends else self

    def remaining(self, now: float) -> float:
        """Return the seconds until a pod may be created."""
        if not self.failures:
            return 0.0
        delay = min(FIRST_BACKOFF * 2.0 ** min(self.failures - 1, 30), MAX_BACKOFF)
        return max(0.0, self.last + delay - now)


def end_time(pod: JobPod) -> float:
    """Return when a pod ended, in seconds since 1970 (getFinishedTime)."""
    ends = [item.state.terminated for item in pod.status.container_statuses]
    finished = [end.finished_at for end in ends if end is not None and end.finished_at]
    if finished and len(finished) == len(ends):
        return max(map(parse_time, finished))
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False" and condition.last_transition_time:
            return parse_time(condition.last_transition_time)
    return parse_time(pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp)


def parse_time(text: str) -> float:
    """Return a metav1.Time in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def format_time(seconds: float) -> str:
    """Return seconds since 1970 in the notation of metav1.Time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
