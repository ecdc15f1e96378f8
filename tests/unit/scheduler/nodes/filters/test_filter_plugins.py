"""The filters for a single node."""

from __future__ import annotations

import pytest

from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints
from zonewise_scheduler.nodes.filters.filter_plugins import FilterRejection, node_resources_fit, run_filter_plugins
from zonewise_scheduler.nodes.node.host_ports import ALL_ADDRESSES, HostPort
from zonewise_scheduler.nodes.node.node_info import NodeInfo

WHOLE = Resource(4000, 100, 3, 10, (("x/gpu", 2),))


@pytest.mark.parametrize(
    ("requests", "requested", "reason"),
    [
        (Resource(4000, 100, 1, 10, (("x/gpu", 2),)), Resource(0, 0, 2, 0), None),
        (Resource(0, 0, 1, 0), Resource(0, 0, 3, 0), "Too many pods"),
        (Resource(1, 0, 1, 0), Resource(4000, 0, 1, 0), "Insufficient cpu"),
        (Resource(0, 0, 1, 0), Resource(9000, 0, 1, 0), None),
        (
            Resource(4001, 101, 1, 11),
            Resource(0, 0, 0, 0),
            "Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage",
        ),
        (Resource(0, 0, 1, 0, (("x/gpu", 1),)), Resource(0, 0, 0, 0, (("x/gpu", 2),)), "Insufficient x/gpu"),
        (Resource(0, 0, 1, 0, (("x/nic", 1),)), Resource(0, 0, 0, 0), "Insufficient x/nic"),
        (Resource(0, 0, 1, 0, (("x/nic", 0),)), Resource(0, 0, 0, 0), None),
    ],
)
def test_resources(requests: Resource, requested: Resource, reason: str | None) -> None:
    assert node_resources_fit(Constraints(requests), NodeInfo("n", allocatable=WHOLE, requested=requested)) == reason


def test_first_rejection_is_returned() -> None:
    node = NodeInfo("n", unschedulable=True, taints=(Taint("a", "", "NoExecute"),))
    pod = read_constraints({"spec": {"nodeName": "m", "nodeSelector": {"k": "v"}}})
    assert run_filter_plugins(pod, node) == FilterRejection("NodeUnschedulable", "node(s) were unschedulable")
    node = node._replace(unschedulable=False)
    assert run_filter_plugins(pod, node) == FilterRejection("NodeName", "node(s) didn't match the requested node name")
    pod = pod._replace(node_name="n")
    assert run_filter_plugins(pod, node) == FilterRejection("TaintToleration", "node(s) had untolerated taint(s)")
    node = node._replace(taints=())
    assert run_filter_plugins(pod, node) == FilterRejection(
        "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
    )
    pod = Constraints(ports=(HostPort(ALL_ADDRESSES, "TCP", 80),))
    node = node._replace(ports=pod.ports)
    assert run_filter_plugins(pod, node) == FilterRejection(
        "NodePorts", "node(s) didn't have free ports for the requested pod ports"
    )
    assert run_filter_plugins(Constraints(), node) == FilterRejection("NodeResourcesFit", "Too many pods")
    assert run_filter_plugins(Constraints(), node._replace(allocatable=WHOLE)) is None
