"""A cluster autoscaler played by a test: the kind ProvisioningRequest, and the status that the autoscaler writes.

The kind has the public schema of autoscaler's cluster-autoscaler/apis/provisioningrequest (autoscaling.x-k8s.io/v1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.api import MERGE
from support.definitions import definition_of
from support.live_cluster import KUEUE, NAMESPACE
from support.waiting import eventually
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import PROVISIONING_REQUEST_CONTROLLER

if TYPE_CHECKING:
    from support.live_cluster import LiveCluster

Json = dict[str, Any]

GROUP = "autoscaling.x-k8s.io"
REQUESTS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/provisioningrequests"
POD_TEMPLATES = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"

_TEXT: Json = {"type": "string"}
_CONDITION: Json = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        **dict.fromkeys(("message", "reason", "type"), _TEXT),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    },
}
_POD_SET: Json = {
    "type": "object",
    "required": ["count", "podTemplateRef"],
    "properties": {
        "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 16384},
        "podTemplateRef": {"type": "object", "required": ["name"], "properties": {"name": _TEXT}},
    },
}
_SPEC: Json = {
    "type": "object",
    "required": ["podSets", "provisioningClassName"],
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "the spec cannot be changed"}],
    "properties": {
        "provisioningClassName": {**_TEXT, "maxLength": 253},
        "parameters": {"type": "object", "maxProperties": 100, "additionalProperties": {**_TEXT, "maxLength": 255}},
        "podSets": {"type": "array", "minItems": 1, "maxItems": 32, "items": _POD_SET},
    },
}
_STATUS: Json = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
        "provisioningClassDetails": {"type": "object", "maxProperties": 64, "additionalProperties": _TEXT},
    },
}
CRD = definition_of(
    f"provisioningrequests.{GROUP}",
    "ProvisioningRequest",
    "v1",
    {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": _SPEC,
            "status": _STATUS,
        },
    },
    status=True,
)


class Autoscaler:
    """The ProvisioningRequests of a cluster, and a queue that requires them."""

    def __init__(self, cluster: LiveCluster) -> None:
        """Define the kind unless it is served already."""
        self._cluster = cluster
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        if cluster.api.get(f"{path}/{CRD['metadata']['name']}").status == 404:
            cluster.api.post(path, CRD).ok()
        eventually(lambda: cluster.api.get(REQUESTS).status == 200)

    def add_check(self, queue: str = "queue", **config: Any) -> None:
        """Add the check `capacity` with its configuration, and make a ClusterQueue require it."""
        spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", **config}
        self._cluster.create("provisioningrequestconfigs", "ProvisioningRequestConfig", "capacity", spec)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "capacity"}
        spec = {"controllerName": PROVISIONING_REQUEST_CONTROLLER, "parameters": parameters}
        self._cluster.create("admissionchecks", "AdmissionCheck", "capacity", spec)
        rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": "capacity"}]}}
        self._cluster.api.patch(f"{KUEUE}/clusterqueues/{queue}", {"spec": rules}).ok()

    def requests(self) -> list[Json]:
        return self._cluster.api.get(REQUESTS).ok()["items"]

    def pod_templates(self) -> list[Json]:
        return self._cluster.api.get(POD_TEMPLATES).ok()["items"]

    def request(self, attempt: int = 1) -> Json:
        """Return the request of this attempt once the request and its PodTemplates exist."""

        def is_complete() -> bool:
            names = [entry["metadata"]["name"] for entry in self.requests()]
            owners = [entry["metadata"]["ownerReferences"][0]["kind"] for entry in self.pod_templates()]
            return len(names) == 1 and names[0].endswith(f"-{attempt}") and {*owners} == {"ProvisioningRequest"}

        eventually(is_complete)
        (request,) = self.requests()
        return request

    def answer(self, request: Json, *conditions: str, **status: Any) -> None:
        """Set conditions of a request."""
        entries = [
            {"type": item, "status": "True", "reason": item, "message": f"{item} message",
             "lastTransitionTime": request["metadata"]["creationTimestamp"]}
            for item in conditions
        ]  # fmt: skip
        path = f"{REQUESTS}/{request['metadata']['name']}/status"
        self._cluster.api.patch(path, {"status": {"conditions": entries, **status}}, MERGE).ok()
