"""Flavor snapshots: the nodes of a flavor, filters, exclusions and preferences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.tas_trees import all_rows, node_object, node_table
from zonewise_common.k8s.taints import Toleration
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints
from zonewise_scheduler.nodes.node.avoided_conditions import KEY
from zonewise_scheduler.quota.topology.request_reader import read_preferred_terms
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot, nodes_matching_flavor
from zonewise_scheduler.tas.snapshot.leaf_counts import fill_leaf_counts
from zonewise_scheduler.tas.tree.assignment_parameters import topology_assignment_parameters
from zonewise_scheduler.tas.tree.topology_tree import topology_tree_from_nodes
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests


def test_nodes_matching_flavor() -> None:
    nodes = node_table(
        node_object("n1", {"pool": "a"}),
        node_object("n2", {"pool": "b"}),
        node_object("n3", {"pool": "a"}, unschedulable=True),
        node_object("n4", {}),
    )
    assert nodes_matching_flavor(nodes, {"pool": "a"}).tolist() == [True, False, False, False]
    assert nodes_matching_flavor(nodes, {}).tolist() == [True, True, False, True]


def test_each_excluded_node_counts_once() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = node_table(
        node_object("n1", {HOSTNAME: "n1", "pool": "a", "disk": "ssd"}),
        node_object("n2", {HOSTNAME: "n2", "pool": "a", "disk": "ssd"}, taints=[taint]),
        node_object("n3", {HOSTNAME: "n3", "pool": "b", "disk": "ssd"}),
        node_object("n4", {HOSTNAME: "n4", "pool": "a", "disk": "hdd"}),
        node_object("n5", {HOSTNAME: "n5", "pool": "a", "disk": "ssd"}, "100m"),
    )
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"nodeSelector": {"pool": "a"}, "affinity": {"nodeAffinity": required}}
    pod_set = TASPodSetRequests("p", 1, {"cpu": 500}, None, read_constraints({"spec": spec}))
    tree = topology_tree_from_nodes("t", [HOSTNAME], nodes, all_rows(nodes))
    counts, exclusions = fill_leaf_counts(NodeTASFlavorSnapshot(tree, nodes), pod_set, None, {})
    assert counts.pod_count.tolist() == [2, 0, 0, 0, 0]
    assert exclusions == ExclusionStats(5, 1, 1, taints={"gpu=yes:NoSchedule": 1}, resources={"cpu": 1})
    assert str(exclusions) == (
        'Total nodes: 5; excluded: affinity: 1, nodeSelector: 1, resource "cpu": 1, taint "gpu=yes:NoSchedule": 1'
    )
    tolerant = NodeTASFlavorSnapshot(tree, nodes, tolerations=[Toleration("gpu", "Exists")])
    assert fill_leaf_counts(tolerant, pod_set, None, {})[0].pod_count.tolist() == [2, 2, 0, 0, 0]


def test_usage_of_a_rack_counts_against_all_of_its_nodes() -> None:
    """Which of them other pods use is unknown. Only the pods that fit on its suitable nodes are placed there."""
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = node_table(
        node_object("n1", {"rack": "x"}, "1500m", taints=[taint]), node_object("n2", {"rack": "x"}, "1500m")
    )
    snapshot = NodeTASFlavorSnapshot(
        topology_tree_from_nodes("t", ["rack"], nodes, all_rows(nodes)), nodes, {"cpu": np.array([1000])}
    )
    pod_set = TASPodSetRequests("p", 1, {"cpu": 1000}, PodSetTopologyRequest(required="rack"), Constraints())
    assert fill_leaf_counts(snapshot, pod_set, None, {})[0].pod_count.tolist() == [1]
    assert fill_leaf_counts(snapshot, pod_set, None, {"cpu": np.array([2500])})[0].pod_count.tolist() == [0]


def test_a_rack_without_a_suitable_node_is_excluded() -> None:
    """Its pods would wait forever: they are pinned to the labels of the rack. A condition to avoid does not count."""
    gpu, suspect = ({"key": key, "value": "v", "effect": "NoSchedule"} for key in ("gpu", KEY))
    nodes = node_table(
        node_object("n1", {"rack": "a", "disk": "ssd"}, taints=[gpu]),
        node_object("n2", {"rack": "a", "disk": "hdd"}),
        node_object("n3", {"rack": "b", "disk": "ssd"}, taints=[suspect]),
        node_object("n4", {"rack": "c", "disk": "ssd"}, taints=[gpu]),
        node_object("n5", {"rack": "d", "disk": "ssd"}),
        node_object("n6", {"rack": "d", "disk": "hdd"}, taints=[gpu]),
    )
    snapshot = NodeTASFlavorSnapshot(topology_tree_from_nodes("t", ["rack"], nodes, all_rows(nodes)), nodes)

    def racks(spec: dict[str, Any]) -> tuple[list[bool], str]:
        pod_set = TASPodSetRequests("p", 1, {"cpu": 500}, None, read_constraints({"spec": spec}))
        counts, exclusions = fill_leaf_counts(snapshot, pod_set, None, {})
        return (counts.pod_count > 0).tolist(), str(exclusions)

    assert racks({}) == ([True, True, False, True], 'Total nodes: 4; excluded: taint "gpu=v:NoSchedule": 1')
    assert racks({"nodeSelector": {"rack": "b"}}) == (
        [False, True, False, False],
        'Total nodes: 4; excluded: nodeSelector: 2, taint "gpu=v:NoSchedule": 1',
    )


def test_a_rack_gets_no_more_pods_than_its_suitable_nodes() -> None:
    gpu = {"key": "gpu", "value": "v", "effect": "NoSchedule"}
    nodes = node_table(
        *(node_object(f"a{i}", {"rack": "a"}, cpu="4") for i in range(3)),
        node_object("b0", {"rack": "b", "disk": "ssd"}, cpu="8"),
        node_object("b1", {"rack": "b"}, cpu="8"),
        node_object("b2", {"rack": "b", "disk": "ssd"}, taints=[gpu], cpu="8"),
        node_object("c0", {"rack": "c", "disk": "ssd"}, cpu="2"),
        node_object("c1", {"rack": "c", "disk": "ssd"}, cpu="2"),
    )
    tree = topology_tree_from_nodes("t", ["rack"], nodes, all_rows(nodes))

    def counts(spec: dict[str, Any], used: int = 0) -> tuple[list[int], list[int], str]:
        constraints = read_constraints({"spec": spec})
        pod_set = TASPodSetRequests("p", 1, {"cpu": 3000}, None, constraints)
        snapshot = NodeTASFlavorSnapshot(tree, nodes, {"cpu": np.array([used, used, 0])})
        leaves, exclusions = fill_leaf_counts(snapshot, pod_set, None, {})
        params = topology_assignment_parameters(tree.level_keys, pod_set, TASFeatureGates(), has_leader=False)
        assert not isinstance(params, str)
        cached = snapshot.incremental_counts(pod_set, params)
        assert str(cached.exclusions()) == str(exclusions)
        return leaves.pod_count.tolist(), cached.domain_states[-1].pod_count.tolist(), str(exclusions)

    full = 'Total nodes: 3; excluded: resource "cpu": 1'
    assert counts({}) == ([3, 4, 0], [3, 4, 0], full)
    assert counts({}, used=6000) == ([2, 4, 0], [2, 4, 0], full)
    selected = 'Total nodes: 3; excluded: nodeSelector: 1, resource "cpu": 1'
    assert counts({"nodeSelector": {"disk": "ssd"}}) == ([0, 2, 0], [0, 2, 0], selected)


def test_leader_needs_its_own_matching_leaf() -> None:
    nodes = node_table(
        node_object("n1", {HOSTNAME: "n1", "pool": "a"}), node_object("n2", {HOSTNAME: "n2", "pool": "b"})
    )
    snapshot = NodeTASFlavorSnapshot(topology_tree_from_nodes("t", [HOSTNAME], nodes, all_rows(nodes)), nodes)
    request = PodSetTopologyRequest(preferred=HOSTNAME)
    leader = TASPodSetRequests(
        "l", 1, {"cpu": 500}, request, read_constraints({"spec": {"nodeSelector": {"pool": "b"}}}), group_name="g"
    )
    result = find_topology_assignments_for_flavor(
        snapshot, [TASPodSetRequests("w", 3, {"cpu": 500}, request, group_name="g"), leader]
    )
    assert isinstance(result, TASAssignments)
    assert [domain.values for domain in result.assignments["l"].domains] == [("n2",)]


@pytest.mark.parametrize(
    ("request_", "count", "plain", "preferring"),
    [
        (PodSetTopologyRequest(required=HOSTNAME), 1, "n1", "n2"),
        (PodSetTopologyRequest(required=HOSTNAME), 3, "n3", "n3"),  # n2 is too small
        (PodSetTopologyRequest(preferred=HOSTNAME), 3, "n3", "n1 n2"),  # at a higher level n2 is included
    ],
)
def test_preferred_affinity_ranks_before_size(
    request_: PodSetTopologyRequest, count: int, plain: str, preferring: str
) -> None:
    nodes = node_table(
        node_object("n1", {"rack": "x", HOSTNAME: "n1"}, "1"),
        node_object("n2", {"rack": "x", HOSTNAME: "n2", "region": "west"}, "2"),
        node_object("n3", {"rack": "x", HOSTNAME: "n3"}, "4"),
    )
    term = {"matchExpressions": [{"key": "region", "operator": "Exists"}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]}
    preferences = read_preferred_terms({"affinity": {"nodeAffinity": preferred}})
    assert [term.weight for term in preferences] == [7]
    snapshot = NodeTASFlavorSnapshot(topology_tree_from_nodes("t", ["rack", HOSTNAME], nodes, all_rows(nodes)), nodes)
    pod_set = TASPodSetRequests("p", count, {"cpu": 1000}, request_, preferences=preferences)
    for gates, expected in (
        (TASFeatureGates(), plain),
        (TASFeatureGates(respect_node_affinity_preferred=True), preferring),
    ):
        result = find_topology_assignments_for_flavor(snapshot, [pod_set], gates)
        assert isinstance(result, TASAssignments)
        assert " ".join(domain.values[0] for domain in result.assignments["p"].domains) == expected
