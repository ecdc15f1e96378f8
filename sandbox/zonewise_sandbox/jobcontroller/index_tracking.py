"""The succeeded and failed indexes of an Indexed Job (indexed_job_utils.go).

The newest failed pod of an index that is neither active nor decided keeps its finalizer until its successor has its
failure count (getPodsWithDelayedDeletionPerIndex). The failure count of an index is in the annotations of its newest
pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.jobcontroller.backoff import end_time
from zonewise_sandbox.jobcontroller.indexes import parse_indexes
from zonewise_sandbox.jobcontroller.policies import judge_failure
from zonewise_sandbox.jobcontroller.types import FAILURE_COUNT, IGNORED_FAILURE_COUNT, is_failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_sandbox.jobcontroller.types import Job, JobPod, JobSpec


class IndexState(NamedTuple):
    """The indexes of a Job."""

    succeeded: set[int]
    failed: set[int]
    """Failed indexes, only with backoffLimitPerIndex."""
    delayed: Mapping[int, JobPod]
    """The failed pods that wait for their successors, by index."""

    @property
    def delayed_uids(self) -> set[str]:
        """Return the UIDs of the failed pods that wait for their successors."""
        return {pod.metadata.uid for pod in self.delayed.values()}


def track_indexes(job: Job, pods: Iterable[JobPod], active: Iterable[JobPod]) -> IndexState:
    """Return the indexes after the pods that are not counted yet."""
    spec, completions = job.spec, job.spec.completions or 0
    valid = [pod for pod in pods if pod.is_tracked and pod.index is not None and pod.index < completions]
    succeeded = parse_indexes(job.status.get("completedIndexes") or "", completions)
    succeeded |= {pod.index for pod in valid if pod.index is not None and pod.status.phase == "Succeeded"}
    if spec.backoff_limit_per_index is None:
        return IndexState(succeeded, set(), {})
    failed = parse_indexes(job.status.get("failedIndexes") or "", completions)
    failed |= {pod.index for pod in valid if pod.index is not None and _fails_index(spec, pod)}
    decided = succeeded | failed | {pod.index for pod in active if pod.index is not None}
    delayed: dict[int, JobPod] = {}
    for pod in valid:
        if pod.index is not None and pod.index not in decided and is_failed(pod, spec):
            delayed[pod.index] = max((pod, delayed.get(pod.index, pod)), key=_newest)
    return IndexState(succeeded, failed, delayed)


def total_failures(pod: JobPod) -> int:
    """Return the number of failures of a pod's index before it, including ignored ones."""
    return pod.annotated_count(FAILURE_COUNT) + pod.annotated_count(IGNORED_FAILURE_COUNT)


def _newest(pod: JobPod) -> tuple[int, float]:
    return total_failures(pod), end_time(pod)


def _fails_index(spec: JobSpec, pod: JobPod) -> bool:
    if not is_failed(pod, spec):
        return False
    failure = judge_failure(spec.pod_failure_policy, pod)
    if failure.action == "FailIndex":
        return True
    return failure.counts and pod.annotated_count(FAILURE_COUNT) >= (spec.backoff_limit_per_index or 0)
