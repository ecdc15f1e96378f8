"""Whether a Workload matches a job (jobframework/reconciler.go EquivalentToWorkload, pkg/util/equality/podset.go).

A start or a stop changes only fields that are not compared in the resulting state. So a job keeps its Workload through
both. If its user changes what it requests, a Workload without quota is adapted, and another one is replaced.

| what | compared |
|---|---|
| containers, minCount, maximum execution time | always |
| number of pods | with the admitted number if the job started with fewer, else with the submitted number |
| number of pods of a job with slices | never: its slices follow it (reconcile/sliced_job.py) |
| the same of another elastic job | not without quota; while it runs or stops, it needs no more than are still held |
| tolerations, node selector, affinity | while the job is held without quota: nothing is added to them then |

Of a Workload that its job names, node selector and affinity are not compared, as in Kueue: nothing can adapt it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, cast

from zonewise_common.k8s.fields import FieldError, FieldReader, milli_quantity, object_in
from zonewise_scheduler.controller.jobs.elastic_job import is_elastic, is_sliced, surplus_pods
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.status import EVICTED, QUOTA_RESERVED
from zonewise_scheduler.quota.api.declared_walltime import read_max_execution_time
from zonewise_scheduler.quota.api.pod_set_manifest import read_pod_set_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

_REQUESTS = ("containers", "initContainers")
_TOLERATIONS = ("tolerations",)
_DIRECTIVES = (*_TOLERATIONS, "nodeSelector", "affinity")


def matches(workload: Json, adapter: JobAdapter, job: Json, *, is_prebuilt: bool = False) -> bool:
    """Return whether a Workload matches a job; `is_prebuilt`: the job names it.

    Raises FieldError for an invalid job or Workload.
    """
    if not is_owner(workload, job) or _declared_seconds(workload) != _label_seconds(job):
        return False
    originals, pod_sets = read_pod_set_manifests(workload), adapter.pod_sets(job)
    is_held, has_quota = adapter.is_suspended(job), is_true(workload, QUOTA_RESERVED)
    admitted = _admitted_counts(workload) if has_quota else {}
    directives = _TOLERATIONS if is_prebuilt else _DIRECTIVES
    fields = directives + _REQUESTS if is_held and not has_quota else _REQUESTS
    if len(originals) != len(pod_sets):
        return False
    has_counts = all(
        pod_set.pods in _expected_counts(original, admitted, is_held=is_held)
        for pod_set, original in zip(pod_sets, originals, strict=True)
    )
    has_counts = has_counts or (not is_prebuilt and is_sliced(adapter, job))
    reclaimable = _reclaimable_counts(workload)
    if (reclaimable or not has_counts) and is_elastic(adapter, job):
        has_counts = (not has_quota) or (
            (has_counts or not is_held or is_true(workload, EVICTED))
            and all(pods >= reclaimable.get(name, 0) for name, pods in surplus_pods(adapter, job, originals).items())
        )
    return has_counts and all(
        pod_set.min_count == original.min_count and _have_same_spec(pod_set, original, fields)
        for pod_set, original in zip(pod_sets, originals, strict=True)
    )


def is_owner(workload: Json, job: Json) -> bool:
    """Return whether a Workload belongs to this job, rather than to an earlier one with the same name."""
    metadata = object_in(job, "metadata", "")
    owners = FieldReader(workload, "", []).child("metadata").children("ownerReferences")
    return any(
        owner.flag("controller", default=False)
        and (owner.text("name"), owner.text("uid")) == (metadata.get("name"), metadata.get("uid"))
        for owner in owners
    )


def _declared_seconds(workload: Json) -> float:
    seconds = FieldReader(workload, "", []).child("spec").count("maximumExecutionTimeSeconds")
    return inf if seconds is None else seconds


def _label_seconds(job: Json) -> float:
    return read_max_execution_time(FieldReader(job, "", []).child("metadata"))


def _admitted_counts(workload: Json) -> dict[str, int]:
    assignments = FieldReader(workload, "", []).child("status").child("admission").children("podSetAssignments")
    counts = ((item.text("name", "main"), item.count("count")) for item in assignments)
    return {name: count for name, count in counts if count is not None}


def _reclaimable_counts(workload: Json) -> dict[str, int]:
    reclaimable = FieldReader(workload, "", []).child("status").children("reclaimablePods")
    return {item.text("name", "main"): item.count("count", 0) or 0 for item in reclaimable}


def _expected_counts(original: PodSetManifest, admitted: Mapping[str, int], *, is_held: bool) -> set[int]:
    """Return the allowed numbers of pods. A held job may not have started yet, or may already be stopped."""
    if original.min_count is None or original.name not in admitted:
        return {original.pods}
    return {admitted[original.name], original.pods} if is_held else {admitted[original.name]}


def _have_same_spec(pod_set: PodSetManifest, original: PodSetManifest, fields: tuple[str, ...]) -> bool:
    spec, original_spec = object_in(pod_set.template, "spec", ""), object_in(original.template, "spec", "")
    return all(
        spec.get(field) == original_spec.get(field)
        or _canonical(spec.get(field)) == _canonical(original_spec.get(field))
        for field in fields
    )


def _canonical(value: object, field: str = "") -> object:
    """Return a value without null or empty fields, and with quantities converted to numbers."""
    if isinstance(value, list):
        return [_canonical(item) for item in cast("list[object]", value)] or None
    if not isinstance(value, dict):
        return value
    if field in {"requests", "limits"}:
        return {name: _amount(quantity) for name, quantity in cast("dict[str, Any]", value).items()} or None
    fields = {name: _canonical(item, name) for name, item in cast("dict[str, object]", value).items()}
    return {name: item for name, item in fields.items() if item is not None} or None


def _amount(quantity: object) -> object:
    try:
        return milli_quantity(quantity, "")
    except FieldError:
        return quantity
