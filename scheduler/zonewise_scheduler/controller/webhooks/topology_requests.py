"""Checks of the annotations by which pods request a topology (pkg/controller/jobframework/tas_validation.go)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from zonewise_common.k8s.labels import is_qualified_name
from zonewise_scheduler.controller.pods.pod_group import MAX_ROLES
from zonewise_scheduler.controller.webhooks.field_checks import MAX_WALLTIME, annotation_field, problem, whole_number
from zonewise_scheduler.quota.api.job_pod_sets import (
    BOOLS,
    POD_SET_GROUP,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_CONSTRAINTS,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    UNCONSTRAINED_ANNOTATION,
)
from zonewise_scheduler.quota.api.slice_layers import parse_slice_layers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

_MODES = (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, UNCONSTRAINED_ANNOTATION)
_LEVELS = (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)
_SLICES = (SLICE_TOPOLOGY, SLICE_SIZE, SLICE_CONSTRAINTS)
_PAIR = 2
"""Number of pod sets in a group: those of a leader and of its workers."""


def check_topology_request(annotations: Json, path: str) -> Iterator[str]:
    """Yield the problems of a pod template's topology annotations (ValidateTASPodSetRequest)."""
    modes = [name for name in _MODES if name in annotations]
    if len(modes) > 1:
        yield f"{path}annotations: {' and '.join(modes)} exclude each other: keep one of them"
    for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, SLICE_TOPOLOGY):
        if name in annotations and not _is_label_name(annotations[name]):
            yield problem(annotation_field(name, path), annotations[name], "must be a level: the name of a node label")
    value = annotations.get(UNCONSTRAINED_ANNOTATION)
    if value is not None and value not in BOOLS:
        yield problem(annotation_field(UNCONSTRAINED_ANNOTATION, path), value, "must be true or false")
    yield from _check_slices(annotations, path)
    if POD_SET_GROUP in annotations:
        yield from _check_group_name(annotations, path)


def check_pod_sets(pod_sets: Sequence[PodSetManifest]) -> Iterator[str]:
    """Yield the problems that depend on numbers of pods, or on several pod sets.

    Source: ValidateSliceSizeAnnotationUpperBound, ValidatePodSetGroupingTopology; constants.go MaxPodSets.
    """
    if len(pod_sets) > MAX_ROLES:
        yield f"spec: the job has {len(pod_sets)} pod sets, and at most {MAX_ROLES} are allowed"
    groups: dict[str, list[PodSetManifest]] = {}
    for pod_set in pod_sets:
        request = pod_set.topology_request or {}
        layers: Sequence[Json] = request.get("podsetSliceRequiredTopologyConstraints") or ()
        size = layers[0]["size"] if layers else request.get("podSetSliceSize")
        if size is not None and size > pod_set.pods:
            name = SLICE_CONSTRAINTS if layers else SLICE_SIZE
            yield problem(_field_of(pod_set, name), size, f"must be at most {pod_set.pods}, the number of its pods")
        if (group := request.get("podSetGroupName")) is not None:
            groups.setdefault(group, []).append(pod_set)
    for name, members in groups.items() if len(pod_sets) > 1 else ():
        yield from _check_group(name, members)


def _check_group_name(annotations: Json, path: str) -> Iterator[str]:
    field, name = annotation_field(POD_SET_GROUP, path), annotations[POD_SET_GROUP]
    if str(name).isdecimal():
        yield problem(field, name, "must not be a number")
    if slices := [other for other in _SLICES if other in annotations]:
        yield problem(field, name, f"excludes {' and '.join(slices)}: keep one of them")
    if not any(level in annotations for level in _LEVELS):
        yield problem(field, name, f"needs {' or '.join(_LEVELS)}: add one of them")


def _check_group(name: str, members: Sequence[PodSetManifest]) -> Iterator[str]:
    field = _field_of(members[0], POD_SET_GROUP)
    if len(members) != _PAIR:
        yield problem(field, name, f"must be the group of two pod sets, not of {len(members)}")
        return
    if all(pod_set.pods != 1 for pod_set in members):
        yield problem(field, name, "must be the group of a single pod and its workers: one pod set has one pod")
    requests = [pod_set.topology_request or {} for pod_set in members]
    if any(requests[0].get(level) != requests[1].get(level) for level in ("required", "preferred")):
        yield problem(field, name, f"must have the same {' or '.join(_LEVELS)} in both of its pod sets")


def _check_slices(annotations: Json, path: str) -> Iterator[str]:
    size = annotations.get(SLICE_SIZE)
    if size is not None and not whole_number(size):
        yield problem(annotation_field(SLICE_SIZE, path), size, f"must be a number from 1 to {MAX_WALLTIME}")
    if (SLICE_TOPOLOGY in annotations) != (size is not None):
        yield f"{path}annotations: {SLICE_TOPOLOGY} and {SLICE_SIZE} must be set together: set both or neither"
    text = annotations.get(SLICE_CONSTRAINTS)
    if text is None:
        return
    if SLICE_TOPOLOGY in annotations or size is not None:
        yield f"{path}annotations: {SLICE_CONSTRAINTS} replaces {SLICE_TOPOLOGY}: keep one of them"
    layers = parse_slice_layers(text)
    if layers is None:
        advice = 'must be JSON with one to three levels, such as [{"topology": "example.com/rack", "size": 4}]'
        yield problem(annotation_field(SLICE_CONSTRAINTS, path), text, advice)
    else:
        yield from _check_layers(layers, annotation_field(SLICE_CONSTRAINTS, path), text)


def _check_layers(layers: Sequence[Json], field: str, text: object) -> Iterator[str]:
    topologies = [layer["topology"] for layer in layers]
    if len(set(topologies)) < len(topologies):
        yield problem(field, text, "must have a different level in each entry")
    if any(outer["size"] % inner["size"] for outer, inner in pairwise(layers)):
        yield problem(field, text, "must have sizes each of which divides the one before it")


def _is_label_name(value: object) -> bool:
    return isinstance(value, str) and is_qualified_name(value)


def _field_of(pod_set: PodSetManifest, name: str) -> str:
    return annotation_field(name, f"pod set {pod_set.name}: metadata.")
