"""Examples of assignments: profiles, slices, leaders, elastic workloads, failures, and levels below the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from support.tas_trees import (
    BLOCK,
    HOST,
    HOSTS,
    RACK,
    Host,
    assigned_hosts,
    flavor_snapshot_of,
    topology_tree_from_paths,
    workers,
)
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
from zonewise_scheduler.tas.tree.tas_usage import with_pod_resource
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


@pytest.mark.parametrize(
    ("size", "request_", "expected"),
    [
        (3, PodSetTopologyRequest(required=HOST), {"h3": 3}),  # best fit
        (5, PodSetTopologyRequest(required=RACK), {"h1": 4, "h2": 1}),
        (
            9,
            PodSetTopologyRequest(preferred=RACK),
            {"h1": 4, "h2": 2, "h3": 3},
        ),  # each block holds 9, but no rack does; a comes first
        (12, PodSetTopologyRequest(preferred=RACK), {"h4": 8, "h1": 4}),  # no block holds 12; the largest comes first
        (4, PodSetTopologyRequest(unconstrained=True), {"h1": 4}),
        (4, None, {"h1": 4}),
        (
            10,
            PodSetTopologyRequest(unconstrained=True),
            {"h5": 1, "h2": 2, "h3": 3, "h1": 4},
        ),  # the least free capacity comes first
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
def test_assigned_hosts(size: int, request_: PodSetTopologyRequest | None, expected: Mapping[str, int]) -> None:
    assert (
        assigned_hosts(find_topology_assignments_for_flavor(flavor_snapshot_of(HOSTS), [workers(size, request_)]))
        == expected
    )


def test_without_profile_mixed_largest_domains_first() -> None:
    result = find_topology_assignments_for_flavor(
        flavor_snapshot_of(HOSTS),
        [workers(10, PodSetTopologyRequest(unconstrained=True))],
        TASFeatureGates(profile_mixed=False),
    )
    assert assigned_hosts(result) == {"h4": 8, "h2": 2}


def test_balanced_hosts() -> None:
    """The balanced assignment has three pods on each of two hosts; the best fit has five on one of them."""
    nodes = [Host("h1", "a", "x", 5), Host("h2", "a", "x", 5), Host("h3", "a", "y", 2)]
    pod_sets = [workers(6, PodSetTopologyRequest(preferred=HOST))]
    assert assigned_hosts(find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), pod_sets)) == {
        "h1": 5,
        "h2": 1,
    }
    assert assigned_hosts(
        find_topology_assignments_for_flavor(
            flavor_snapshot_of(nodes), pod_sets, TASFeatureGates(balanced_placement=True)
        )
    ) == {"h1": 3, "h2": 3}


def test_balanced_racks() -> None:
    """Each rack gets three pods, which are assigned to its own hosts."""
    nodes = [Host("h1", "a", "x", 4), Host("h2", "a", "y", 2), Host("h3", "a", "y", 1)]
    pod_sets = [workers(6, PodSetTopologyRequest(preferred=BLOCK))]
    assert assigned_hosts(find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), pod_sets)) == {
        "h1": 4,
        "h2": 2,
    }
    assert assigned_hosts(
        find_topology_assignments_for_flavor(
            flavor_snapshot_of(nodes), pod_sets, TASFeatureGates(balanced_placement=True)
        )
    ) == {"h1": 3, "h2": 2, "h3": 1}


def test_inner_slices_are_whole() -> None:
    """Rack x holds four pods, but not two pairs. Each host of rack y holds three pods, and therefore one pair."""
    nodes = [Host("h1", "a", "x", 3), Host("h2", "a", "x", 1), Host("h3", "a", "y", 3), Host("h4", "a", "y", 3)]
    layers = (SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
    for request in (
        PodSetTopologyRequest(BLOCK, slice_constraints=layers),
        PodSetTopologyRequest(RACK, slice_constraints=layers),
        PodSetTopologyRequest(slice_constraints=layers),
    ):
        assert assigned_hosts(
            find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), [workers(4, request)])
        ) == {
            "h3": 2,
            "h4": 2,
        }


@pytest.mark.parametrize(
    ("request_", "other_block"),
    [
        (PodSetTopologyRequest(preferred=HOST), "a"),
        (PodSetTopologyRequest(preferred=BLOCK), "b"),
        (PodSetTopologyRequest(unconstrained=True), "b"),
        (PodSetTopologyRequest(required=RACK), "a"),
    ],
)
def test_leader_on_the_cheapest_host(request_: PodSetTopologyRequest, other_block: str) -> None:
    """The leader displaces two workers on h1, but only one on h2."""
    leader = TASPodSetRequests("leader", 1, {"cpu": 3}, request_, group_name="g")
    nodes = [Host("h1", "a", "x", 8), Host("h2", other_block, "x", 3)]
    result = find_topology_assignments_for_flavor(
        flavor_snapshot_of(nodes), [workers(4, request_, cpu=2)._replace(group_name="g"), leader]
    )
    assert (assigned_hosts(result), assigned_hosts(result, "leader")) == ({"h1": 4}, {"h2": 1})


def test_leader_and_workers_in_one_domain() -> None:
    """Block b holds only the workers; block a also holds the leader."""
    request = PodSetTopologyRequest(required=BLOCK)
    leader = TASPodSetRequests("leader", 1, {"cpu": 3}, request, group_name="g")
    for pod_sets in (
        [leader, workers(6, request)._replace(group_name="g")],
        [workers(6, request)._replace(group_name="g"), leader],
    ):
        result = find_topology_assignments_for_flavor(
            flavor_snapshot_of([*HOSTS[:3], Host("h4", "b", "x", 6)]), pod_sets
        )
        assert assigned_hosts(result, "leader") == {"h1": 1}
        assert assigned_hosts(result) == {"h1": 1, "h2": 2, "h3": 3}


def test_topology_without_nodes() -> None:
    failure = find_topology_assignments_for_flavor(
        flavor_snapshot_of([]), [workers(1, PodSetTopologyRequest(required=RACK))]
    )
    assert str(failure) == "no topology domains at level: rack"


def test_failure_names_level_and_domain() -> None:
    failure = find_topology_assignments_for_flavor(
        flavor_snapshot_of(HOSTS), [workers(7, PodSetTopologyRequest(required=RACK), cpu=2)]
    )
    assert failure == TopologyAssignmentFailure(
        "workers",
        "default",
        level=RACK,
        domain=("b", "x"),
        fit_count=4,
        slice_count=7,
        exclusions=ExclusionStats(5, resources={"cpu": 1}),
    )
    assert str(failure) == (
        'topology "default" allows to fit only 4 out of 7 pod(s). Total nodes: 5; excluded: resource "cpu": 1'
    )


def test_failure_states_the_fit_of_each_layer() -> None:
    """Block b fits four of six host slices and one of two rack slices."""
    failure = find_topology_assignments_for_flavor(
        flavor_snapshot_of(HOSTS),
        [
            workers(
                12,
                PodSetTopologyRequest(
                    required=BLOCK, slice_constraints=(SliceConstraint(RACK, 6), SliceConstraint(HOST, 2))
                ),
            )
        ],
    )
    assert isinstance(failure, TopologyAssignmentFailure)
    assert failure.layer_fits == (LayerFit(RACK, 1, 2), LayerFit(HOST, 4, 6))


def test_malformed_pod_sets() -> None:
    first, second = workers(2, None), workers(2, None, name="other")
    for pod_sets, problem in (
        ([first, first], "pod sets: names are not unique: workers, workers"),
        ([first._replace(pod_count=-1)], "pod set workers: size: negative: -1"),
        (
            [first._replace(group_name="g"), second._replace(group_name="g")],
            "group g: not a leader of one pod and its workers",
        ),
    ):
        with pytest.raises(ValueError, match=problem):
            find_topology_assignments_for_flavor(flavor_snapshot_of(HOSTS), pod_sets)


def test_no_pods_have_an_empty_assignment() -> None:
    assert (
        assigned_hosts(
            find_topology_assignments_for_flavor(
                flavor_snapshot_of(HOSTS), [workers(0, PodSetTopologyRequest(required=HOST))]
            )
        )
        == {}
    )


# --- levels below the host, and limits of kubelets


class Zones:
    """A snapshot whose leaves are zones instead of nodes."""

    def __init__(self, free: Mapping[tuple[str, str], int]) -> None:
        self.tree: TopologyTree = topology_tree_from_paths("zones", [HOSTNAME, "zone"], list(free))
        self._free = np.array([free[self._path(leaf)] for leaf in range(self.tree.leaf_count)], np.int64)

    def _path(self, leaf: int) -> tuple[str, str]:
        host, zone = self.tree.level_values(1, leaf)
        return host, zone

    def remaining_capacity(self, resource: str) -> NDArray[np.int64]:
        return self._free if resource == "cpu" else np.full(len(self._free), 100)

    def node_bound(self, pod_set: TASPodSetRequests) -> None:
        return None

    def matching_leaves(self, pod_set: TASPodSetRequests) -> MatchingLeaves:
        zeros = np.zeros(self.tree.leaf_count, np.int64)
        return MatchingLeaves(zeros == 0, zeros, ExclusionStats(self.tree.leaf_count))

    def incremental_counts(self, pod_set: TASPodSetRequests, params: TopologyAssignmentParameters) -> IncrementalCounts:
        requests = with_pod_resource(pod_set.single_pod_requests)
        counts = IncrementalCounts(self.tree, requests, self.matching_leaves(pod_set), None, params)
        counts.update({name: self.remaining_capacity(name) for name in requests})
        return counts


def test_zones_as_leaves() -> None:
    """Slices share a zone, and all pods share a host: a slice of 4 needs the zone of 4, not two zones of 3."""
    snapshot: TASFlavorSnapshot = Zones({("n1", "0"): 3, ("n1", "1"): 3, ("n2", "0"): 4, ("n2", "1"): 1})
    result = find_topology_assignments_for_flavor(
        snapshot,
        [workers(4, PodSetTopologyRequest(required=HOSTNAME, slice_constraints=(SliceConstraint("zone", 4),)))],
    )
    assert isinstance(result, TASAssignments)
    assert result.assignments["workers"] == TopologyAssignment(
        (HOSTNAME, "zone"), (TopologyDomainAssignment(("n2", "0"), 4),)
    )
    assert isinstance(
        find_topology_assignments_for_flavor(
            snapshot,
            [workers(6, PodSetTopologyRequest(required=HOSTNAME, slice_constraints=(SliceConstraint("zone", 3),)))],
        ),
        TASAssignments,
    )


def test_kubelets_limit_the_pods_of_a_host() -> None:
    """h4 has CPUs for 8 pods, but its kubelet admits only 2."""
    snapshot = flavor_snapshot_of(HOSTS)
    max_pods = np.array(
        [2 if snapshot.tree.leaf_values(leaf) == ("h4",) else 9 for leaf in range(snapshot.tree.leaf_count)], np.int64
    )
    pod_set = workers(4, PodSetTopologyRequest(required=HOST))._replace(max_pods=max_pods)
    assert assigned_hosts(find_topology_assignments_for_flavor(snapshot, [pod_set])) == {"h1": 4}
    assert isinstance(
        find_topology_assignments_for_flavor(snapshot, [pod_set._replace(pod_count=5)]), TopologyAssignmentFailure
    )
