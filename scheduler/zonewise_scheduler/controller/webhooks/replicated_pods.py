"""Webhooks for Deployments and StatefulSets of a queue: each of their pods is queued as a plain pod.

Source: pkg/controller/jobs/deployment/deployment_webhook.go, pkg/controller/jobs/statefulset/statefulset_webhook.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.controller.webhooks.field_checks import check_object_name, label_field
from zonewise_scheduler.controller.webhooks.queued_templates import QUEUE_LABELS, mark_template, queue_changes
from zonewise_scheduler.controller.webhooks.rules import labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest

REPLICATED = frozenset({("apps", "Deployment"), ("apps", "StatefulSet")})
"""Groups and kinds of objects that create equal pods."""


def with_queued_pods(obj: Json) -> Json:
    """Return an object whose pods get its queue and priority class. Raises FieldError."""
    queued = copy.deepcopy(obj)
    mark_template(obj, object_in(queued, "spec", ""), "spec.", "template", {})
    return queued


def replicated_pods_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield the problems of the labels of a new or updated object. Raises FieldError."""
    labels = labels_of(request.obj)
    for name in QUEUE_LABELS:
        if labels.get(name):
            yield from check_object_name(label_field(name), labels[name])
    if request.operation == "UPDATE":
        yield from queue_changes(request.old, request.obj)
