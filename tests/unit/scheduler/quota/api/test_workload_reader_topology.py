"""Topology requests, topology assignments and unhealthy nodes of Workloads."""

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

TOPOLOGY_ASSIGNMENT: Json = {
    "levels": [HOSTNAME],
    "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "h1"}], "podCounts": {"universal": 2}}],
}


def read(topology_request: Any, owner: str = "Pod", **assignment: Any) -> ReadWorkload:
    pods: Json = {
        "name": "main",
        "count": 2,
        "template": {"spec": {"containers": []}},
        "topologyRequest": topology_request,
    }
    admitted = {"name": "main", "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "1"}, "count": 2, **assignment}
    return read_workload(
        {
            "metadata": {"namespace": "ns", "name": "w", "ownerReferences": [{"apiVersion": "v1", "kind": owner}]},
            "spec": {"podSets": [pods]},
            "status": {
                "admission": {"clusterQueue": "q", "podSetAssignments": [admitted]},
                "conditions": [{"type": "QuotaReserved", "status": "True"}],
                "unhealthyNodes": [{"name": "h1"}],
            },
        }
    )


def test_request_and_assignment() -> None:
    request = {"required": "rack", "podsetSliceRequiredTopologyConstraints": [{"topology": "host", "size": 2}]}
    result = read(request, topologyAssignment=TOPOLOGY_ASSIGNMENT, delayedTopologyRequest="Ready")
    workload = result.workload
    assert workload is not None
    assert workload.admission is not None
    admitted, topology = workload.admission.pod_sets[0], workload.pod_sets[0].topology
    assert topology is not None
    assert (topology.request, topology.explicit) == (
        PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint("host", 2),)),
        True,
    )
    assert (admitted.topology_assignment, admitted.delayed_topology_request) == (
        TopologyAssignment((HOSTNAME,), (TopologyDomainAssignment(("h1",), 2),)),
        "Ready",
    )
    assert (workload.unhealthy_nodes, workload.owned_by_single_pod, result.problems) == (("h1",), True, ())


def test_a_job_is_not_owned_by_a_single_pod() -> None:
    workload = read({"podSetGroupName": "g"}, "Job").workload
    assert workload is not None
    assert workload.pod_sets[0].topology is not None
    assert (workload.owned_by_single_pod, workload.pod_sets[0].topology.explicit) == (False, False)


def test_an_invalid_assignment_is_reported() -> None:
    result = read({"unconstrained": True}, topologyAssignment={"levels": ["host"]})
    assert result.workload is not None
    assert [problem.partition(": ")[0] for problem in result.problems] == [
        "status.admission.podSetAssignments[0].topologyAssignment.slices"
    ]


@pytest.mark.parametrize(
    "topology_request", [{"required": 3}, {"podSetSliceRequiredTopology": "r", "podSetSliceSize": -1}]
)
def test_an_invalid_request_makes_the_workload_unreadable(topology_request: Json) -> None:
    result = read(topology_request)
    assert (result.workload, result.problems[0].startswith("spec.podSets[0].topologyRequest.")) == (None, True)
