"""The pod templates of an object within an AppWrapper (appwrapper pkg/utils/utils.go InferPodSets, GetPodTemplateSpec).

Their order and number must match the AppWrapper operator's, because it applies the additions of a start in that order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import JOB_SETS
from zonewise_scheduler.controller.jobs.jobset import JobSetAdapter
from zonewise_scheduler.controller.jobs.kubeflow import PYTORCH_JOB
from zonewise_scheduler.controller.jobs.ray_templates import ray_cluster_templates
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, MAX_PODS, NO_INDEXES, PodIndexes, pods_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise_scheduler.controller.jobs.template_paths import FieldPath

INDEX_LABEL = "workload.codeflare.dev.appwrapper/tas-pod-index-label"
SUB_GROUP_INDEX_LABEL = "workload.codeflare.dev.appwrapper/tas-sub-group-index-label"
SUB_GROUP_COUNT = "workload.codeflare.dev.appwrapper/tas-sub-group-count"
"""The three annotations that describe how the pods of a declared pod set are indexed."""

_PATH = re.compile(r"template((?:\.[^.\[\]]+|\[\d{1,6}\])*)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def inferred_templates(obj: FieldReader) -> Iterable[JobTemplate]:
    """Return the templates of an object of a known kind; none for any other kind."""
    infer = _KINDS.get((obj.text("apiVersion"), obj.text("kind")))
    return () if infer is None else infer(obj)


def declared_template(component: FieldReader, pod_set: FieldReader) -> JobTemplate | None:
    """Return the template to which a component's `podSets` entry refers; None: the path is reported as invalid."""
    path = _parse_path(pod_set.text("path"))
    template = None if path is None else _reader_at(component, path)
    if path is None or template is None:
        pod_set.report("path", "not the path of a pod template, such as template.spec.workers[0].template")
        return None
    pairs = pod_set.pairs("annotations")
    count = pairs.get(SUB_GROUP_COUNT, "")
    indexes = PodIndexes(
        pairs.get(INDEX_LABEL, ""),
        pairs.get(SUB_GROUP_INDEX_LABEL, ""),
        int(count) if count.isdecimal() and count.isascii() else None,
    )
    return JobTemplate("", _replicas(pod_set), template, path, indexes)


def _parse_path(text: str) -> FieldPath | None:
    match = _PATH.fullmatch(text)
    if match is None:
        return None
    return ("template", *(int(index) if index else name for name, index in _STEP.findall(match[1])))


def _reader_at(owner: FieldReader, path: FieldPath) -> FieldReader | None:
    """Return a reader of the object at a path; None if there is none."""
    value: object = owner.obj
    for step in path:
        if isinstance(step, int):
            items = cast("list[object]", value) if isinstance(value, list) else []
            value = items[step] if step < len(items) else None
        else:
            value = cast("dict[str, object]", value).get(step) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return None
    return FieldReader(cast("dict[str, object]", value), f"{owner.path}{'.'.join(map(str, path))}.", owner.problems)


def _replicas(reader: FieldReader) -> int:
    return reader.int_in_range("replicas", 1, MAX_PODS, minimum=0)


def _pod(obj: FieldReader) -> Iterable[JobTemplate]:
    yield JobTemplate("", 1, obj, ())


def _replica_set(obj: FieldReader) -> Iterable[JobTemplate]:
    spec = obj.child("spec")
    yield JobTemplate("", _replicas(spec), spec.child("template"), ("spec", "template"))


def _job(obj: FieldReader) -> Iterable[JobTemplate]:
    spec = obj.child("spec")
    indexes = PodIndexes(COMPLETION_INDEX) if spec.text("completionMode") == "Indexed" else NO_INDEXES
    yield JobTemplate("", pods_at_a_time(spec), spec.child("template"), ("spec", "template"), indexes)


def _ray_cluster(obj: FieldReader) -> Iterable[JobTemplate]:
    return ray_cluster_templates(obj.child("spec"), ("spec",))


def _ray_job(obj: FieldReader) -> Iterable[JobTemplate]:
    return ray_cluster_templates(obj.child("spec").child("rayClusterSpec"), ("spec", "rayClusterSpec"))


_KINDS: dict[tuple[str, str], Callable[[FieldReader], Iterable[JobTemplate]]] = {
    ("v1", "Pod"): _pod,
    ("apps/v1", "Deployment"): _replica_set,
    ("apps/v1", "StatefulSet"): _replica_set,
    ("batch/v1", "Job"): _job,
    (JOB_SETS.api_version, JOB_SETS.kind): JobSetAdapter(JOB_SETS).templates,
    (PYTORCH_JOB.resource.api_version, PYTORCH_JOB.resource.kind): PYTORCH_JOB.templates,
    ("ray.io/v1", "RayCluster"): _ray_cluster,
    ("ray.io/v1", "RayJob"): _ray_job,
}
