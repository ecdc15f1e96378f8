"""Whether the pods of a job leave it nothing to do, which its status shows only a second later.

The Job controller processes ended pods in batches, a second after the first (pkg/controller/job/job_controller.go
syncJobBatchPeriod). Ended pods use nothing on their nodes, so their quota is free before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.jobs.index_intervals import count_indexes
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, CONTROLLER_UID, pods_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.types import Json

PodLabels = Mapping[str, str]
"""The labels of a pod."""


def completions_of(spec: FieldReader) -> int:
    """Return the completions that the spec of a Job declares; by default, the number of pods that run at a time."""
    return spec.count("completions", pods_at_a_time(spec)) or 0


def completions_done(reader: FieldReader, succeeded: Sequence[PodLabels] = ()) -> tuple[int, int]:
    """Return the number of completions that are permanently done, and the number of all completions of a Job.

    `succeeded`: succeeded pods of the Job, some of which the status may not count yet. Indexes that failed permanently
    count as done.
    """
    spec, status = reader.child("spec"), reader.child("status")
    completions = completions_of(spec)
    if spec.text("completionMode") != "Indexed":
        return max(status.count("succeeded", 0) or 0, len(succeeded)), completions
    indexes = (labels.get(COMPLETION_INDEX, "") for labels in succeeded)
    intervals = ",".join([status.text("completedIndexes"), status.text("failedIndexes"), *indexes])
    return count_indexes(intervals, completions), completions


def is_job_done(job: Json, succeeded: Iterable[PodLabels]) -> bool:
    """Return whether a Job without active pods needs no more pods. Raises FieldError for an invalid Job."""
    uid = uid_of(job)
    own = [labels for labels in succeeded if labels.get(CONTROLLER_UID) == uid]
    done, completions = read_strictly(job, lambda reader: completions_done(reader, own))
    return bool(own) and done >= completions


def indexes_by_job(succeeded: Iterable[PodLabels]) -> Mapping[str, Set[str]]:
    """Return the completion indexes of succeeded pods, by the UID of their Job."""
    indexes: dict[str, set[str]] = {}
    for labels in succeeded:
        if COMPLETION_INDEX in labels:
            indexes.setdefault(labels.get(CONTROLLER_UID, ""), set()).add(labels[COMPLETION_INDEX])
    return indexes
