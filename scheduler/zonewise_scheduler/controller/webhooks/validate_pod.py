"""Validation of queued plain pods and of their groups (pkg/controller/jobs/pod/pod_webhook.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.jobs.job_fields import annotations_of, labels_of
from zonewise_scheduler.controller.pods.pod_names import GROUP_NAME_LABEL, GROUP_TOTAL_ANNOTATION, MANAGED_LABEL
from zonewise_scheduler.controller.webhooks.field_checks import (
    annotation_field,
    check_admission_gates,
    check_begin,
    check_object_name,
    check_walltime,
    label_field,
    problem,
    whole_number,
)
from zonewise_scheduler.controller.webhooks.topology_requests import check_topology_request
from zonewise_scheduler.controller.workloads.prebuilt import PREBUILT_WORKLOAD, prebuilt_workload_name
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest


def pod_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield the problems of a new pod. Raises FieldError.

    The ValidatingAdmissionPolicy checks updates, so that no webhook comes between a kubelet and its pods.
    """
    labels, annotations = labels_of(request.obj), annotations_of(request.obj)
    if labels.get(QUEUE_LABEL):
        yield from check_object_name(label_field(QUEUE_LABEL), labels[QUEUE_LABEL])
    if labels.get(MANAGED_LABEL, "true") != "true":
        yield problem(label_field(MANAGED_LABEL), labels[MANAGED_LABEL], "can only be true: remove it")
    group = labels.get(GROUP_NAME_LABEL) or annotations.get(GROUP_NAME_LABEL)
    total = annotations.get(GROUP_TOTAL_ANNOTATION)
    if group:
        yield from check_object_name(label_field(GROUP_NAME_LABEL), group)
    if bool(group) != (total is not None):
        name, field = label_field(GROUP_NAME_LABEL), annotation_field(GROUP_TOTAL_ANNOTATION)
        yield f"{name} and {field} must be set together: set both, or neither for a single pod"
    if total is not None and not whole_number(total):
        yield problem(annotation_field(GROUP_TOTAL_ANNOTATION), total, "must be the number of pods of the group")
    if (prebuilt := prebuilt_workload_name(request.obj)) and prebuilt != group:
        advice = "must be the name of its group" if group else "is only possible for jobs and pod groups: remove it"
        yield problem(annotation_field(PREBUILT_WORKLOAD), prebuilt, advice)
    yield from check_begin(annotations)
    yield from check_walltime(labels, annotations)
    yield from check_admission_gates(annotations, None)
    yield from check_topology_request(annotations, "metadata.")
