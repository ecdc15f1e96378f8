"""The additions that a start makes to the templates of a job, recorded in an annotation of the job.

A stop restores the templates from the Workload. If the Workload was deleted, the annotation shows what to remove and
which quota the pods have (workloads/noted_admission.py). The last write of a stop removes the annotation, once no pod
is active. So it exists while templates may contain additions and while pods may have quota. An unreadable annotation
counts as empty, since a job must be able to stop in any case.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import FieldReader, object_in
from zonewise_scheduler.controller.jobs.job_fields import annotation_of, parse_object
from zonewise_scheduler.controller.merge_patch import merge_patch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.jobs.interface import PodSetInfo
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

INJECTED_ANNOTATION = "zonewise.dev/injected"
_PAIRS = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
_LISTS = (("spec", "tolerations"), ("spec", "schedulingGates"))


def injected_annotation(original: Sequence[PodSetManifest], infos: Sequence[PodSetInfo]) -> str:
    """Return the annotation of a start: by pod set, the additions to the original template, and its count."""
    added = {pod_set.name: _additions(pod_set, info) for pod_set, info in zip(original, infos, strict=False)}
    # a start with a different number of infos fails
    return json.dumps(added, separators=(",", ":"), sort_keys=True)


def is_injected(job: Json) -> bool:
    """Return whether templates of the job may contain additions of a start."""
    return bool(annotation_of(job, INJECTED_ANNOTATION))


def read_injected(job: Json) -> FieldReader:
    """Return the additions from the annotation by pod set; none if it cannot be read."""
    return FieldReader(parse_object(annotation_of(job, INJECTED_ANNOTATION)), "", [])


def without_injected(job: Json, pod_sets: Sequence[PodSetManifest]) -> tuple[PodSetManifest, ...]:
    """Return the pod sets of a job without the annotated additions. An addition whose value has changed is kept."""
    added = read_injected(job)
    return tuple(_without(pod_set, added.child(pod_set.name)) for pod_set in pod_sets)


def holds_injected(job: Json, pod_sets: Sequence[PodSetManifest]) -> bool:
    """Return whether the pod sets still contain any of the annotated additions."""
    originals = without_injected(job, pod_sets)
    return any(
        original.pods != pod_set.pods or merge_patch(pod_set.template, original.template)
        for pod_set, original in zip(pod_sets, originals, strict=True)
    )


def _additions(pod_set: PodSetManifest, info: PodSetInfo) -> Json:
    template = pod_set.template
    desired: dict[str, Mapping[str, str] | Sequence[Json]] = {
        "labels": info.labels,
        "annotations": info.annotations,
        "nodeSelector": info.node_selector,
        "tolerations": info.tolerations,
        "schedulingGates": [{"name": name} for name in info.scheduling_gates],
    }
    added: Json = {}
    for part, field in _PAIRS:
        present = object_in(object_in(template, part, ""), field, "")
        pairs = cast("Mapping[str, str]", desired[field])
        added[field] = {key: value for key, value in pairs.items() if key not in present}
    for part, field in _LISTS:
        items: list[Json] = object_in(template, part, "").get(field) or []
        added[field] = [item for item in cast("Sequence[Json]", desired[field]) if item not in items]
    if info.pods != pod_set.pods:
        added["count"] = pod_set.pods
    return {field: value for field, value in added.items() if value}


def _without(pod_set: PodSetManifest, added: FieldReader) -> PodSetManifest:
    template = dict(pod_set.template)
    for part, field in _PAIRS:
        pairs, owner = added.pairs(field), dict(object_in(template, part, ""))
        owner[field] = {key: value for key, value in object_in(owner, field, "").items() if pairs.get(key) != value}
        template[part] = owner
    for part, field in _LISTS:
        items, owner = [dict(item.obj) for item in added.children(field)], dict(object_in(template, part, ""))
        owner[field] = [item for item in owner.get(field) or () if item not in items]
        template[part] = owner
    return pod_set._replace(template=template, pods=added.count("count", pod_set.pods) or pod_set.pods)
