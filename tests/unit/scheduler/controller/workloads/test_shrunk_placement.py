"""The placement of a job with fewer pods keeps the first pods of each assignment."""

from __future__ import annotations

from typing import Any

from zonewise_scheduler.controller.workloads.shrunk_placement import shrink_placement
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment
from zonewise_scheduler.quota.topology.assignment_writer import write_topology_assignment
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment

Json = dict[str, Any]


def assignment(**pods: int) -> Json:
    domains = tuple(TopologyDomainAssignment((node,), count) for node, count in pods.items())
    return write_topology_assignment(TopologyAssignment((HOSTNAME,), domains))


def workload(*pod_sets: Json) -> Json:
    return {"status": {"admission": {"clusterQueue": "q", "podSetAssignments": list(pod_sets)}}}


def test_the_last_pods_lose_their_places() -> None:
    placed = {"name": "main", "count": 5, "flavors": {"cpu": "f"}, "topologyAssignment": assignment(a=2, b=3)}
    unplaced = {"name": "other", "count": 4}
    patch = shrink_placement(workload(placed, unplaced), {"main": 3, "other": 1})
    assert patch is not None
    shrunk, same = patch["status"]["admission"]["podSetAssignments"]
    assert same == unplaced
    assert read_topology_assignment(shrunk["topologyAssignment"]).domains == ((("a",), 2), (("b",), 1))
    assert {**shrunk, "topologyAssignment": None} == {**placed, "topologyAssignment": None}


def test_nothing_changes_without_fewer_pods() -> None:
    placed = {"name": "main", "count": 5, "topologyAssignment": assignment(a=2, b=1)}
    for pods in ({"main": 5}, {"main": 3}, {"main": 0}, {}):
        assert shrink_placement(workload(placed), pods) is None
    assert shrink_placement({}, {"main": 1}) is None
