"""The next write for an elastic job with workload slices (pkg/workloadslicing EnsureWorkloadSlices).

    job        its slices (workloads/slices.py)         next write
    ended      not Finished                             each of them: Finished
    any        the current one is evicted, has quota    as for a job with one Workload: stop, then release the quota
    any        surplus                                  Finished: WorkloadSliceReplaced, or OutOfSync
    any        the current one has other pod templates  as for a job with one Workload
    any        without quota, other size                the current one: its size
    any        quota, fewer pods in the job             the current one: its size
    any        quota, more pods in the job, no pending  create a slice that replaces the current one
    any        quota, pending of another size           the pending one: its size
    any        quota, pending, no more pods in the job  the pending one: Finished, OutOfSync
    any        any                                      as for a job with one Workload, the current one

Additional pods have a gate, so a job that grows is not stopped. Its other pods continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.jobs.job_fields import labels_of
from zonewise_scheduler.controller.reconcile.workload import patch_status, patch_workload
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.manifest import JOB_UID_LABEL, ManifestOptions, build_workload
from zonewise_scheduler.controller.workloads.slices import (
    OUT_OF_SYNC,
    REPLACED,
    first_slice_name,
    replacement_of,
)
from zonewise_scheduler.controller.workloads.status import EVICTED, QUOTA_RESERVED, finish_for
from zonewise_scheduler.controller.workloads.workload_names import slice_name
from zonewise_scheduler.quota.api.pod_set_manifest import read_pod_set_manifests
from zonewise_scheduler.quota.api.workload_slices import (
    ELASTIC_ANNOTATION,
    REPLACEMENT_ANNOTATION,
    SLICE_NAME_ANNOTATION,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.workloads.slices import Slice, Slices
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest


class SlicedJob(NamedTuple):
    """An elastic job that has not ended, with its slices."""

    job: Json
    resource: Resource
    pod_sets: Sequence[PodSetManifest]
    """The pod sets of its current spec."""
    workloads: Mapping[str, Json]
    """All of its Workloads by key."""
    slices: Slices


def next_slice_write(state: SlicedJob, options: ManifestOptions, now: float) -> Write | None:
    """Return the next write that adapts the slices to the size of their job; None: the sizes are the same.

    Raises FieldError for an invalid job.
    """
    current, pending, surplus = state.slices
    if current is None or _is_evicted_with_quota(current[1]):
        return None
    if surplus:
        return _finish(state, surplus[0], now)
    if not is_true(current[1], QUOTA_RESERVED):
        return _resize(state, *current)
    grows, shrinks = _compare(state, current[1])
    if grows:
        return _resize(state, *pending) if pending is not None else _create(state, current, options)
    if pending is not None:
        return _finish(state, pending, now)
    return _resize(state, *current) if shrinks else None


def is_growing(state: SlicedJob) -> bool:
    """Return whether the job has more pods than its current slice covers. Raises FieldError for an invalid job."""
    current = state.slices.current
    return current is not None and is_true(current[1], QUOTA_RESERVED) and _compare(state, current[1])[0]


def build_first_slice(
    job: Json, resource: Resource, pod_sets: Sequence[PodSetManifest], options: ManifestOptions
) -> Json:
    """Return the first slice of a job. Raises FieldError for an invalid job or an unknown priority class."""
    return _build_slice(job, resource, pod_sets, options, None)


def _build_slice(
    job: Json, resource: Resource, pod_sets: Sequence[PodSetManifest], options: ManifestOptions, replaced: Slice | None
) -> Json:
    """Return a new slice of a job (jobframework/reconciler.go prepareWorkloadSlice); `replaced`: the current one."""
    workload = build_workload(job, resource, pod_sets, options)
    metadata = workload["metadata"]
    generation = int(job["metadata"].get("generation") or 0)
    metadata["name"] = slice_name(resource, job["metadata"]["name"], uid_of(job), generation)
    metadata["annotations"] |= {
        ELASTIC_ANNOTATION: "true",
        SLICE_NAME_ANNOTATION: metadata["name"] if replaced is None else first_slice_name(replaced[1]),
        **({} if replaced is None else {REPLACEMENT_ANNOTATION: replaced[0]}),
    }
    return workload


def _is_evicted_with_quota(workload: Json) -> bool:
    return is_true(workload, EVICTED) and is_true(workload, QUOTA_RESERVED)


def _compare(state: SlicedJob, workload: Json) -> tuple[bool, bool]:
    """Return whether a pod set of the job has more pods than in a slice, and whether one has fewer."""
    pairs = list(zip(state.pod_sets, read_pod_set_manifests(workload), strict=True))
    return any(mine.pods > its.pods for mine, its in pairs), any(mine.pods < its.pods for mine, its in pairs)


def _resize(state: SlicedJob, key: str, workload: Json) -> Write | None:
    """Return the write of the job's size; None: the slice has it."""
    if not any(_compare(state, workload)):
        return None
    resized = [pod_set.as_object() for pod_set in _resized_pod_sets(state, workload)]
    return patch_workload(workload, key, "follow the job", {"spec": {"podSets": resized}})


def _resized_pod_sets(state: SlicedJob, workload: Json) -> list[PodSetManifest]:
    """Return the pod sets of a slice with the counts of the job. The templates are those from before its start."""
    pairs = zip(state.pod_sets, read_pod_set_manifests(workload), strict=True)
    return [its._replace(pods=mine.pods) for mine, its in pairs]


def _create(state: SlicedJob, current: Slice, options: ManifestOptions) -> Write:
    workload = _build_slice(state.job, state.resource, _resized_pod_sets(state, current[1]), options, current)
    key = ObjectKey(WORKLOADS, workload["metadata"]["namespace"], workload["metadata"]["name"])
    if (known := state.workloads.get(key.namespaced_name)) is not None:
        purpose = "delete a slice of an earlier size"
        return Write(Verb.DELETE, key, purpose, uid=uid_of(known), workload=key.namespaced_name)
    return Write(Verb.CREATE, key, "create the Workload of more pods", workload, workload=key.namespaced_name)


def _finish(state: SlicedJob, surplus: Slice, now: float) -> Write | None:
    key, workload = surplus
    replacement = replacement_of(key, state.workloads)
    if replacement is None:
        reason, message = OUT_OF_SYNC, "The workload slice is out of sync with its parent job"
    else:
        job_uid = labels_of(replacement).get(JOB_UID_LABEL, "")
        reason, message = (
            REPLACED,
            (
                f"Replaced to accommodate a workload (UID: {uid_of(replacement)}, JobUID: {job_uid}) "
                "due to workload slice aggregation"
            ),
        )
    return patch_status(workload, key, "finish", finish_for(workload, reason, message, now))
