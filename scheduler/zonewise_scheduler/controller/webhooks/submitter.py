"""The annotation with the user who submitted a job (quota/api/submitted_by.py), which users cannot choose.

| operation | object | annotation |
|---|---|---|
| creation | queued by a user | the name of that user |
| creation | queued by a controller of Kubernetes, such as that of CronJobs | none |
| any | not queued | none |
| update | queued before it | as before it |
| update | queued by it | the name of the user who queues it |

The user is that of the request (k8s.io/api authentication/v1 UserInfo), so an impersonated user counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.jobs.job_fields import annotations_of, queue_name
from zonewise_scheduler.controller.webhooks.replicated_pods import REPLICATED
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest
    from zonewise_scheduler.controller.webhooks.rules import AdmissionRules

MAX_NAME = 1024
"""Maximum number of characters of a recorded name; the user of a longer name is unknown."""
_CONTROLLERS = ("system:kube-", "system:serviceaccount:kube-system:", "system:node:", "system:apiserver")
"""Prefixes of the names of Kubernetes' own components, with and without --use-service-account-credentials."""


def with_submitter(request: AdmissionRequest, obj: Json, rules: AdmissionRules) -> Json:
    """Return an object with the annotation that it is to have; `obj`: the object of the request with its defaults.

    Raises FieldError for invalid metadata.
    """
    if request.group_kind not in rules.suspend_paths and request.group_kind not in REPLICATED:
        return obj
    submitter, annotations = _submitter(request, obj, rules), annotations_of(obj)
    if submitter == annotations.get(SUBMITTED_BY_ANNOTATION, ""):
        return obj
    others = {name: text for name, text in annotations.items() if name != SUBMITTED_BY_ANNOTATION}
    own = {SUBMITTED_BY_ANNOTATION: submitter} if submitter else {}
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**others, **own}}}


def _submitter(request: AdmissionRequest, obj: Json, rules: AdmissionRules) -> str:
    """Return the name of the user who submitted an object; "" if it is not queued, or if the user is unknown."""
    if not _is_queued(obj, rules):
        return ""
    if request.operation == "UPDATE" and _is_queued(request.old, rules):
        return str(annotations_of(request.old).get(SUBMITTED_BY_ANNOTATION, ""))
    is_user = len(request.username) <= MAX_NAME and not request.username.startswith(_CONTROLLERS)
    return request.username if is_user else ""


def _is_queued(obj: Json, rules: AdmissionRules) -> bool:
    return bool(queue_name(obj)) or rules.manages_without_queue_name
