"""The embedded and the real API server, for tests whose claims hold for both.

A test file imports the fixtures it needs and names them in `__all__`:

    from support.apiserver import real_server
    from support.clusters import Cluster, cluster

    __all__ = ["cluster", "real_server"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.api import Api, Json
from support.waiting import eventually
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.apiserver import RealServer

GROUP = "contract.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_STRING: Json = {"type": "string"}
_ITEM: Json = {"type": "object", "required": ["k"], "properties": {"k": _STRING, "v": _STRING}}
_SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
        "keyed": {
            "type": "array",
            "maxItems": 5,
            "items": _ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        "set": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "atomic": {"type": "array", "items": _ITEM},
        "map": {"type": "object", "additionalProperties": _STRING},
        "none": {"type": "string", "nullable": True},
        "time": {"type": "string", "format": "date-time"},
    },
}
_STATUS: Json = {"type": "object", "properties": {"count": {"type": "integer"}}}


def kind_of(plural: str) -> str:
    """Return the kind for a plural, which may be a random name with or without a final "s"."""
    return plural.capitalize().rstrip("s")


def definition(plural: str = "widgets", *, namespaced: bool = True, status: bool = True) -> Json:
    """Return a CustomResourceDefinition with a field of every sort."""
    properties: Json = {"spec": _SPEC, "status": _STATUS}
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}} if status else {},
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": properties}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"plural": plural, "kind": kind_of(plural)}
    spec = {"group": GROUP, "scope": "Namespaced" if namespaced else "Cluster", "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.{GROUP}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


class Cluster:
    """A server, and a namespace on it for one test."""

    def __init__(self, api: Api, *, real: bool) -> None:
        self.api = api
        self.real = real
        made = api.post("/api/v1/namespaces", {"metadata": {"generateName": "contract-"}})
        self.namespace: str = made.ok()["metadata"]["name"]
        self.core = f"/api/v1/namespaces/{self.namespace}"
        self.config_maps = f"{self.core}/configmaps"
        self.pods = f"{self.core}/pods"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        self.jobs = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        self.widgets = f"/apis/{GROUP}/v1/namespaces/{self.namespace}/widgets"

    def define(self, plural: str = "widgets", **options: bool) -> str:
        """Define a custom resource; return the path of its collection, in the test's namespace if it is namespaced."""
        made = self.api.post(DEFINITIONS, definition(plural, **options))
        assert made.status in {201, 409}, made.body
        eventually(lambda: self.api.serves(GROUP, "v1", plural))
        place = f"namespaces/{self.namespace}/" if options.get("namespaced", True) else ""
        return f"/apis/{GROUP}/v1/{place}{plural}"

    def wait_for_cache(self) -> None:
        """Wait until the server's cache, which may lag, has everything written so far."""
        version = self.api.get(self.config_maps).ok()["metadata"]["resourceVersion"]
        self.api.get(self.config_maps, resourceVersion=version, resourceVersionMatch="NotOlderThan").ok()


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[ApiServer]:
    """Yield an embedded server for the whole session."""
    with ApiServer() as server:
        yield server


@pytest.fixture(params=["embedded", "real"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Run each test once on each of the two servers."""
    if request.param == "real":
        server: RealServer = request.getfixturevalue("real_server")
        return Cluster(server.admin, real=True)
    return Cluster(Api(request.getfixturevalue("embedded_server").url), real=False)


def config_map(name: str, _labels: dict[str, str] | None = None, **data: str) -> Json:
    metadata: Json = {"name": name, "labels": _labels} if _labels else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "registry.example.com/main:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def widget(_name: str, _kind: str = "Widget", **spec: Any) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": _kind, "metadata": {"name": _name}, "spec": {"size": 1, **spec}}


def version_of(obj: Json) -> int:
    """Return the resourceVersion as a number. Only tests may treat it as one."""
    return int(obj["metadata"]["resourceVersion"])


def causes_of(refusal: Json) -> set[tuple[str, str]]:
    """Return the field and the reason of each cause of an error."""
    return {(cause["field"], cause["reason"]) for cause in refusal["details"]["causes"]}


def owners(obj: Json) -> dict[str, Json]:
    """Return the FieldsV1 of each manager, by "name", or by "name/status" if it wrote to the subresource."""
    return {
        "/".join(filter(None, (entry["manager"], entry.get("subresource")))): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
    }
