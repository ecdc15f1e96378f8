"""Webhooks for Deployments and StatefulSets of a queue: each of their pods is queued as a plain pod.

Source: pkg/controller/jobs/deployment/deployment_webhook.go, pkg/controller/jobs/statefulset/statefulset_webhook.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.controller.webhooks.field_checks import check_object_name, label_field, problem
from zonewise_scheduler.controller.webhooks.rules import labels_of, queue_name
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest

REPLICATED = frozenset({("apps", "Deployment"), ("apps", "StatefulSet")})
"""Groups and kinds of objects that create equal pods."""

_PATH = "spec.template."


def with_queued_pods(obj: Json) -> Json:
    """Return an object whose pods get its queue and priority class. Raises FieldError."""
    labels = {name: value for name, value in labels_of(obj).items() if name in {QUEUE_LABEL, PRIORITY_CLASS_LABEL}}
    queued = copy.deepcopy(obj)
    template = object_in(object_in(queued, "spec", ""), "template", "spec.")
    metadata = object_in(template, "metadata", _PATH)
    pod_labels = object_in(metadata, "labels", f"{_PATH}metadata.")
    queued["spec"]["template"] = {**template, "metadata": {**metadata, "labels": {**pod_labels, **labels}}}
    return queued


def replicated_pods_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield the problems of the labels of a new or updated object. Raises FieldError."""
    labels = labels_of(request.obj)
    for name in (QUEUE_LABEL, PRIORITY_CLASS_LABEL):
        if labels.get(name):
            yield from check_object_name(label_field(name), labels[name])
    if request.operation == "UPDATE":
        yield from queue_changes(request.old, request.obj)


def queue_changes(old: Json, new: Json) -> Iterator[str]:
    """Yield a problem if the queue of an object changes while its replicas are ready, or is removed.

    Raises FieldError.
    """
    before, now = queue_name(old), queue_name(new)
    is_ready = bool(object_in(old, "status", "").get("readyReplicas"))
    if before and before != now and (is_ready or not now):
        advice = f"cannot replace {before!r:.80} while replicas are ready, or be removed"
        yield problem(label_field(QUEUE_LABEL), now, advice)
