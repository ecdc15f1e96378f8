"""The Workload that is created for a job (pkg/controller/jobframework/reconciler.go ConstructWorkload, utils.go
NewWorkload).

A Workload has no finalizer, because the job's pods hold the quota, and not the object.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_common.k8s.labels import is_label_value
from zonewise_common.kube.resources import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.workload_names import workload_name
from zonewise_scheduler.quota.api.admission_gates import ADMISSION_GATES_ANNOTATION
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION, read_begin
from zonewise_scheduler.quota.api.declared_walltime import (
    MAX_RUN_ANNOTATION,
    read_max_execution_time,
    read_run_walltime,
)
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.job_priority import (
    PRIORITY_CLASS_LABEL,
    JobPriority,
    PriorityClasses,
    read_job_priority,
)
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
FOLLOWED_ANNOTATIONS = (BEGIN_ANNOTATION, ADMISSION_GATES_ANNOTATION, SUBMITTED_BY_ANNOTATION)
"""Annotations that a Workload takes from its job as long as it has no quota."""
PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"
"""Prefix of annotations with parameters for ProvisioningRequests. They are copied to the Workload
(pkg/util/admissioncheck)."""


class ManifestOptions(NamedTuple):
    """What the Workload of a job takes from the job besides its pods."""

    priority_classes: PriorityClasses = PriorityClasses()


def build_workload(job: Json, resource: Resource, pod_sets: Sequence[PodSetManifest], options: ManifestOptions) -> Json:
    """Return the Workload of a job. Raises FieldError for an invalid job or an unknown priority class.

    The Workload declares the walltime of the job. Kueue's label becomes maximumExecutionTimeSeconds. The smallest other
    declaration, such as activeDeadlineSeconds, becomes the annotation `zonewise.dev/max-run-seconds`.
    """
    problems: list[str] = []
    reader = FieldReader(job, "", problems)
    metadata = reader.child("metadata")
    name, uid = metadata.required_name(), metadata.required_name("uid")
    priority = read_job_priority(reader, pod_sets, options.priority_classes)
    walltime, max_execution_time = read_run_walltime(reader, resource.kind), read_max_execution_time(metadata)
    declared = metadata.pairs("annotations")
    annotations = {key: text for key, text in declared.items() if key.startswith(PROVISIONING_PREFIX)}
    if problems:
        field, _, problem = problems[0].partition(": ")
        raise FieldError(field, problem)
    if walltime < inf:
        annotations[MAX_RUN_ANNOTATION] = str(int(walltime))
    annotations |= followed_annotations(declared)
    spec: Json = {
        "podSets": [pod_set.as_object() for pod_set in pod_sets],
        "queueName": metadata.pairs("labels").get(QUEUE_LABEL, ""),
        "priority": priority.value,
        "active": True,
    }
    if priority.reference is not None:
        spec["priorityClassRef"] = priority.reference
    if max_execution_time < inf:
        spec["maximumExecutionTimeSeconds"] = int(max_execution_time)
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": workload_name(resource, name, uid),
            "namespace": metadata.text("namespace"),
            "labels": job_uid_label(uid),
            "annotations": annotations,
            "ownerReferences": [owner_reference(resource, name, uid)],
        },
        "spec": spec,
    }


def declared_changes(job: Json, resource: Resource, workload: Json, options: ManifestOptions) -> Json:
    """Return the merge patch that adapts a Workload to its job; empty if nothing must change.

    Queue, walltime, begin time, admission gates and user change only while the Workload has no quota. The position in
    the queue does not change. Raises FieldError for an invalid job.
    """
    metadata, spec = FieldReader(job, "", []).child("metadata"), FieldReader(workload, "", []).child("spec")
    changes = priority_changes(metadata.pairs("labels").get(PRIORITY_CLASS_LABEL, ""), workload, options)
    if is_true(workload, "QuotaReserved"):
        return {"spec": changes} if changes else {}
    if (queue := metadata.pairs("labels").get(QUEUE_LABEL, "")) != spec.text("queueName"):
        changes["queueName"] = queue
    problems: list[str] = []
    walltime = read_run_walltime(FieldReader(job, "", problems), resource.kind)
    if problems:
        field, _, problem = problems[0].partition(": ")
        raise FieldError(field, problem)
    wanted = {
        MAX_RUN_ANNOTATION: None if walltime == inf else str(int(walltime)),
        **dict.fromkeys(FOLLOWED_ANNOTATIONS),
        **followed_annotations(metadata.pairs("annotations")),
    }
    follow = annotation_changes(wanted, workload)
    return {**follow, "spec": changes} if changes else follow


def followed_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return those of a job's annotations that its Workload takes. Raises FieldError for an invalid begin time."""
    read_begin(annotations)
    return {name: text for name in FOLLOWED_ANNOTATIONS if (text := annotations.get(name))}


def annotation_changes(wanted: Mapping[str, str | None], workload: Json) -> Json:
    """Return the merge patch that sets annotations of a Workload, or removes those that are None; empty if none is."""
    observed = FieldReader(workload, "", []).child("metadata").pairs("annotations")
    changed = {name: value for name, value in wanted.items() if value != observed.get(name)}
    return {"metadata": {"annotations": changed}} if changed else {}


def priority_changes(class_name: str, workload: Json, options: ManifestOptions) -> Json:
    """Return the fields of a Workload's spec for the WorkloadPriorityClass that its job names.

    They are empty if the Workload has the class already, or if the class is unknown. With quota, a class can be
    replaced by another one, but cannot be added: the API server rejects that (apis/kueue/v1beta2 workload_types.go).
    """
    value = options.priority_classes.workload.get(class_name)
    if value is None or not _needs_class(class_name, workload):
        return {}
    priority = JobPriority(WORKLOAD_PRIORITY_CLASSES.group, WORKLOAD_PRIORITY_CLASSES.kind, class_name, value)
    return {"priority": value, "priorityClassRef": priority.reference}


def check_priority_class(class_name: str, workload: Json, options: ManifestOptions) -> None:
    """Raise FieldError if a job now names a class that does not exist. Its Workload keeps its priority.

    Source: pkg/controller/jobframework/reconciler.go UpdateWorkloadPriority.
    """
    if class_name and class_name not in options.priority_classes.workload and _needs_class(class_name, workload):
        problem = f"there is no such class: {class_name!r:.80}; the Workload keeps its priority"
        raise FieldError(f"metadata.labels.{PRIORITY_CLASS_LABEL}", problem)


def _needs_class(class_name: str, workload: Json) -> bool:
    """Return whether a Workload has another class than the one that its job names, and may get this one."""
    reference = FieldReader(workload, "", []).child("spec").child("priorityClassRef")
    has_class = reference.text("kind") == WORKLOAD_PRIORITY_CLASSES.kind
    is_same = has_class and reference.text("name") == class_name
    return not is_same and (has_class or not is_true(workload, "QuotaReserved"))


def is_orphaned(workload: Json) -> bool:
    """Return whether a Workload had a job that was deleted without its dependents (workload_controller.go)."""
    metadata: Json = workload["metadata"]
    labels: Json = metadata.get("labels") or {}
    return (
        bool(labels.get(JOB_UID_LABEL)) and not metadata.get("ownerReferences") and "deletionTimestamp" not in metadata
    )


def job_uid_label(uid: str) -> dict[str, str]:
    """Return the label that names the UID of a Workload's job; empty if the UID is not a valid label value."""
    return {JOB_UID_LABEL: uid} if uid and is_label_value(uid) else {}


def owner_reference(resource: Resource, name: str, uid: str) -> Json:
    """Return the reference to a job as the controller of its Workload, which is deleted together with the job."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
