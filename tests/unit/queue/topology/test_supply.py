"""Trees and supplies: which nodes are leaves, what they have room for, and why they are excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zonewise_scheduler.fit.model.fields import FieldError
from zonewise_scheduler.fit.nodes.constraints import Constraints, read_constraints
from zonewise_scheduler.fit.nodes.info import read_node
from zonewise_scheduler.fit.nodes.table import NodeTable
from zonewise_scheduler.fit.nodes.taints import Toleration
from zonewise_scheduler.queue.topology.excluded import Excluded
from zonewise_scheduler.queue.topology.leaves import leaves_of
from zonewise_scheduler.queue.topology.model import HOSTNAME, Layer, Options, PodSet, Request
from zonewise_scheduler.queue.topology.place import Placed, place
from zonewise_scheduler.queue.topology.read import read_preferences, read_request
from zonewise_scheduler.queue.topology.supply import NodeSupply, eligible
from zonewise_scheduler.queue.topology.tree import tree_of, tree_of_paths

if TYPE_CHECKING:
    from collections.abc import Mapping


def node(name: str, labels: Mapping[str, str], cpu: str = "1", **spec: object) -> Any:
    status = {"allocatable": {"cpu": cpu, "pods": "10"}}
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec, "status": status}


def table(*nodes: Any) -> NodeTable:
    return NodeTable([read_node(one) for one in nodes])


def every(nodes: NodeTable) -> Any:
    return np.ones(len(nodes), np.bool_)


# --- trees


def test_domains_are_in_the_order_of_their_values() -> None:
    """As strings: rack-10 is before rack-9; a rack of one name in another block is another one."""
    paths = [("b", "rack-9"), ("a", "rack-9"), ("a", "rack-10")]
    tree = tree_of_paths("t", ["block", "rack"], paths)
    assert tree.values == (("a", "b"), ("rack-10", "rack-9", "rack-9"))
    assert [tree.path(1, leaf) for leaf in range(tree.leaves)] == sorted(paths)
    assert tree.members.tolist() == [2, 1, 0]
    assert [tree.leaf(path) for path in sorted(paths)] == [0, 1, 2]
    assert tree.leaf(("b", "rack-10")) is None
    assert tree.within(0, 0) == (0, 2)
    assert tree.above(2, 0) == 1
    assert tree.children(0, np.array([1])).tolist() == [2]


def test_a_node_without_a_label_is_no_leaf() -> None:
    nodes = table(node("n1", {"rack": "x", HOSTNAME: "n1"}), node("n2", {HOSTNAME: "n2"}), node("n3", {"rack": "x"}))
    tree = tree_of("t", ["rack", HOSTNAME], nodes, every(nodes))
    assert (tree.members.tolist(), tree.values) == ([0], (("x",), ("n1",)))


def test_nodes_of_one_hostname_are_one_leaf() -> None:
    """Where the first of them is, with the resources of both."""
    nodes = table(node("n1", {"rack": "y", HOSTNAME: "h"}, "2"), node("n2", {"rack": "x", HOSTNAME: "h"}, "3"))
    tree = tree_of("t", ["rack", HOSTNAME], nodes, every(nodes))
    assert tree.values == (("x",), ("h",))
    assert NodeSupply(tree, nodes).free("cpu").tolist() == [5000]


def test_a_topology_has_levels() -> None:
    with pytest.raises(ValueError, match="topology: no levels"):
        tree_of_paths("t", [], [])


def test_nodes_of_a_flavor_are_schedulable_and_labelled() -> None:
    nodes = table(
        node("n1", {"pool": "a"}),
        node("n2", {"pool": "b"}),
        node("n3", {"pool": "a"}, unschedulable=True),
        node("n4", {}),
    )
    assert eligible(nodes, {"pool": "a"}).tolist() == [True, False, False, False]
    assert eligible(nodes, {}).tolist() == [True, True, False, True]


# --- filters


def test_each_excluded_node_has_one_cause() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = table(
        node("n1", {HOSTNAME: "n1", "pool": "a", "disk": "ssd"}),
        node("n2", {HOSTNAME: "n2", "pool": "a", "disk": "ssd"}, taints=[taint]),
        node("n3", {HOSTNAME: "n3", "pool": "b", "disk": "ssd"}),
        node("n4", {HOSTNAME: "n4", "pool": "a", "disk": "hdd"}),
        node("n5", {HOSTNAME: "n5", "pool": "a", "disk": "ssd"}, "100m"),
    )
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"nodeSelector": {"pool": "a"}, "affinity": {"nodeAffinity": required}}
    pods = PodSet("p", 1, {"cpu": 500}, None, read_constraints({"spec": spec}))
    tree = tree_of("t", [HOSTNAME], nodes, every(nodes))
    counts, excluded = leaves_of(NodeSupply(tree, nodes), pods, None, {})
    assert counts.pods.tolist() == [2, 0, 0, 0, 0]
    assert excluded == Excluded(5, 1, 1, taints={"gpu=yes:NoSchedule": 1}, resources={"cpu": 1})
    assert str(excluded) == (
        'Total nodes: 5; excluded: affinity: 1, nodeSelector: 1, resource "cpu": 1, taint "gpu=yes:NoSchedule": 1'
    )
    tolerant = NodeSupply(tree, nodes, tolerations=[Toleration("gpu", "Exists")])
    assert leaves_of(tolerant, pods, None, {})[0].pods.tolist() == [2, 2, 0, 0, 0]


def test_filters_are_of_nodes_alone() -> None:
    """A Topology that ends at racks adds up what their nodes have, tainted ones too."""
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = table(node("n1", {"rack": "x"}, "1500m", taints=[taint]), node("n2", {"rack": "x"}, "1500m"))
    supply = NodeSupply(tree_of("t", ["rack"], nodes, every(nodes)), nodes, {"cpu": np.array([1000])})
    pods = PodSet("p", 1, {"cpu": 1000}, Request(required="rack"), Constraints())
    assert leaves_of(supply, pods, None, {})[0].pods.tolist() == [2]
    assert leaves_of(supply, pods, None, {"cpu": np.array([2500])})[0].pods.tolist() == [0]


def test_a_leader_passes_its_own_filters() -> None:
    nodes = table(node("n1", {HOSTNAME: "n1", "pool": "a"}), node("n2", {HOSTNAME: "n2", "pool": "b"}))
    supply = NodeSupply(tree_of("t", [HOSTNAME], nodes, every(nodes)), nodes)
    request = Request(preferred=HOSTNAME)
    leader = PodSet(
        "l", 1, {"cpu": 500}, request, read_constraints({"spec": {"nodeSelector": {"pool": "b"}}}), group="g"
    )
    found = place(supply, [PodSet("w", 3, {"cpu": 500}, request, group="g"), leader])
    assert isinstance(found, Placed)
    assert [domain.values for domain in found.assignments["l"].domains] == [("n2",)]


@pytest.mark.parametrize(
    ("request_", "count", "plain", "preferring"),
    [
        (Request(required=HOSTNAME), 1, "n1", "n2"),
        (Request(required=HOSTNAME), 3, "n3", "n3"),  # n2 has too little room
        (Request(preferred=HOSTNAME), 3, "n3", "n1 n2"),  # further out n2 takes part
    ],
)
def test_preferred_affinity_comes_before_size(request_: Request, count: int, plain: str, preferring: str) -> None:
    nodes = table(
        node("n1", {"rack": "x", HOSTNAME: "n1"}, "1"),
        node("n2", {"rack": "x", HOSTNAME: "n2", "region": "west"}, "2"),
        node("n3", {"rack": "x", HOSTNAME: "n3"}, "4"),
    )
    term = {"matchExpressions": [{"key": "region", "operator": "Exists"}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]}
    preferences = read_preferences({"affinity": {"nodeAffinity": preferred}})
    assert [one.weight for one in preferences] == [7]
    supply = NodeSupply(tree_of("t", ["rack", HOSTNAME], nodes, every(nodes)), nodes)
    pods = PodSet("p", count, {"cpu": 1000}, request_, preferences=preferences)
    for options, expected in ((Options(), plain), (Options(preferred_affinity=True), preferring)):
        found = place(supply, [pods], options)
        assert isinstance(found, Placed)
        assert " ".join(domain.values[0] for domain in found.assignments["p"].domains) == expected


# --- requests


def test_requests_are_read() -> None:
    assert read_request({}) == Request()
    assert read_request({"required": "rack", "podIndexLabel": "index"}) == Request(required="rack")
    assert read_request({"preferred": "rack", "podSetSliceRequiredTopology": "host", "podSetSliceSize": 4}) == Request(
        preferred="rack", layers=(Layer("host", 4),)
    )
    constraints = [{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]
    assert read_request({"podsetSliceRequiredTopologyConstraints": constraints}) == Request(
        layers=(Layer("rack", 4), Layer("host", 2))
    )


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"required": 1}, "topologyRequest.required"),
        ({"unconstrained": "yes"}, "topologyRequest.unconstrained"),
        ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": "4"}, "topologyRequest.podSetSliceSize"),
        ({"podsetSliceRequiredTopologyConstraints": {}}, "topologyRequest.podsetSliceRequiredTopologyConstraints"),
    ],
)
def test_what_is_no_request_is_named(request_: Any, field: str) -> None:
    with pytest.raises(FieldError) as raised:
        read_request(request_)
    assert raised.value.field == field
