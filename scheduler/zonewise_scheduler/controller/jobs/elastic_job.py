"""Elastic Indexed Jobs without slices: parallelism and completions change together while the Job runs (KEP-3715).

| change | effect |
|---|---|
| fewer pods, the Job runs | the Workload keeps its admission; the removed pods are reclaimable at once |
| more pods, and all fit into the quota still held | none: they already have quota |
| more pods | the Workload no longer matches: the Job is stopped, and queued with the new number |
| any number, without quota | the Workload adopts the number, and keeps its position in the queue |

Quota is never partly released and then taken again, because reclaimable pods only increase while a Workload is
admitted. So a Job that shrinks and then grows is queued again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.job_fields import annotation_of
from zonewise_scheduler.quota.api.job_pod_sets import MIN_PARALLELISM_ANNOTATION
from zonewise_scheduler.quota.api.workload_slices import ELASTIC_ANNOTATION, ELASTIC_GATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest


def is_sliced(adapter: JobAdapter, job: Json) -> bool:
    """Return whether a job gets a second Workload if it grows (workloadslicing.go Enabled, workloads/slices.py).

    A job that may start with fewer pods does not, nor does one that was started without the gate for additional pods.
    Of other kinds, no job does yet.
    """
    if adapter.resource != JOBS or annotation_of(job, ELASTIC_ANNOTATION) != "true":
        return False
    spec = FieldReader(job, "", []).child("spec")
    gates = spec.child("template").child("spec").children("schedulingGates")
    is_gated = spec.flag("suspend", default=False) or any(gate.text("name") == ELASTIC_GATE for gate in gates)
    return is_gated and not annotation_of(job, MIN_PARALLELISM_ANNOTATION)


def is_elastic(adapter: JobAdapter, job: Json) -> bool:
    """Return whether a job without slices may change its number of pods while it runs.

    Partial admission excludes this.
    """
    if adapter.resource != JOBS or annotation_of(job, MIN_PARALLELISM_ANNOTATION) or is_sliced(adapter, job):
        return False
    spec = FieldReader(job, "", []).child("spec")
    is_indexed = spec.text("completionMode") == "Indexed"
    return is_indexed and spec.has("completions") and spec.count("completions") == spec.count("parallelism", 1)


def surplus_pods(adapter: JobAdapter, job: Json, originals: Sequence[PodSetManifest]) -> dict[str, int]:
    """Return by pod set how many fewer pods an elastic job needs than its Workload covers; below 0: it needs more.

    `originals`: the pod sets of the Workload. Raises FieldError for an invalid job.
    """
    done = adapter.reclaimable_pods(job)
    return {
        original.name: original.pods - pod_set.pods + done.get(pod_set.name, 0)
        for pod_set, original in zip(adapter.pod_sets(job), originals, strict=False)
    }
