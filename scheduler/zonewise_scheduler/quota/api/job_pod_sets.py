"""The pod sets of jobs: the parts of a job's spec and annotations that its Workload takes over.

pkg/controller/jobs/job/job_controller.go PodSets, pkg/controller/jobframework/tas.go, jobframework/utils.go
SanitizePodSets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest
from zonewise_scheduler.quota.api.slice_layers import MAX_SLICE_LAYERS, parse_slice_layers
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.quota.api.pod_set_manifest import Json

MAX_PODS = 1 << 26
"""More than any cluster has; a larger number counts as a mistake."""
_MAX_DIGITS = 12
"""Maximum number of digits of a number of pods, including leading zeros."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label with the name of a job's LocalQueue."""

MIN_PARALLELISM_ANNOTATION = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation with the number of pods with which a Job may start (partial admission)."""

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label of the pods of an Indexed Job (k8s.io/api batch/v1 JobCompletionIndexAnnotation)."""

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
"""Label of the pods of a Job with its UID (k8s.io/api batch/v1 ControllerUidLabel)."""

JOB_CONTROLLER_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/job-name", CONTROLLER_UID)
"""Labels that the API server adds to the template of each Job (pkg/registry/batch/job/strategy.go generateSelector)."""

REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED_ANNOTATION = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_TOPOLOGY = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
SLICE_CONSTRAINTS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
POD_SET_GROUP = "kueue.x-k8s.io/podset-group-name"
"""Annotations of pod templates that form a topology request (pkg/controller/jobframework/tas.go)."""

_KEPT_CONTROLLER_LABEL = "batch.kubernetes.io/job-name"
BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""The values that strconv.ParseBool accepts."""


class PodIndexes(NamedTuple):
    """Labels that number the pods of a pod set, so that adjacent ranks are placed next to each other."""

    pod_index_label: str = ""
    sub_group_index_label: str = ""
    """Label that numbers groups of pods, for example the jobs of a replicated job."""
    sub_group_count: int | None = None


NO_INDEXES = PodIndexes()


def read_job_pod_set(job: FieldReader, *, has_started: bool = False) -> PodSetManifest:
    """Return the only pod set of a batch/v1 Job; its pods are the parallelism, or the completions if fewer.

    A Job that has started may run fewer pods than its minimum: those whose completions are left (ReclaimablePods).
    Problems are added to the reader's list.
    """
    annotations = job.child("metadata").pairs("annotations")
    spec = job.child("spec")
    indexed = spec.text("completionMode") == "Indexed"
    pod_set = read_pod_set(
        DEFAULT_POD_SET,
        pods_at_a_time(spec),
        spec.child("template"),
        PodIndexes(COMPLETION_INDEX) if indexed else NO_INDEXES,
    )
    min_count = read_count_annotation(annotations, MIN_PARALLELISM_ANNOTATION, "metadata.", job.problems)
    if min_count is not None and min_count > pod_set.pods and not has_started:
        field = f"metadata.annotations.{MIN_PARALLELISM_ANNOTATION}"
        job.problems.append(f"{field}: more than the {pod_set.pods} pods of the job: {min_count}")
    return pod_set if min_count is None else pod_set._replace(min_count=min_count)


def read_pod_set(name: str, pods: int, template: FieldReader, indexes: PodIndexes = NO_INDEXES) -> PodSetManifest:
    """Return the pod set of a template, without the fields that the Job controller and the API server add."""
    return PodSetManifest(name, pods, _submitted_template(template), None, _topology_request(template, indexes))


def pods_at_a_time(spec: FieldReader) -> int:
    """Return the number of pods that a Job spec runs at a time."""
    pods = spec.int_in_range("parallelism", 1, MAX_PODS, minimum=0)
    return min(pods, spec.int_in_range("completions", 1, MAX_PODS, minimum=0)) if spec.has("completions") else pods


def parse_pod_count(text: str) -> int | None:
    """Return a number of pods from 1 to MAX_PODS; None if the text is not one."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return None
    return int(text) if 1 <= int(text) <= MAX_PODS else None


def read_count_annotation(annotations: Mapping[str, str], name: str, path: str, problems: list[str]) -> int | None:
    """Return the number of pods in an annotation; None if it is absent, or invalid and reported."""
    text = annotations.get(name)
    if text is None:
        return None
    if (count := parse_pod_count(text)) is None:
        problems.append(f"{path}annotations.{name}: not a number from 1 to {MAX_PODS}: {text!r:.80}")
    return count


def _submitted_template(template: FieldReader) -> Json:
    """Return labels, annotations and spec of a template; unchanged parts are shared."""
    metadata, spec = template.child("metadata"), dict(template.child("spec").obj)
    labels = {
        key: value
        for key, value in metadata.pairs("labels").items()
        if key not in JOB_CONTROLLER_LABELS or key == _KEPT_CONTROLLER_LABEL
    }
    kept = {"labels": labels, "annotations": metadata.pairs("annotations")}
    for field in ("containers", "initContainers"):
        if isinstance(containers := spec.get(field), list):
            spec[field] = [_without_duplicate_variables(item) for item in cast("list[object]", containers)]
    return {"metadata": {field: pairs for field, pairs in kept.items() if pairs}, "spec": spec}


def _without_duplicate_variables(container: object) -> object:
    """Return a container with the last definition of each environment variable, since Workloads allow only one."""
    if not isinstance(container, dict) or "env" not in container:
        return cast("object", container)
    fields = cast("Json", container)
    variables: object = fields["env"]
    if not isinstance(variables, list) or not all(isinstance(item, dict) for item in cast("list[object]", variables)):
        return fields
    by_name = {repr(item.get("name")): item for item in cast("list[Json]", variables)}
    unique = [*by_name.values()]
    return fields if unique == variables else {**fields, "env": unique}


def _topology_request(template: FieldReader, indexes: PodIndexes) -> Json | None:
    """Return the topologyRequest that the annotations of a template form; None if they form none."""
    annotations = template.child("metadata").pairs("annotations")
    path, problems = f"{template.path}metadata.", template.problems
    request = _level_request(annotations, path, problems) | _slice_request(annotations, path, problems)
    if POD_SET_GROUP in annotations and ("required" in request or "preferred" in request):
        request["podSetGroupName"] = annotations[POD_SET_GROUP]
    if indexes.pod_index_label:
        request["podIndexLabel"] = indexes.pod_index_label
    if indexes.sub_group_index_label:
        request |= {"subGroupIndexLabel": indexes.sub_group_index_label, "subGroupCount": indexes.sub_group_count}
    return request or None


def _level_request(annotations: Mapping[str, str], path: str, problems: list[str]) -> Json:
    """Return the requested level: the first of required, preferred and unconstrained."""
    for field, name in (("required", REQUIRED_TOPOLOGY), ("preferred", PREFERRED_TOPOLOGY)):
        if name in annotations:
            return {field: annotations[name]}
    text = annotations.get(UNCONSTRAINED_ANNOTATION)
    if text is not None and text not in BOOLS:
        problems.append(f"{path}annotations.{UNCONSTRAINED_ANNOTATION}: neither true nor false: {text!r:.80}")
    return {"unconstrained": BOOLS[text]} if text in BOOLS else {}


def _slice_request(annotations: Mapping[str, str], path: str, problems: list[str]) -> Json:
    if SLICE_CONSTRAINTS in annotations:
        text = annotations[SLICE_CONSTRAINTS]
        layers = parse_slice_layers(text)
        if layers is None:
            problems.append(
                f"{path}annotations.{SLICE_CONSTRAINTS}: not a JSON list of 1 to {MAX_SLICE_LAYERS} objects "
                f"with topology and size: {text!r:.80}"
            )
        return {} if layers is None else {"podsetSliceRequiredTopologyConstraints": layers}
    size = read_count_annotation(annotations, SLICE_SIZE, path, problems)
    if size is None or SLICE_TOPOLOGY not in annotations:
        return {}
    return {"podSetSliceRequiredTopology": annotations[SLICE_TOPOLOGY], "podSetSliceSize": size}
