"""Webhooks for Deployments and StatefulSets of a queue: their pods get its label, and a StatefulSet keeps its size.

Source: pkg/controller/jobs/deployment/deployment_webhook.go, pkg/controller/jobs/statefulset/statefulset_webhook.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.controller.jobs.job_fields import annotations_of, labels_of, queue_name
from zonewise_scheduler.controller.pods.pod_names import PARENT_ANNOTATION, STATEFUL_SET_PARENT
from zonewise_scheduler.controller.pods.role_hash import role_hash
from zonewise_scheduler.controller.webhooks.field_checks import (
    check_admission_gates,
    check_begin,
    check_object_name,
    label_field,
    problem,
)
from zonewise_scheduler.controller.webhooks.queued_templates import QUEUE_LABELS, mark_template, queue_changes
from zonewise_scheduler.controller.workloads.manifest import FOLLOWED_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest

_STATEFUL_SET = ("apps", "StatefulSet")
REPLICATED = frozenset({("apps", "Deployment"), _STATEFUL_SET})
"""Groups and kinds of objects that create equal pods."""


def with_queued_pods(obj: Json, kind: tuple[str, str]) -> Json:
    """Return an object whose pods get its queue and priority class; `kind`: its API group and kind.

    The pods of a StatefulSet form one job, as their annotation shows. Raises FieldError.
    """
    queued = copy.deepcopy(obj)
    annotations = {PARENT_ANNOTATION: STATEFUL_SET_PARENT} if kind == _STATEFUL_SET else {}
    mark_template(obj, object_in(queued, "spec", ""), "spec.", "template", annotations)
    return queued


def replicated_pods_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield the problems of the labels and annotations of a new or updated object. Raises FieldError."""
    labels = labels_of(request.obj)
    yield from _annotation_problems(request)
    for name in QUEUE_LABELS:
        if labels.get(name):
            yield from check_object_name(label_field(name), labels[name])
    if request.operation == "UPDATE":
        yield from queue_changes(request.old, request.obj)
        if request.group_kind == _STATEFUL_SET and queue_name(request.old):
            yield from _set_changes(request.old, request.obj)


def _annotation_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield the problems of a changed begin time or admission gate. An update may keep what is stored."""
    annotations, old = annotations_of(request.obj), annotations_of(request.old)
    if any(annotations.get(name) != old.get(name) for name in FOLLOWED_ANNOTATIONS):
        yield from check_begin(annotations)
        yield from check_admission_gates(annotations, old if request.operation == "UPDATE" else None)


def _set_changes(old: Json, new: Json) -> Iterator[str]:
    """Yield why a StatefulSet cannot change so. Its pods are admitted once, until it is scaled to 0."""
    specs = [object_in(obj, "spec", "") for obj in (old, new)]
    before, now = (spec.get("replicas", 1) for spec in specs)
    if now == 0:
        return
    if before == 0:
        if object_in(old, "status", "").get("replicas"):
            yield problem("spec.replicas", now, "cannot replace 0 until the last pods have ended")
        return
    if before != now:
        yield problem("spec.replicas", now, f"cannot replace {before!r:.80}: scale to 0 first, or use a Deployment")
    roles = [role_hash(object_in(object_in(spec, "template", "spec."), "spec", "spec.template.")) for spec in specs]
    if roles[0] != roles[1]:
        yield "spec.template: its requests and constraints are admitted once, and cannot change: scale to 0 first"
