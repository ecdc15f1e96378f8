"""Whether the pods of a Job leave it nothing to do, which its status says a second later.

The Job controller handles the ends of pods together, a second after the first (pkg/controller/job/job_controller.go
syncJobBatchPeriod). What has ended uses nothing of its node, so its quota is free before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.jobs.index_intervals import count_indexes
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, CONTROLLER_UID, pods_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.types import Json


def completions_done(reader: FieldReader, succeeded: Sequence[ManagedPod] = ()) -> tuple[int, int]:
    """Return the completions of a Job that are done for good, and all of them.

    `succeeded`: pods of the Job, of which the status may not count all yet. Indexes that failed for good count as done.
    """
    spec, status = reader.child("spec"), reader.child("status")
    completions = spec.count("completions", pods_at_a_time(spec)) or 0
    if spec.text("completionMode") != "Indexed":
        return max(status.count("succeeded", 0) or 0, len(succeeded)), completions
    indexes = (pod.labels.get(COMPLETION_INDEX, "") for pod in succeeded)
    intervals = ",".join([status.text("completedIndexes"), status.text("failedIndexes"), *indexes])
    return count_indexes(intervals, completions), completions


def is_done(job: Json, pods: Iterable[ManagedPod]) -> bool:
    """Tell whether a Job of which no pod is active needs no more pods. Raises FieldError for an invalid Job."""
    uid = uid_of(job)
    succeeded = [pod for pod in pods if pod.phase == "Succeeded" and pod.labels.get(CONTROLLER_UID) == uid]
    done, completions = read_strictly(job, lambda reader: completions_done(reader, succeeded))
    return bool(succeeded) and done >= completions
