"""Messages about topology requests that are invalid for the levels of a tree."""

from __future__ import annotations

import pytest

from support.tas_trees import BLOCK, HOST, HOSTS, RACK, flavor_snapshot_of, workers
from zonewise_scheduler.quota.topology.types import (
    PodSetTopologyRequest,
    SliceConstraint,
)
from zonewise_scheduler.tas.placement.flavor_assignments import find_topology_assignments_for_flavor
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure


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
    ],
)
def test_invalid_requests(request_: PodSetTopologyRequest, problem: str) -> None:
    failure = find_topology_assignments_for_flavor(flavor_snapshot_of(HOSTS), [workers(4, request_)])
    assert isinstance(failure, TopologyAssignmentFailure)
    assert (failure.pod_set, str(failure)) == ("workers", problem)
