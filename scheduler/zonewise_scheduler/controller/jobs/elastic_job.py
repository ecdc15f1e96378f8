"""Elastic Indexed Jobs: parallelism and completions change together while the Job runs (KEP-3715).

| change | what follows |
|---|---|
| fewer pods, the Job runs | the Workload keeps its admission; the pods that are gone are reclaimable at once |
| more pods, as many as are still held | nothing: they have quota |
| more pods | the Workload matches no more: the Job is stopped, and queued with the new number |
| any number, without quota | the Workload takes it over, and keeps its place |

Quota is never given back in part and taken again: reclaimable pods only grow while a Workload is admitted. So a Job
that shrinks and grows again is queued again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.job_fields import annotation_of
from zonewise_scheduler.quota.api.job_pod_sets import MIN_PARALLELISM_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest


def is_elastic(adapter: JobAdapter, job: Json) -> bool:
    """Tell whether the number of pods of a job may change while it runs. Partial admission excludes it."""
    if adapter.resource != JOBS or annotation_of(job, MIN_PARALLELISM_ANNOTATION):
        return False
    spec = FieldReader(job, "", []).child("spec")
    is_indexed = spec.text("completionMode") == "Indexed"
    return is_indexed and spec.has("completions") and spec.count("completions") == spec.count("parallelism", 1)


def surplus_pods(adapter: JobAdapter, job: Json, originals: Sequence[PodSetManifest]) -> dict[str, int]:
    """Return by pod set how many pods fewer an elastic job needs than its Workload has; below 0: it needs more.

    `originals`: the pod sets of the Workload. Raises FieldError for an invalid job.
    """
    done = adapter.reclaimable_pods(job)
    return {
        original.name: original.pods - pod_set.pods + done.get(pod_set.name, 0)
        for pod_set, original in zip(adapter.pod_sets(job), originals, strict=False)
    }
