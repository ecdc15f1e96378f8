"""Gangs with resources of device classes, which only kube-scheduler can count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.extender_caches import LARGE_NODE
from support.gang_clusters import GangCluster
from support.ledger_kubelets import pod_shape
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.node.node_info import NodeInfo

HALF, WHOLE = pod_shape((4, 0)), pod_shape((8, 0))
"""Half and all of a zone's CPUs; a node has two zones."""
GPU = (("example.com/gpu", 1),)
DELEGATED = Constraints(Resource(8_000, 0, 1, 0, GPU))
"""The constraints of a pod with a resource that no node has in its allocatable."""


@pytest.mark.parametrize("direct", [True, False])
def test_a_resource_of_a_device_class(*, direct: bool) -> None:
    """Nodes that kube-scheduler passes provide it, and the other nodes that lack it do not; kube-scheduler binds."""
    cluster = GangCluster("n", "m", "o", direct_binding=direct)
    names = cluster.create_gang("train", [WHOLE] * 3, constraints=DELEGATED)
    assert cluster.filter_and_bind(names[0], "n", "o") in {"n", "o"}
    assert cluster.run_pass() == {}
    assert sorted(cluster.requeue()) == names[1:]
    assert all(cluster.filter_and_bind(name, "n", "o") for name in names[1:])
    assert set(cluster.bound.values()) == {"n", "o"}
    assert all(cluster.arrive(name) for name in names)


def test_a_resource_of_a_device_class_on_too_few_nodes() -> None:
    """The gang waits until kube-scheduler passes enough nodes; minResources do not count the resource."""
    cluster = GangCluster("n", "m")
    cluster.create_group("train", 3, min_resources=Resource(0, 0, 0, 0, (("example.com/gpu", 3),)))
    names = cluster.create_members("train", [WHOLE] * 3, constraints=DELEGATED)
    assert not cluster.filter(names[0], "n").node
    assert not cluster.filter(names[1], "n").node
    assert cluster.filter(names[0]).node


@given(st.lists(st.sets(st.sampled_from("nmo"), min_size=1), min_size=1, max_size=5), st.integers(1, 6))
def test_gangs_get_a_resource_of_a_device_class_only_where_it_is(attempts: list[set[str]], size: int) -> None:
    """All nodes of a gang have been passed by kube-scheduler. It fits if these have zones for all members."""
    cluster = GangCluster("n", "m", "o")
    names = cluster.create_gang("train", [WHOLE] * size, constraints=DELEGATED)

    def assumed() -> set[str]:
        nodes: Any = cluster.cache.view.dump()["nodes"]
        return {node for node in cluster.kubelets if nodes[node]["assumedPods"]}

    passed = set[str]()
    for nodes in attempts:
        passed |= nodes
        cluster.filter(names[0], *nodes)
        assert assumed() <= passed
    cluster.filter(names[0], *passed)
    assert bool(assumed()) == (size <= 2 * len(passed))


def test_a_resource_that_some_nodes_have() -> None:
    """Nodes with a device plugin are filtered by what they have left, the others by what kube-scheduler passes."""
    cluster = GangCluster("n", "m")
    cluster.cache.update_node(None, NodeInfo("n", allocatable=LARGE_NODE._replace(scalar_resources=GPU)))
    names = cluster.create_gang("train", [WHOLE] * 3, constraints=DELEGATED)
    assert all(cluster.filter_and_bind(name) for name in names)
    assert sorted(cluster.bound.values()) == ["m", "m", "n"]
