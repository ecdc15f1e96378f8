"""The additions of a start to a pod template, and their removal by a stop (pkg/podset/podset.go Merge, RestorePodSpec).

Templates are values: a function returns a new template, which shares its unchanged parts with the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in, objects_in, string_map_in
from zonewise_scheduler.controller.jobs.interface import StartConflict
from zonewise_scheduler.quota.api.workload_slices import SLICE_NAME_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.controller.jobs.interface import PodSetInfo
    from zonewise_scheduler.controller.types import Json

_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
"""Fields of the spec that a start changes besides labels and annotations. All may change while a Job is suspended."""


def merge_pod_set_info(template: Json, info: PodSetInfo) -> Json:
    """Return a template with the labels, annotations, node selector, tolerations and gates of a start.

    The template of an elastic job may have the annotations of an earlier slice, since Kueue builds slices from started
    jobs. They are replaced (pkg/podset/podset.go overrideableAnnotations). Tolerations and gates that are already in
    the template are not added again, so a second merge changes nothing.

    Raises StartConflict if the template has a different value for a key, and FieldError for an invalid template.
    """
    metadata, spec = object_in(template, "metadata", "template."), object_in(template, "spec", "template.")
    path = "template.metadata."
    gates: list[Json] = [{"name": name} for name in info.scheduling_gates]
    if SLICE_NAME_ANNOTATION in info.annotations:
        annotations = object_in(metadata, "annotations", path)
        other = {name: value for name, value in annotations.items() if name not in info.annotations}
        metadata = {**metadata, "annotations": other}
    changed_metadata = {
        "labels": _merged_pairs(metadata, "labels", path, info.labels),
        "annotations": _merged_pairs(metadata, "annotations", path, info.annotations),
    }
    path = "template.spec."
    changed_spec = {
        "nodeSelector": _merged_pairs(spec, "nodeSelector", path, info.node_selector),
        "tolerations": _merged_objects(objects_in(spec, "tolerations", path), info.tolerations),
        "schedulingGates": _merged_objects(objects_in(spec, "schedulingGates", path), gates),
    }
    return {**template, "metadata": _replaced(metadata, changed_metadata), "spec": _replaced(spec, changed_spec)}


def restore_template(template: Json, original: Mapping[str, object], keep_labels: Iterable[str] = ()) -> Json:
    """Return a template in which all fields that a start may change are as in the original.

    `keep_labels`: labels to leave unchanged, because a controller added them after the submission.
    """
    metadata, spec = object_in(template, "metadata", "template."), object_in(template, "spec", "template.")
    original_metadata = object_in(original, "metadata", "template.")
    original_spec = object_in(original, "spec", "template.")
    labels = object_in(metadata, "labels", "template.metadata.")
    original_labels = object_in(original_metadata, "labels", "template.metadata.")
    restored_labels = {**original_labels, **{name: labels[name] for name in keep_labels if name in labels}}
    restored_metadata = {"labels": restored_labels, "annotations": original_metadata.get("annotations")}
    restored_spec = {name: original_spec.get(name) for name in _SPEC}
    return {**template, "metadata": _replaced(metadata, restored_metadata), "spec": _replaced(spec, restored_spec)}


def _replaced(owner: Json, fields: Mapping[str, object]) -> Json:
    """Return an object with some fields replaced; empty fields are omitted."""
    replaced = {name: value for name, value in owner.items() if name not in fields}
    return replaced | {name: value for name, value in fields.items() if value}


def _merged_pairs(owner: Json, field: str, path: str, additions: Mapping[str, str]) -> dict[str, str]:
    pairs = dict(string_map_in(owner, field, path))
    for key, value in additions.items():
        if pairs.setdefault(key, value) != value:
            raise StartConflict(f"{path}{field}.{key}: the job sets {pairs[key]!r}, but the admission sets {value!r}")
    return pairs


def _merged_objects(objects: Sequence[Json], additions: Sequence[Json]) -> list[Json]:
    merged = list(objects)
    for addition in additions:
        if addition not in merged:
            merged.append(addition)
    return merged
