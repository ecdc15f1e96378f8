"""The slices of an elastic job: which one covers its pods, and which one waits (workloadslicing.go).

| slice | its role |
|---|---|
| has quota, is evicted | current: the job stops before anything else |
| has quota, and no newer slice has quota in its place | current: it covers the running pods |
| without quota, replaces the current one | pending: it waits for the quota of all pods |
| if none has quota: one that is deactivated | current: the job waits until it is active again |
| if none has quota: the newest that is not evicted | current: the job waits, or starts anew with it |
| any other | surplus: it is Finished |

Kueue finishes an evicted slice at once, even while its pods run. Here its quota is held until they have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.status import EVICTED, FINISHED, QUOTA_RESERVED
from zonewise_scheduler.quota.api.workload_slices import (
    ELASTIC_ANNOTATION,
    REPLACEMENT_ANNOTATION,
    SLICE_NAME_ANNOTATION,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json

REPLACED = "WorkloadSliceReplaced"
OUT_OF_SYNC = "OutOfSync"

Slice = tuple[str, "Json"]
"""The key and the object of a slice."""


class Slices(NamedTuple):
    """The slices of a job by their roles."""

    current: Slice | None = None
    """The slice that covers the pods of the job, or that will start it."""
    pending: Slice | None = None
    """The slice that waits to replace the current one."""
    surplus: tuple[Slice, ...] = ()
    """Slices to finish."""


def is_slice(workload: Mapping[str, object]) -> bool:
    """Return whether a Workload is a slice of an elastic job."""
    return _annotations(workload).get(ELASTIC_ANNOTATION) == "true"


def _annotations(workload: Mapping[str, object]) -> Mapping[str, str]:
    """Return the annotations of a Workload."""
    return FieldReader(workload, "", []).child("metadata").pairs("annotations")


def first_slice_name(workload: Json) -> str:
    """Return the name of the first slice of its job (workloadslicing.go SliceName)."""
    return _annotations(workload).get(SLICE_NAME_ANNOTATION) or workload["metadata"]["name"]


def replaced_slice_key(workload: Json) -> str:
    """Return the key of the slice that a slice replaces; "": it replaces none."""
    return _annotations(workload).get(REPLACEMENT_ANNOTATION, "")


def find_slices(workloads: Mapping[str, Json]) -> Slices:
    """Return the roles of a job's Workloads, by key.

    A Finished one counts only if it is alone and did not end for another slice: its job has failed to start.
    """
    ordered = sorted(workloads.items(), key=_age)
    unfinished = [each for each in ordered if not is_true(each[1], FINISHED)]
    if not unfinished:
        ended = [each for each in ordered if not _ended_for_another(each[1])]
        return Slices(ended[-1] if ended else None)
    with_quota = [each for each in unfinished if is_true(each[1], QUOTA_RESERVED)]
    current = _current(unfinished, with_quota)
    replacements = [
        each
        for each in unfinished
        if each not in with_quota and replaced_slice_key(each[1]) == current[0] and not is_true(each[1], EVICTED)
    ]
    pending = replacements[-1] if replacements and current in with_quota else None
    surplus = tuple(each for each in unfinished if each[0] not in {current[0], pending[0] if pending else ""})
    return Slices(current, pending, surplus)


def replacement_of(key: str, workloads: Mapping[str, Json]) -> Json | None:
    """Return the Workload with quota that replaces a slice; None: there is none."""
    named = (each for each in workloads.values() if replaced_slice_key(each) == key)
    return next((each for each in named if is_true(each, QUOTA_RESERVED) and not is_true(each, FINISHED)), None)


def _current(unfinished: list[Slice], with_quota: list[Slice]) -> Slice:
    if evicted := [each for each in with_quota if is_true(each[1], EVICTED)]:
        return evicted[-1]
    replaced = {replaced_slice_key(workload) for _, workload in with_quota}
    if heads := [each for each in with_quota if each[0] not in replaced] or with_quota:
        return heads[-1]
    inactive = [each for each in unfinished if not _is_active(each[1])]
    return (inactive or [each for each in unfinished if not is_true(each[1], EVICTED)] or unfinished)[-1]


def _is_active(workload: Json) -> bool:
    return FieldReader(workload, "", []).child("spec").flag("active", default=True)


def _ended_for_another(workload: Json) -> bool:
    finished = find_condition(workload, FINISHED) or {}
    return finished.get("reason") in {REPLACED, OUT_OF_SYNC}


def _age(entry: Slice) -> tuple[str, str]:
    """Return the sort key of a slice: the oldest first; ties by UID, as in Kueue."""
    return str(entry[1]["metadata"].get("creationTimestamp", "")), uid_of(entry[1])
