"""place() in single stories: profiles, slices, leaders, pods that grow in number, zones below the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from support.tas_trees import KEYS, Host, supply_of
from zonewise_scheduler.quota.topology.types import (
    HOSTNAME,
    PodSetTopologyRequest,
    SliceConstraint,
    TopologyAssignment,
    TopologyDomainAssignment,
)
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats, LayerFit, TopologyAssignmentFailure
from zonewise_scheduler.tas.snapshot.incremental_counts import IncrementalCounts
from zonewise_scheduler.tas.snapshot.leaf_nodes import MatchingLeaves
from zonewise_scheduler.tas.tree.tas_usage import one_pod_requests
from zonewise_scheduler.tas.tree.topology_assignments import node_selectors_by_rank
from zonewise_scheduler.tas.tree.topology_tree import TopologyTree, topology_tree_from_paths
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters

BLOCK, RACK, HOST = KEYS
NODES = [
    Host("h1", "a", "x", 4),
    Host("h2", "a", "x", 2),
    Host("h3", "a", "y", 3),
    Host("h4", "b", "x", 8),
    Host("h5", "b", "y", 1),
]


def workers(
    size: int, request: PodSetTopologyRequest | None, *, cpu: int = 1, name: str = "workers"
) -> TASPodSetRequests:
    return TASPodSetRequests(name, size, {"cpu": cpu}, request)


def hosts_of(found: TASAssignments | TopologyAssignmentFailure, name: str = "workers") -> dict[str, int]:
    assert isinstance(found, TASAssignments)
    return {domain.values[-1]: domain.pods for domain in found.assignments[name].domains}


@pytest.mark.parametrize(
    ("size", "request_", "expected"),
    [
        (3, PodSetTopologyRequest(required=HOST), {"h3": 3}),  # fits best
        (5, PodSetTopologyRequest(required=RACK), {"h1": 4, "h2": 1}),
        (
            9,
            PodSetTopologyRequest(preferred=RACK),
            {"h1": 4, "h2": 2, "h3": 3},
        ),  # no rack has 9, each block has, a comes first
        (12, PodSetTopologyRequest(preferred=RACK), {"h4": 8, "h1": 4}),  # no block has, the largest comes first
        (4, PodSetTopologyRequest(unconstrained=True), {"h1": 4}),
        (4, None, {"h1": 4}),
        (10, PodSetTopologyRequest(unconstrained=True), {"h5": 1, "h2": 2, "h3": 3, "h1": 4}),  # where least is free
        (4, PodSetTopologyRequest(required=BLOCK, slice_constraints=(SliceConstraint(HOST, 2),)), {"h1": 4}),
        (
            8,
            PodSetTopologyRequest(
                required=BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint(HOST, 4))
            ),
            {"h4": 8},
        ),
    ],
)
def test_where_pods_go(size: int, request_: PodSetTopologyRequest | None, expected: Mapping[str, int]) -> None:
    assert hosts_of(find_topology_assignments_for_flavor(supply_of(NODES), [workers(size, request_)])) == expected


def test_without_the_mixed_profile_most_is_taken_first() -> None:
    found = find_topology_assignments_for_flavor(
        supply_of(NODES), [workers(10, PodSetTopologyRequest(unconstrained=True))], TASFeatureGates(profile_mixed=False)
    )
    assert hosts_of(found) == {"h4": 8, "h2": 2}


def test_balanced_pods_are_spread_evenly() -> None:
    """Three on each of two hosts, where the best fit is five on one of them."""
    nodes = [Host("h1", "a", "x", 5), Host("h2", "a", "x", 5), Host("h3", "a", "y", 2)]
    pods = [workers(6, PodSetTopologyRequest(preferred=HOST))]
    assert hosts_of(find_topology_assignments_for_flavor(supply_of(nodes), pods)) == {"h1": 5, "h2": 1}
    assert hosts_of(
        find_topology_assignments_for_flavor(supply_of(nodes), pods, TASFeatureGates(balanced_placement=True))
    ) == {"h1": 3, "h2": 3}


def test_balanced_racks_keep_their_pods() -> None:
    """Each rack gets three, and gives them to its own hosts."""
    nodes = [Host("h1", "a", "x", 4), Host("h2", "a", "y", 2), Host("h3", "a", "y", 1)]
    pods = [workers(6, PodSetTopologyRequest(preferred=BLOCK))]
    assert hosts_of(find_topology_assignments_for_flavor(supply_of(nodes), pods)) == {"h1": 4, "h2": 2}
    assert hosts_of(
        find_topology_assignments_for_flavor(supply_of(nodes), pods, TASFeatureGates(balanced_placement=True))
    ) == {"h1": 3, "h2": 2, "h3": 1}


def test_inner_slices_are_whole_in_the_rack_that_is_chosen() -> None:
    """Rack x has room for four pods, but not for two pairs; the hosts of rack y for three each, which is a pair."""
    nodes = [Host("h1", "a", "x", 3), Host("h2", "a", "x", 1), Host("h3", "a", "y", 3), Host("h4", "a", "y", 3)]
    layers = (SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
    for request in (
        PodSetTopologyRequest(BLOCK, slice_constraints=layers),
        PodSetTopologyRequest(RACK, slice_constraints=layers),
        PodSetTopologyRequest(slice_constraints=layers),
    ):
        assert hosts_of(find_topology_assignments_for_flavor(supply_of(nodes), [workers(4, request)])) == {
            "h3": 2,
            "h4": 2,
        }


@pytest.mark.parametrize(
    ("request_", "other"),
    [
        (PodSetTopologyRequest(preferred=HOST), "a"),
        (PodSetTopologyRequest(preferred=BLOCK), "b"),
        (PodSetTopologyRequest(unconstrained=True), "b"),
        (PodSetTopologyRequest(required=RACK), "a"),
    ],
)
def test_a_leader_goes_where_it_costs_least(request_: PodSetTopologyRequest, other: str) -> None:
    """On h1 it would take the place of two workers, on h2 that of one; all others are needed."""
    leader = TASPodSetRequests("leader", 1, {"cpu": 3}, request_, group_name="g")
    nodes = [Host("h1", "a", "x", 8), Host("h2", other, "x", 3)]
    found = find_topology_assignments_for_flavor(
        supply_of(nodes), [workers(4, request_, cpu=2)._replace(group_name="g"), leader]
    )
    assert (hosts_of(found), hosts_of(found, "leader")) == ({"h1": 4}, {"h2": 1})


def test_a_leader_is_placed_with_its_workers() -> None:
    """Block b has room for the workers alone, block a for the leader too."""
    request = PodSetTopologyRequest(required=BLOCK)
    leader = TASPodSetRequests("leader", 1, {"cpu": 3}, request, group_name="g")
    for sets in (
        [leader, workers(6, request)._replace(group_name="g")],
        [workers(6, request)._replace(group_name="g"), leader],
    ):
        found = find_topology_assignments_for_flavor(supply_of([*NODES[:3], Host("h4", "b", "x", 6)]), sets)
        assert hosts_of(found, "leader") == {"h1": 1}
        assert hosts_of(found) == {"h1": 1, "h2": 2, "h3": 3}


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (PodSetTopologyRequest(), "topology level not specified"),
        (PodSetTopologyRequest(required="zone"), "no requested topology level: zone"),
        (
            PodSetTopologyRequest(BLOCK, slice_constraints=(SliceConstraint("zone", 2),)),
            "no requested topology level for slices: zone",
        ),
        (
            PodSetTopologyRequest(BLOCK, slice_constraints=(SliceConstraint(RACK, 0),)),
            "slice topology requested, but slice size not provided",
        ),
        (
            PodSetTopologyRequest(HOST, slice_constraints=(SliceConstraint(RACK, 2),)),
            f"podset slice topology {RACK} is above the podset topology {HOST}",
        ),
        (
            PodSetTopologyRequest(BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint("zone", 2))),
            "no requested topology level for additional slice layer: zone",
        ),
        (
            PodSetTopologyRequest(BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint(BLOCK, 2))),
            f"additional slice layer topology {BLOCK} must be at a lower level than {RACK}",
        ),
        (
            PodSetTopologyRequest(BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint(HOST, 3))),
            "additional slice layer size 3 must evenly divide parent layer size 4",
        ),
        (
            PodSetTopologyRequest(BLOCK, slice_constraints=(SliceConstraint(RACK, 3),)),
            "slice size 3 must evenly divide the pod set's 4 pods",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_value(request_: PodSetTopologyRequest, problem: str) -> None:
    found = find_topology_assignments_for_flavor(supply_of(NODES), [workers(4, request_)])
    assert isinstance(found, TopologyAssignmentFailure)
    assert (found.pod_set, str(found)) == ("workers", problem)


def test_a_topology_without_nodes() -> None:
    found = find_topology_assignments_for_flavor(supply_of([]), [workers(1, PodSetTopologyRequest(required=RACK))])
    assert str(found) == "no topology domains at level: rack"


def test_a_refusal_names_the_level_in_the_way() -> None:
    found = find_topology_assignments_for_flavor(
        supply_of(NODES), [workers(7, PodSetTopologyRequest(required=RACK), cpu=2)]
    )
    assert found == TopologyAssignmentFailure(
        "workers",
        "default",
        level=RACK,
        domain=("b", "x"),
        fit_count=4,
        slice_count=7,
        exclusions=ExclusionStats(5, resources={"cpu": 1}),
    )
    assert str(found) == (
        'topology "default" allows to fit only 4 out of 7 pod(s). Total nodes: 5; excluded: resource "cpu": 1'
    )


def test_a_refusal_tells_of_each_layer() -> None:
    """Block b has four slices of hosts, of which racks hold two of three pairs each."""
    found = find_topology_assignments_for_flavor(
        supply_of(NODES),
        [
            workers(
                12,
                PodSetTopologyRequest(
                    required=BLOCK, slice_constraints=(SliceConstraint(RACK, 6), SliceConstraint(HOST, 2))
                ),
            )
        ],
    )
    assert isinstance(found, TopologyAssignmentFailure)
    assert found.layer_fits == (LayerFit(RACK, 1, 2), LayerFit(HOST, 4, 6))


def test_malformed_sets_are_errors() -> None:
    one, other = workers(2, None), workers(2, None, name="other")
    for sets, problem in (
        ([one, one], "pod sets: names are not unique: workers, workers"),
        ([one._replace(pod_count=-1)], "pod set workers: size: negative: -1"),
        (
            [one._replace(group_name="g"), other._replace(group_name="g")],
            "group g: not a leader of one pod and its workers",
        ),
    ):
        with pytest.raises(ValueError, match=problem):
            find_topology_assignments_for_flavor(supply_of(NODES), sets)


def test_no_pods_need_no_place() -> None:
    assert (
        hosts_of(
            find_topology_assignments_for_flavor(supply_of(NODES), [workers(0, PodSetTopologyRequest(required=HOST))])
        )
        == {}
    )


# --- further pods of a workload that runs


def before(pods: Mapping[str, int]) -> TopologyAssignment:
    return TopologyAssignment(
        (HOSTNAME,), tuple(TopologyDomainAssignment((host,), count) for host, count in pods.items())
    )


def test_pods_that_run_stay_where_they_are() -> None:
    """One more, one fewer, as many, and all anew where a host is no more."""
    for size, kept, expected in (
        (4, {"h1": 1, "h3": 2}, {"h1": 1, "h3": 3}),
        (5, {"h1": 1, "h3": 2}, {"h1": 1, "h2": 2, "h3": 2}),
        (2, {"h1": 1, "h3": 2}, {"h1": 1, "h3": 1}),
        (3, {"h1": 1, "h3": 2}, {"h1": 1, "h3": 2}),
        (3, {"h1": 1, "h9": 2}, {"h3": 3}),
    ):
        pods = workers(size, PodSetTopologyRequest(unconstrained=True))._replace(previous_assignment=before(kept))
        assert (
            hosts_of(find_topology_assignments_for_flavor(supply_of(NODES), [pods], TASFeatureGates(elastic_jobs=True)))
            == expected
        )
        assert hosts_of(find_topology_assignments_for_flavor(supply_of(NODES), [pods])) == hosts_of(
            find_topology_assignments_for_flavor(supply_of(NODES), [pods._replace(previous_assignment=None)])
        )


def test_a_leader_without_a_place_is_placed_beside_pods_that_run() -> None:
    request = PodSetTopologyRequest(required=BLOCK)
    group = workers(2, request)._replace(group_name="g", previous_assignment=before({"h1": 4}))
    leader = TASPodSetRequests("leader", 1, {"cpu": 1}, request, group_name="g")
    found = find_topology_assignments_for_flavor(supply_of(NODES), [group, leader], TASFeatureGates(elastic_jobs=True))
    assert hosts_of(found) == {"h1": 2}
    assert sum(hosts_of(found, "leader").values()) == 1


# --- ranks


def test_neighbours_in_rank_are_neighbours_in_the_topology() -> None:
    found = find_topology_assignments_for_flavor(supply_of(NODES), [workers(5, PodSetTopologyRequest(required=RACK))])
    assert isinstance(found, TASAssignments)
    assert [one[HOSTNAME] for one in node_selectors_by_rank(found.assignments["workers"])] == ["h1"] * 4 + ["h2"]


# --- below the host, and what kubelets say


class Zones:
    """Zones as one more level: a supply of leaves that are no nodes."""

    def __init__(self, free: Mapping[tuple[str, str], int]) -> None:
        self.tree: TopologyTree = topology_tree_from_paths("zones", [HOSTNAME, "zone"], list(free))
        self._free = np.array([free[self._path(leaf)] for leaf in range(self.tree.leaf_count)], np.int64)

    def _path(self, leaf: int) -> tuple[str, str]:
        host, zone = self.tree.level_values(1, leaf)
        return host, zone

    def remaining_capacity(self, resource: str) -> NDArray[np.int64]:
        return self._free if resource == "cpu" else np.full(len(self._free), 100)

    def matching_leaves(self, pod_set: TASPodSetRequests) -> MatchingLeaves:
        none = np.zeros(self.tree.leaf_count, np.int64)
        return MatchingLeaves(none == 0, none, ExclusionStats(self.tree.leaf_count))

    def incremental_counts(self, pod_set: TASPodSetRequests, params: TopologyAssignmentParameters) -> IncrementalCounts:
        requests = one_pod_requests(pod_set.single_pod_requests)
        found = IncrementalCounts(self.tree, requests, self.matching_leaves(pod_set), params)
        found.update({name: self.remaining_capacity(name) for name in requests})
        return found


def test_zones_are_one_more_level() -> None:
    """Pairs of pods share a zone, all share a host: that of 4 in one zone, not that of 3 and 3 in two."""
    supply: TASFlavorSnapshot = Zones({("n1", "0"): 3, ("n1", "1"): 3, ("n2", "0"): 4, ("n2", "1"): 1})
    found = find_topology_assignments_for_flavor(
        supply, [workers(4, PodSetTopologyRequest(required=HOSTNAME, slice_constraints=(SliceConstraint("zone", 4),)))]
    )
    assert isinstance(found, TASAssignments)
    assert found.assignments["workers"] == TopologyAssignment(
        (HOSTNAME, "zone"), (TopologyDomainAssignment(("n2", "0"), 4),)
    )
    assert isinstance(
        find_topology_assignments_for_flavor(
            supply,
            [workers(6, PodSetTopologyRequest(required=HOSTNAME, slice_constraints=(SliceConstraint("zone", 3),)))],
        ),
        TASAssignments,
    )


def test_kubelets_bound_what_a_host_takes() -> None:
    """h4 has CPUs for 8 in sum, but its kubelet admits 2."""
    supply = supply_of(NODES)
    most = np.array(
        [2 if supply.tree.leaf_values(leaf) == ("h4",) else 9 for leaf in range(supply.tree.leaf_count)], np.int64
    )
    pods = workers(4, PodSetTopologyRequest(required=HOST))._replace(max_pods=most)
    assert hosts_of(find_topology_assignments_for_flavor(supply, [pods])) == {"h1": 4}
    assert isinstance(
        find_topology_assignments_for_flavor(supply, [pods._replace(pod_count=5)]), TopologyAssignmentFailure
    )
