"""A cluster without topologies: only quotas decide."""

from __future__ import annotations

from support.quota_strategies import pending_workload
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest
from zonewise_scheduler.quota.hierarchy.topology_snapshot import (
    EmptyTopologySnapshot,
    PlacementRequest,
    SentPods,
    TopologyPlacementFailure,
)


def test_without_topologies_no_placement_is_found_and_none_is_needed() -> None:
    """The failure names the first of several requests."""
    snapshot, workload = EmptyTopologySnapshot(), pending_workload("w", 1)
    assert not snapshot.has_topology("any")
    assert not snapshot.lacks_topology(ResourceFlavor("any", topology_name="racks"))
    assert not snapshot.has_level("any", TopologyRequest())
    assert snapshot.fits(workload)
    assert snapshot.suits(workload)
    assert snapshot.admits_next((workload.key, "main"), "node", {})
    requests = {
        flavor: [PlacementRequest(PodSet(name), 1, flavor) for name in ("first", "second", "third")]
        for flavor in ("old", "new")
    }
    failure = TopologyPlacementFailure("first", "old", "no topology is known")
    assert snapshot.find_topology_assignments(workload, requests, empty=True) == failure
    assert snapshot.find_topology_assignments(workload, {}, empty=True) == {}


def test_no_pods_are_settled_by_default() -> None:
    assert SentPods(2).settled == 0
