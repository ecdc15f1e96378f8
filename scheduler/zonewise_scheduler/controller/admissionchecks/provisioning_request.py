"""ProvisioningRequests and their PodTemplates: names, objects and conditions
(pkg/controller/admissionchecks/provisioning/provisioning.go).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from zonewise_common.kube.resources import WORKLOADS, Resource
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.workloads.manifest import PROVISIONING_PREFIX, owner_reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig
    from zonewise_scheduler.controller.admissionchecks.provisioning_pod_sets import RequestedPods
    from zonewise_scheduler.controller.types import Json

PROVISIONING_REQUESTS = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", namespaced=True
)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", namespaced=True)
REQUEST_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_ANNOTATION = "autoscaling.x-k8s.io/provisioning-class-name"

_LABELS = {"kueue.x-k8s.io/managed": "true"}
_MAX_PREFIX = 247
_HASH_LENGTH = 5
_MAX_ATTEMPTS = 100
"""Highest attempt for which a shortened name is compared, since the attempt cannot be read from such a name."""
_ATTEMPT = re.compile(r"-([1-9][0-9]{0,8})\Z", re.ASCII)


def request_name(workload: str, check: str, attempt: int) -> str:
    """Return the name of a Workload's request for a check; `attempt`: counted from 1."""
    return _limited(f"{workload}-{check}-{attempt}")


def attempt_of(name: str, workload: str, check: str) -> int:
    """Return which attempt a request is; 0: it does not belong to this check."""
    match = _ATTEMPT.search(name)
    if match is not None and request_name(workload, check, int(match[1])) == name:
        return int(match[1])
    if len(name) <= _MAX_PREFIX:
        return 0
    attempts = range(1, _MAX_ATTEMPTS + 1)  # the digits, if any, belong to the hash
    return next((attempt for attempt in attempts if request_name(workload, check, attempt) == name), 0)


def template_name(request: str, pod_set: str) -> str:
    """Return the name of a PodTemplate for a request."""
    return _limited(f"ppt-{request}-{pod_set}")


def build_request(workload: Json, name: str, config: ProvisioningConfig, pods: Sequence[RequestedPods]) -> Json:
    """Return a ProvisioningRequest."""
    pod_sets = [{"podTemplateRef": {"name": template_name(name, item.names[0])}, "count": item.pods} for item in pods]
    return {
        "apiVersion": PROVISIONING_REQUESTS.api_version,
        "kind": PROVISIONING_REQUESTS.kind,
        "metadata": _metadata(workload, name),
        "spec": {
            "provisioningClassName": config.provisioning_class,
            "parameters": _parameters(workload, config),
            "podSets": pod_sets,
        },
    }


def build_pod_template(workload: Json, name: str, template: Json) -> Json:
    """Return a PodTemplate. The Workload owns it until its request exists."""
    return {
        "apiVersion": POD_TEMPLATES.api_version,
        "kind": POD_TEMPLATES.kind,
        "metadata": _metadata(workload, name),
        "template": template,
    }


def owned_by(resource: Resource, name: str, uid: str) -> Json:
    """Return a reference to the controller that owns an object. It does not block the deletion of the owner.

    So no permission for the owner's finalizers is needed (plugin/pkg/admission/gc/gc_admission.go).
    """
    reference = owner_reference(resource, name, uid)
    return {field: value for field, value in reference.items() if field != "blockOwnerDeletion"}


def follows_config(request: Json, workload: Json, config: ProvisioningConfig) -> bool:
    """Return whether a request has the class of the current configuration, and a value for each of its parameters."""
    spec: Json = request.get("spec") or {}
    parameters: Json = spec.get("parameters") or {}
    required = _parameters(workload, config)
    return spec.get("provisioningClassName") == config.provisioning_class and all(
        parameters.get(key) == required[key] for key in config.parameters
    )


def _parameters(workload: Json, config: ProvisioningConfig) -> dict[str, str]:
    """Return the parameters of a request. Annotations of the Workload take precedence over the configuration."""
    annotations: Mapping[str, str] = workload["metadata"].get("annotations") or {}
    own = {
        key.removeprefix(PROVISIONING_PREFIX): value
        for key, value in annotations.items()
        if key.startswith(PROVISIONING_PREFIX)
    }
    return {**config.parameters, **own}


def _metadata(workload: Json, name: str) -> Json:
    metadata: Json = workload["metadata"]
    owner = owned_by(WORKLOADS, metadata["name"], uid_of(workload))
    return {"name": name, "namespace": metadata["namespace"], "labels": _LABELS, "ownerReferences": [owner]}


def _limited(name: str) -> str:
    if len(name) <= _MAX_PREFIX:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_MAX_PREFIX]}-{digest[:_HASH_LENGTH]}"
