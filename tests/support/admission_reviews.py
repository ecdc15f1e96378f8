"""AdmissionReviews as the API server sends them, and the effect of a webhook's response on the object."""

from __future__ import annotations

import base64
import copy
import json
from typing import TYPE_CHECKING, Any

from zonewise_common.service.handlers import Request
from zonewise_sandbox.apiserver.patches.json_patch import json_patch
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.webhooks.handler import DEFAULT_PATH, VALIDATE_PATH, WebhookHandler
from zonewise_scheduler.controller.webhooks.rules import AdmissionRules, pod_sets_reader, suspend_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter

Json = dict[str, Any]

QUEUE = "kueue.x-k8s.io/queue-name"


def rules(
    *,
    default_queue: bool = False,
    default_class: bool = False,
    without_name: bool = False,
    configured: Iterable[JobAdapter] = (),
    jobs: Mapping[str, Json] | None = None,
    workloads: Mapping[str, Json] | None = None,
) -> AdmissionRules:
    """Return the admission rules of a cluster; the namespace team-a has a default queue if `default_queue` is true.

    `default_class`: whether there is a default WorkloadPriorityClass. `jobs`: the observed jobs by UID.
    `workloads`: the observed Workloads by namespace and name.
    """
    has_default: Callable[[str], bool] = lambda namespace: default_queue and namespace == "team-a"  # noqa: E731
    is_managed: Callable[[str], bool] = lambda namespace: namespace != "unmanaged"  # noqa: E731
    adapters = adapters_by_kind(configured)
    return AdmissionRules(
        suspend_paths(adapters),
        has_default,
        lambda: default_class,
        pod_sets_reader(adapters),
        (jobs or {}).get,
        (workloads or {}).get,
        is_managed,
        without_name,
    )


def review(obj: Json, old: Json | None = None, operation: str = "", user: str = "") -> Json:
    """Return the AdmissionReview for a creation, or for an update if `old` is given; `user`: the name of its user."""
    group, _, _ = obj["apiVersion"].rpartition("/")
    request: Json = {
        "uid": "u-1",
        "kind": {"group": group, "version": "v1", "kind": obj["kind"]},
        "namespace": "team-a",
        "operation": operation or ("UPDATE" if old else "CREATE"),
        "object": obj,
        "oldObject": old,
        "userInfo": {"username": user},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def response_of(path: str, document: Json, facts: AdmissionRules) -> Json:
    """Return a handler's response to an AdmissionReview."""
    answer = WebhookHandler(facts).handle(Request("POST", path, body=json.dumps(document).encode()))
    assert answer.status == 200, answer.body
    made = json.loads(answer.body)
    assert made["apiVersion"] == "admission.k8s.io/v1"
    assert made["response"]["uid"] == "u-1"
    return made["response"]


def defaulted(obj: Json, facts: AdmissionRules, old: Json | None = None, user: str = "") -> Json:
    """Return the object as the mutating webhook changes it; `old`, `user`: as for review()."""
    response = response_of(DEFAULT_PATH, review(obj, old, user=user), facts)
    assert response["allowed"]
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    return json_patch(copy.deepcopy(obj), json.loads(base64.b64decode(response["patch"])))


def problems_of(obj: Json, old: Json | None = None, facts: AdmissionRules | None = None) -> str:
    """Return the validating webhook's reason for rejecting an object; "" if it admits the object."""
    response = response_of(VALIDATE_PATH, review(obj, old), facts or rules())
    if response["allowed"]:
        return ""
    assert response["status"]["code"] == 422
    return response["status"]["message"]


def job(
    queue: str = "",
    annotations: Json | None = None,
    labels: Json | None = None,
    template: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a batch/v1 Job; `template`: the annotations of its pod template."""
    named = {QUEUE: queue} if queue else {}
    pods = {"metadata": {"annotations": template or {}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {**named, **(labels or {})}, "annotations": annotations or {}},
        "spec": {"parallelism": 4, "template": pods, **spec},
    }


def pod(queue: str = "q", annotations: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    named = {QUEUE: queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "labels": {**named, **(labels or {})}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
    }


def owned_by(obj: Json, api_version: str, kind: str, *, controller: bool = True) -> Json:
    """Return a copy of the object with an owner reference."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "u-2", "controller": controller}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}
