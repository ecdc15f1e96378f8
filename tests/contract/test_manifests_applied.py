"""On a real API server: every overlay is accepted unchanged, and the CRD stores and shows what the agent publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.apiserver import RealServer, real_server
from support.machines import ALL
from support.manifests import apply, objects, overlays, prometheus_kinds, rendered
from zonewise.objects.nrt import machine_to_nrt

if TYPE_CHECKING:
    from support.api import Api

__all__ = ["real_server"]

TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture(scope="module")
def admin(real_server: RealServer) -> Api:
    """Return the administrator of a server with the default overlay applied."""
    apply(real_server, rendered(".") + prometheus_kinds())
    return real_server.admin


@pytest.mark.parametrize("overlay", [*overlays(), *overlays("scheduler")])
def test_a_server_accepts_each_overlay(admin: Api, real_server: RealServer, overlay: str) -> None:
    """Server-side apply with strict validation accepts every object: no unknown fields, invalid values or warnings."""
    said = apply(real_server, rendered(overlay), "--dry-run=server")
    assert len(said.splitlines()) == len(objects(overlay))


def test_a_second_apply_changes_nothing(admin: Api, real_server: RealServer) -> None:
    before = versions(admin)
    apply(real_server, rendered("."))
    assert versions(admin) == before


def versions(admin: Api) -> dict[str, str]:
    paths = {
        "DaemonSet": "/apis/apps/v1/namespaces/zonewise/daemonsets/zonewise-agent",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles/zonewise-agent",
        "Service": "/api/v1/namespaces/zonewise/services/zonewise-agent",
        "Policy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/zonewise-agent-own-node",
    }
    return {kind: admin.get(path).ok()["metadata"]["resourceVersion"] for kind, path in paths.items()}


@pytest.mark.parametrize("name", ALL)
def test_no_field_is_dropped(admin: Api, name: str) -> None:
    """The API server returns a published object unchanged: the CRD has every field, and the order is the same."""
    node = f"{name.replace('_', '-')}-kept"
    made = machine_to_nrt(ALL[name](), node)
    kept = admin.apply(f"{TOPOLOGIES}/{node}", made, "test", fieldValidation="Strict").ok()
    assert without_metadata(kept) == without_metadata(made)


def without_metadata(made: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in made.items() if key != "metadata"}


def test_the_columns(admin: Api) -> None:
    """`kubectl get` shows the Topology Manager's policy and scope; `-o wide` shows which pods the report covers."""
    made = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "columns"},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "attributes": [
            {"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001fe53c4dbd2c5f4a0"},
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [],
    }
    admin.apply(f"{TOPOLOGIES}/columns", made, "test").ok()
    newer = admin.get(f"{TOPOLOGIES}/columns", _headers=TABLE).ok()
    assert [column["name"] for column in newer["columnDefinitions"]] == ["Name", "Policy", "Scope", "Pods", "Age"]
    assert newer["rows"][0]["cells"][:4] == ["columns", "single-numa-node", "pod", "pfp0v001fe53c4dbd2c5f4a0"]
    older = admin.get(f"{TOPOLOGIES.replace('alpha2', 'alpha1')}/columns", _headers=TABLE).ok()
    assert older["rows"][0]["cells"][:2] == ["columns", "SingleNUMANodePodLevel"]
