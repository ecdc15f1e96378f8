"""Node selectors of an assignment by pod rank."""

from __future__ import annotations

from support.tas_trees import HOSTS, RACK, flavor_snapshot_of, workers
from zonewise_scheduler.quota.topology.types import (
    HOSTNAME,
    PodSetTopologyRequest,
)
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.tree.topology_assignments import node_selectors_by_rank


def test_node_selectors_by_rank() -> None:
    result = find_topology_assignments_for_flavor(
        flavor_snapshot_of(HOSTS), [workers(5, PodSetTopologyRequest(required=RACK))]
    )
    assert isinstance(result, TASAssignments)
    assert [selector[HOSTNAME] for selector in node_selectors_by_rank(result.assignments["workers"])] == ["h1"] * 4 + [
        "h2"
    ]
