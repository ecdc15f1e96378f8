"""Trees and supplies: which nodes are leaves, what they have room for, and why they are excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.taints import Toleration
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.topology.request_reader import read_preferred_terms, read_topology_request
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot, nodes_matching_flavor
from zonewise_scheduler.tas.snapshot.leaf_counts import fill_leaf_counts
from zonewise_scheduler.tas.tree.topology_tree import topology_tree_from_nodes, topology_tree_from_paths
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping


def node(name: str, labels: Mapping[str, str], cpu: str = "1", **spec: object) -> Any:
    status = {"allocatable": {"cpu": cpu, "pods": "10"}}
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec, "status": status}


def table(*nodes: Any) -> NodeInfoTable:
    return NodeInfoTable([read_node_info(one) for one in nodes])


def every(nodes: NodeInfoTable) -> Any:
    return np.ones(len(nodes), np.bool_)


# --- trees


def test_domains_are_in_the_order_of_their_values() -> None:
    """As strings: rack-10 is before rack-9; a rack of one name in another block is another one."""
    paths = [("b", "rack-9"), ("a", "rack-9"), ("a", "rack-10")]
    tree = topology_tree_from_paths("t", ["block", "rack"], paths)
    assert tree.values == (("a", "b"), ("rack-10", "rack-9", "rack-9"))
    assert [tree.level_values(1, leaf) for leaf in range(tree.leaf_count)] == sorted(paths)
    assert tree.rows.tolist() == [2, 1, 0]
    assert [tree.find_leaf(path) for path in sorted(paths)] == [0, 1, 2]
    assert tree.find_leaf(("b", "rack-10")) is None
    assert tree.leaf_range(0, 0) == (0, 2)
    assert tree.ancestor(2, 0) == 1
    assert tree.lower_level_domains(0, np.array([1])).tolist() == [2]


def test_a_node_without_a_label_is_no_leaf() -> None:
    nodes = table(node("n1", {"rack": "x", HOSTNAME: "n1"}), node("n2", {HOSTNAME: "n2"}), node("n3", {"rack": "x"}))
    tree = topology_tree_from_nodes("t", ["rack", HOSTNAME], nodes, every(nodes))
    assert (tree.rows.tolist(), tree.values) == ([0], (("x",), ("n1",)))


def test_nodes_of_one_hostname_are_one_leaf() -> None:
    """Where the first of them is, with the resources of both."""
    nodes = table(node("n1", {"rack": "y", HOSTNAME: "h"}, "2"), node("n2", {"rack": "x", HOSTNAME: "h"}, "3"))
    tree = topology_tree_from_nodes("t", ["rack", HOSTNAME], nodes, every(nodes))
    assert tree.values == (("x",), ("h",))
    assert NodeTASFlavorSnapshot(tree, nodes).remaining_capacity("cpu").tolist() == [5000]


def test_a_topology_has_levels() -> None:
    with pytest.raises(ValueError, match="topology: no levels"):
        topology_tree_from_paths("t", [], [])


def test_nodes_of_a_flavor_are_schedulable_and_labelled() -> None:
    nodes = table(
        node("n1", {"pool": "a"}),
        node("n2", {"pool": "b"}),
        node("n3", {"pool": "a"}, unschedulable=True),
        node("n4", {}),
    )
    assert nodes_matching_flavor(nodes, {"pool": "a"}).tolist() == [True, False, False, False]
    assert nodes_matching_flavor(nodes, {}).tolist() == [True, True, False, True]


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
    pods = TASPodSetRequests("p", 1, {"cpu": 500}, None, read_constraints({"spec": spec}))
    tree = topology_tree_from_nodes("t", [HOSTNAME], nodes, every(nodes))
    counts, excluded = fill_leaf_counts(NodeTASFlavorSnapshot(tree, nodes), pods, None, {})
    assert counts.pod_count.tolist() == [2, 0, 0, 0, 0]
    assert excluded == ExclusionStats(5, 1, 1, taints={"gpu=yes:NoSchedule": 1}, resources={"cpu": 1})
    assert str(excluded) == (
        'Total nodes: 5; excluded: affinity: 1, nodeSelector: 1, resource "cpu": 1, taint "gpu=yes:NoSchedule": 1'
    )
    tolerant = NodeTASFlavorSnapshot(tree, nodes, tolerations=[Toleration("gpu", "Exists")])
    assert fill_leaf_counts(tolerant, pods, None, {})[0].pod_count.tolist() == [2, 2, 0, 0, 0]


def test_filters_are_of_nodes_alone() -> None:
    """A Topology that ends at racks adds up what their nodes have, tainted ones too."""
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = table(node("n1", {"rack": "x"}, "1500m", taints=[taint]), node("n2", {"rack": "x"}, "1500m"))
    supply = NodeTASFlavorSnapshot(
        topology_tree_from_nodes("t", ["rack"], nodes, every(nodes)), nodes, {"cpu": np.array([1000])}
    )
    pods = TASPodSetRequests("p", 1, {"cpu": 1000}, PodSetTopologyRequest(required="rack"), Constraints())
    assert fill_leaf_counts(supply, pods, None, {})[0].pod_count.tolist() == [2]
    assert fill_leaf_counts(supply, pods, None, {"cpu": np.array([2500])})[0].pod_count.tolist() == [0]


def test_a_leader_passes_its_own_filters() -> None:
    nodes = table(node("n1", {HOSTNAME: "n1", "pool": "a"}), node("n2", {HOSTNAME: "n2", "pool": "b"}))
    supply = NodeTASFlavorSnapshot(topology_tree_from_nodes("t", [HOSTNAME], nodes, every(nodes)), nodes)
    request = PodSetTopologyRequest(preferred=HOSTNAME)
    leader = TASPodSetRequests(
        "l", 1, {"cpu": 500}, request, read_constraints({"spec": {"nodeSelector": {"pool": "b"}}}), group_name="g"
    )
    found = find_topology_assignments_for_flavor(
        supply, [TASPodSetRequests("w", 3, {"cpu": 500}, request, group_name="g"), leader]
    )
    assert isinstance(found, TASAssignments)
    assert [domain.values for domain in found.assignments["l"].domains] == [("n2",)]


@pytest.mark.parametrize(
    ("request_", "count", "plain", "preferring"),
    [
        (PodSetTopologyRequest(required=HOSTNAME), 1, "n1", "n2"),
        (PodSetTopologyRequest(required=HOSTNAME), 3, "n3", "n3"),  # n2 has too little room
        (PodSetTopologyRequest(preferred=HOSTNAME), 3, "n3", "n1 n2"),  # further out n2 takes part
    ],
)
def test_preferred_affinity_comes_before_size(
    request_: PodSetTopologyRequest, count: int, plain: str, preferring: str
) -> None:
    nodes = table(
        node("n1", {"rack": "x", HOSTNAME: "n1"}, "1"),
        node("n2", {"rack": "x", HOSTNAME: "n2", "region": "west"}, "2"),
        node("n3", {"rack": "x", HOSTNAME: "n3"}, "4"),
    )
    term = {"matchExpressions": [{"key": "region", "operator": "Exists"}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]}
    preferences = read_preferred_terms({"affinity": {"nodeAffinity": preferred}})
    assert [one.weight for one in preferences] == [7]
    supply = NodeTASFlavorSnapshot(topology_tree_from_nodes("t", ["rack", HOSTNAME], nodes, every(nodes)), nodes)
    pods = TASPodSetRequests("p", count, {"cpu": 1000}, request_, preferences=preferences)
    for options, expected in (
        (TASFeatureGates(), plain),
        (TASFeatureGates(respect_node_affinity_preferred=True), preferring),
    ):
        found = find_topology_assignments_for_flavor(supply, [pods], options)
        assert isinstance(found, TASAssignments)
        assert " ".join(domain.values[0] for domain in found.assignments["p"].domains) == expected


# --- requests


def test_requests_are_read() -> None:
    assert read_topology_request({}) == PodSetTopologyRequest()
    assert read_topology_request({"required": "rack", "podIndexLabel": "index"}) == PodSetTopologyRequest(
        required="rack"
    )
    assert read_topology_request(
        {"preferred": "rack", "podSetSliceRequiredTopology": "host", "podSetSliceSize": 4}
    ) == PodSetTopologyRequest(preferred="rack", slice_constraints=(SliceConstraint("host", 4),))
    constraints = [{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]
    assert read_topology_request({"podsetSliceRequiredTopologyConstraints": constraints}) == PodSetTopologyRequest(
        slice_constraints=(SliceConstraint("rack", 4), SliceConstraint("host", 2))
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
        read_topology_request(request_)
    assert raised.value.field == field
