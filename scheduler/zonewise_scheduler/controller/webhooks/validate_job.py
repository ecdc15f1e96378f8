"""Validation of jobs: what a job of a queue may declare, and what may change while it runs.

Source: pkg/controller/jobframework/validation.go, pkg/controller/jobs/job/job_webhook.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError, object_in
from zonewise_scheduler.controller.jobs.batch_job import COMPLETIONS_ANNOTATION
from zonewise_scheduler.controller.jobs.job_fields import annotations_of, labels_of, queue_name
from zonewise_scheduler.controller.jobs.managed_by import check_managed_by
from zonewise_scheduler.controller.webhooks.field_checks import (
    annotation_field,
    check_admission_gates,
    check_annotation_sizes,
    check_begin,
    check_class_remains,
    check_dependency,
    check_object_name,
    check_walltime,
    label_field,
    problem,
    whole_number,
)
from zonewise_scheduler.controller.webhooks.leader_worker_set import leader_worker_set_problems
from zonewise_scheduler.controller.webhooks.rules import (
    BATCH_JOB,
    LEADER_WORKER_SET,
    belongs_to_job,
    is_suspended,
)
from zonewise_scheduler.controller.webhooks.topology_requests import check_pod_sets, check_topology_request
from zonewise_scheduler.controller.workloads.prebuilt import PREBUILT_WORKLOAD, prebuilt_workload_name
from zonewise_scheduler.quota.api.declared_walltime import MAX_EXEC_TIME_LABEL, MAX_RUN_ANNOTATION
from zonewise_scheduler.quota.api.job_pod_sets import (
    BOOLS,
    MIN_PARALLELISM_ANNOTATION,
    PREFERRED_TOPOLOGY,
    QUEUE_LABEL,
    REQUIRED_TOPOLOGY,
)
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL
from zonewise_scheduler.quota.api.workload_slices import ELASTIC_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest
    from zonewise_scheduler.controller.webhooks.rules import AdmissionRules


def job_problems(request: AdmissionRequest, rules: AdmissionRules) -> Iterator[str]:
    """Yield the problems of a new or updated job. Raises FieldError."""
    problems = _declaration_problems(request, rules)
    known = _known_problems(request, rules) if problems else frozenset[str]()
    yield from (problem for problem in problems if problem not in known)
    if request.group_kind == LEADER_WORKER_SET:
        yield from leader_worker_set_problems(request)
    elif request.operation == "UPDATE":
        yield from _update_problems(request, rules)


def pod_templates(obj: Json) -> Iterator[tuple[str, Json]]:
    """Yield the path and value of each pod template in an object. A template has a spec with containers."""
    stack: list[tuple[str, object]] = [("spec.", obj.get("spec"))]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list):
            stack += [(f"{path[:-1]}[{i}].", item) for i, item in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        elif isinstance(value, dict):
            fields: Json = value  # pyright: ignore[reportUnknownVariableType]
            spec = fields.get("spec")
            if isinstance(spec, dict) and "containers" in spec:
                yield path, fields
            else:
                stack += [(f"{path}{name}.", part) for name, part in fields.items()]


def _known_problems(request: AdmissionRequest, rules: AdmissionRules) -> frozenset[str]:
    """Return the problems with which an object was stored. An update may keep them, so a finalizer can be removed."""
    if request.operation != "UPDATE":
        return frozenset()
    try:
        return frozenset(_declaration_problems(request._replace(obj=request.old, old={}), rules))
    except FieldError:
        return frozenset()


def _declaration_problems(request: AdmissionRequest, rules: AdmissionRules) -> list[str]:
    """Return the problems of what a job declares, or else those of its pod sets, which repeat the former.

    The pod sets of a job that is not queued may be of any kind, such as those of a Ray cluster with autoscaling.
    """
    is_queued = queue_name(request.obj) or rules.manages_without_queue_name
    return list(_field_problems(request)) or (list(_pod_set_problems(request, rules)) if is_queued else [])


def _field_problems(request: AdmissionRequest) -> Iterator[str]:
    job, labels, annotations = request.obj, labels_of(request.obj), annotations_of(request.obj)
    for name in (QUEUE_LABEL, PRIORITY_CLASS_LABEL):
        if name in labels and (name == PRIORITY_CLASS_LABEL or labels[name]):
            yield from check_object_name(label_field(name), labels[name])
    if prebuilt := prebuilt_workload_name(job):
        yield from check_object_name(annotation_field(PREBUILT_WORKLOAD), prebuilt)
    yield from check_walltime(labels, annotations)
    yield from check_begin(annotations)
    yield from check_admission_gates(annotations, annotations_of(request.old) if request.old else None)
    yield from check_annotation_sizes(annotations, "metadata.")
    for path, template in pod_templates(job):
        template_annotations = object_in(object_in(template, "metadata", path), "annotations", f"{path}metadata.")
        yield from check_annotation_sizes(template_annotations, f"{path}metadata.")
        yield from check_topology_request(template_annotations, f"{path}metadata.")
    if request.group_kind == BATCH_JOB:
        yield from _batch_job_problems(request)


def _pod_set_problems(request: AdmissionRequest, rules: AdmissionRules) -> Iterator[str]:
    try:
        check_managed_by(request.obj, rules.suspend_paths.get(request.group_kind, ()))
        pod_sets = rules.pod_sets(request.group_kind, request.obj)
    except FieldError as error:
        yield str(error)
    else:
        yield from check_pod_sets(pod_sets)


def _batch_job_problems(request: AdmissionRequest) -> Iterator[str]:
    annotations, spec = annotations_of(request.obj), object_in(request.obj, "spec", "")
    yield from check_dependency(annotations)
    fewest, parallelism = annotations.get(MIN_PARALLELISM_ANNOTATION), _parallelism(request.obj)
    pods = min(parallelism, completions) if type(completions := spec.get("completions")) is int else parallelism
    # a partially admitted job has a smaller parallelism than when it was submitted
    changed = not request.old or fewest != annotations_of(request.old).get(MIN_PARALLELISM_ANNOTATION)
    if fewest is not None and changed and whole_number(fewest) not in range(1, pods):
        field = annotation_field(MIN_PARALLELISM_ANNOTATION)
        advice = f"must be a number from 1 to {pods - 1}, below the number of pods" if pods > 1 else (
            "has no effect on a job with one pod: remove it"
        )  # fmt: skip
        yield problem(field, fewest, advice)
    yield from _elastic_job_problems(request)
    equal = annotations.get(COMPLETIONS_ANNOTATION)
    field = annotation_field(COMPLETIONS_ANNOTATION)
    if equal is not None and equal not in BOOLS:
        yield problem(field, equal, "must be true or false")
    is_equal = equal is not None and BOOLS.get(equal, False)
    if is_equal and spec.get("completionMode") != "Indexed":
        yield problem(field, equal, "needs spec.completionMode Indexed")
    if is_equal and spec.get("completions", 1) != parallelism:
        yield problem(
            "spec.completions", spec.get("completions"), f"must equal spec.parallelism ({parallelism}): {field}"
        )


def _elastic_job_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield what an elastic job may not declare: fewer pods at its start, or a level that holds all pods."""
    annotations = annotations_of(request.obj)
    if annotations.get(ELASTIC_ANNOTATION) != "true":
        return
    if (fewest := annotations.get(MIN_PARALLELISM_ANNOTATION)) is not None:
        field = annotation_field(MIN_PARALLELISM_ANNOTATION)
        yield problem(field, fewest, "an elastic job cannot start with fewer pods: remove one of the annotations")
    for path, template in pod_templates(request.obj):
        declared = object_in(object_in(template, "metadata", path), "annotations", f"{path}metadata.")
        for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
            if name in declared:
                advice = "an elastic job cannot keep its pods together while it grows: remove it"
                yield problem(f"{path}metadata.annotations[{name}]", declared[name], advice)


def _elastic_changes(request: AdmissionRequest) -> Iterator[str]:
    before, now = (annotations_of(obj).get(ELASTIC_ANNOTATION) for obj in (request.old, request.obj))
    if (before == "true") != (now == "true"):
        yield problem(annotation_field(ELASTIC_ANNOTATION), now, "cannot change: create another job")


def _update_problems(request: AdmissionRequest, rules: AdmissionRules) -> Iterator[str]:
    old_queue, queue = queue_name(request.old), queue_name(request.obj)
    path = rules.suspend_paths[request.group_kind]
    was_held, is_held = is_suspended(request.old, path), is_suspended(request.obj, path)
    if queue != old_queue and not is_held:
        yield _frozen(label_field(QUEUE_LABEL), old_queue, queue)
    elif old_queue and not queue and rules.has_default_queue(request.namespace):
        yield problem(label_field(QUEUE_LABEL), queue, "cannot be removed where the namespace has a default queue")
    if rules.manages_without_queue_name and not queue and was_held and not is_held:
        yield from _start_without_queue(request, rules)
    before, now = map(prebuilt_workload_name, (request.old, request.obj))
    if before != now and not is_held:
        yield _frozen(annotation_field(PREBUILT_WORKLOAD), before, now)
    yield from _walltime_changes(request, may_change=was_held and is_held)
    yield from _priority_changes(request, may_add=is_held)
    yield from _elastic_changes(request)
    if request.group_kind == BATCH_JOB and not was_held:
        fewest, before, now = annotations_of(request.old), _parallelism(request.old), _parallelism(request.obj)
        if MIN_PARALLELISM_ANNOTATION in fewest and before != now:
            yield _frozen("spec.parallelism", before, now)


def _start_without_queue(request: AdmissionRequest, rules: AdmissionRules) -> Iterator[str]:
    """Yield a problem if a job without a queue is resumed. A job that belongs to another one starts with it."""
    if not belongs_to_job(request.obj, request.namespace, rules):
        yield f"{label_field(QUEUE_LABEL)}: missing; a job without a queue remains suspended: name a queue"


def _walltime_changes(request: AdmissionRequest, *, may_change: bool) -> Iterator[str]:
    if may_change:
        return
    for field, name, read in (
        (label_field(MAX_EXEC_TIME_LABEL), MAX_EXEC_TIME_LABEL, labels_of),
        (annotation_field(MAX_RUN_ANNOTATION), MAX_RUN_ANNOTATION, annotations_of),
    ):
        before, now = read(request.old).get(name), read(request.obj).get(name)
        if before != now:
            yield _frozen(field, before, now)


def _priority_changes(request: AdmissionRequest, *, may_add: bool) -> Iterator[str]:
    old, new = labels_of(request.old), labels_of(request.obj)
    before, now = old.get(PRIORITY_CLASS_LABEL), new.get(PRIORITY_CLASS_LABEL)
    if now and not before and not may_add:
        yield _frozen(label_field(PRIORITY_CLASS_LABEL), before, now)
    yield from check_class_remains(old, new)


def _frozen(field: str, before: object, now: object) -> str:
    return problem(field, now, f"cannot replace {before!r:.80} while the job is not suspended: suspend it first")


def _parallelism(job: Json) -> int:
    value = object_in(job, "spec", "").get("parallelism", 1)
    return value if type(value) is int else 1
