"""Elastic workloads: pods of the previous workload slice keep their leaves."""

from __future__ import annotations

from support.tas_trees import BLOCK, HOSTS, assigned_hosts, assignment_of, flavor_snapshot_of, workers
from zonewise_scheduler.quota.topology.types import (
    PodSetTopologyRequest,
)
from zonewise_scheduler.tas.placement.flavor_assignments import find_topology_assignments_for_flavor
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests


def test_pods_of_the_previous_slice_keep_their_hosts() -> None:
    """The cases are scaling up, scaling down, the same count, and a new assignment because of a stale domain."""
    for size, previous, expected in (
        (4, {"h1": 1, "h3": 2}, {"h1": 1, "h3": 3}),
        (5, {"h1": 1, "h3": 2}, {"h1": 1, "h2": 2, "h3": 2}),
        (2, {"h1": 1, "h3": 2}, {"h1": 1, "h3": 1}),
        (3, {"h1": 1, "h3": 2}, {"h1": 1, "h3": 2}),
        (3, {"h1": 1, "h9": 2}, {"h3": 3}),
    ):
        pod_set = workers(size, PodSetTopologyRequest(unconstrained=True))._replace(
            previous_assignment=assignment_of(previous)
        )
        assert (
            assigned_hosts(
                find_topology_assignments_for_flavor(
                    flavor_snapshot_of(HOSTS), [pod_set], TASFeatureGates(elastic_jobs=True)
                )
            )
            == expected
        )
        assert assigned_hosts(
            find_topology_assignments_for_flavor(flavor_snapshot_of(HOSTS), [pod_set])
        ) == assigned_hosts(
            find_topology_assignments_for_flavor(
                flavor_snapshot_of(HOSTS), [pod_set._replace(previous_assignment=None)]
            )
        )


def test_unassigned_leader_with_a_previous_slice() -> None:
    request = PodSetTopologyRequest(required=BLOCK)
    group = workers(2, request)._replace(group_name="g", previous_assignment=assignment_of({"h1": 4}))
    leader = TASPodSetRequests("leader", 1, {"cpu": 1}, request, group_name="g")
    result = find_topology_assignments_for_flavor(
        flavor_snapshot_of(HOSTS), [group, leader], TASFeatureGates(elastic_jobs=True)
    )
    assert assigned_hosts(result) == {"h1": 2}
    assert sum(assigned_hosts(result, "leader").values()) == 1
