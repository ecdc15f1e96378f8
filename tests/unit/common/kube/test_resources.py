"""Paths of the API."""

from __future__ import annotations

import pytest

from zonewise_common.kube.resources import LEASES, NODE_RESOURCE_TOPOLOGIES, NODES, PODS


def test_paths() -> None:
    """The core group and named groups, one object and all objects, with and without namespace and subresource."""
    assert NODES.path() == "/api/v1/nodes"
    assert NODES.path("node-1", subresource="status") == "/api/v1/nodes/node-1/status"
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path(namespace="kube-system") == "/api/v1/namespaces/kube-system/pods"
    assert PODS.path("web-0", "default", "binding") == "/api/v1/namespaces/default/pods/web-0/binding"
    assert LEASES.path("a", "b") == "/apis/coordination.k8s.io/v1/namespaces/b/leases/a"
    assert NODE_RESOURCE_TOPOLOGIES.path("n") == "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n"


@pytest.mark.parametrize("name", [".", "..", "../secrets", "a%2e"])
def test_a_name_is_one_path_element(name: str) -> None:
    """No name can change the path to that of another object."""
    with pytest.raises(ValueError, match="is not a name"):
        NODES.path(name)
    with pytest.raises(ValueError, match="is not a name"):
        PODS.path(namespace=name)
    assert NODES.path("a?x=1") == "/api/v1/nodes/a%3Fx%3D1"


def test_a_namespace_out_of_place() -> None:
    """A path that would mean something else raises an error."""
    with pytest.raises(ValueError, match="Node has no namespace"):
        NODES.path("node-1", "default")
    with pytest.raises(ValueError, match="web-0: the namespace is missing"):
        PODS.path("web-0")
