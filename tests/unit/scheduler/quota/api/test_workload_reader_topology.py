"""Workloads that are placed over a topology: what they ask for, where they are, and which of their nodes failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from zonewise_scheduler.quota.api.workload_reader import ReadWorkload, read_workload
from zonewise_scheduler.quota.topology.types import (
    HOSTNAME,
    PodSetTopologyRequest,
    SliceConstraint,
    TopologyAssignment,
    TopologyDomainAssignment,
)

if TYPE_CHECKING:
    from support.kubelet_cases import Json

PLACE: Json = {
    "levels": [HOSTNAME],
    "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "h1"}], "podCounts": {"universal": 2}}],
}


def read(request: Any, owner: str = "Pod", **placed: Any) -> ReadWorkload:
    pods: Json = {"name": "main", "count": 2, "template": {"spec": {"containers": []}}, "topologyRequest": request}
    given = {"name": "main", "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "1"}, "count": 2, **placed}
    return read_workload(
        {
            "metadata": {"namespace": "ns", "name": "w", "ownerReferences": [{"apiVersion": "v1", "kind": owner}]},
            "spec": {"podSets": [pods]},
            "status": {
                "admission": {"clusterQueue": "q", "podSetAssignments": [given]},
                "conditions": [{"type": "QuotaReserved", "status": "True"}],
                "unhealthyNodes": [{"name": "h1"}],
            },
        }
    )


def test_what_is_asked_and_where_it_is() -> None:
    asked = {"required": "rack", "podsetSliceRequiredTopologyConstraints": [{"topology": "host", "size": 2}]}
    found = read(asked, topologyAssignment=PLACE, delayedTopologyRequest="Ready")
    one = found.workload
    assert one is not None
    assert one.admission is not None
    held, topology = one.admission.pod_sets[0], one.pod_sets[0].topology
    assert topology is not None
    assert (topology.request, topology.explicit) == (
        PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint("host", 2),)),
        True,
    )
    assert (held.topology_assignment, held.delayed_topology_request) == (
        TopologyAssignment((HOSTNAME,), (TopologyDomainAssignment(("h1",), 2),)),
        "Ready",
    )
    assert (one.unhealthy_nodes, one.owned_by_single_pod, found.problems) == (("h1",), True, ())


def test_of_a_job() -> None:
    found = read({"podSetGroupName": "g"}, "Job").workload
    assert found is not None
    assert found.pod_sets[0].topology is not None
    assert (found.owned_by_single_pod, found.pod_sets[0].topology.explicit) == (False, False)


def test_a_place_that_is_none_is_told() -> None:
    found = read({"unconstrained": True}, topologyAssignment={"levels": ["host"]})
    assert found.workload is not None
    assert [one.partition(": ")[0] for one in found.problems] == [
        "status.admission.podSetAssignments[0].topologyAssignment.slices"
    ]


@pytest.mark.parametrize(
    "request_given", [{"required": 3}, {"podSetSliceRequiredTopology": "r", "podSetSliceSize": -1}]
)
def test_a_request_that_is_none_makes_the_workload_unreadable(request_given: Json) -> None:
    found = read(request_given)
    assert (found.workload, found.problems[0].startswith("spec.podSets[0].topologyRequest.")) == (None, True)
