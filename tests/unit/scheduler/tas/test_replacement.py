"""replace(): the pods of a failed node go elsewhere, and nothing that was promised of the others is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.tas_trees import KEYS, Host, supply_of
from zonewise_scheduler.quota.api.workload_reader import owned_by_single_pod
from zonewise_scheduler.quota.topology.types import (
    HOSTNAME,
    PodSetTopologyRequest,
    SliceConstraint,
    TopologyAssignment,
    TopologyDomainAssignment,
)
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.replacement import find_replacement_assignments
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.types import TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK, RACK, HOST = KEYS
LEFT = [Host("h2", "a", "x", 2), Host("h3", "a", "y", 9), Host("h4", "b", "x", 9)]
"""h1, in rack x of block a, has failed."""
PAIRS = PodSetTopologyRequest(required=BLOCK, slice_constraints=(SliceConstraint(RACK, 2),))


def at(pods: Mapping[str, int]) -> TopologyAssignment:
    return TopologyAssignment(
        (HOSTNAME,), tuple(TopologyDomainAssignment((host,), count) for host, count in pods.items())
    )


def moved(request: PodSetTopologyRequest | None, was: Mapping[str, int]) -> dict[str, int] | str:
    pods = TASPodSetRequests("workers", sum(was.values()), {"cpu": 1}, request)
    found = find_replacement_assignments(supply_of(LEFT), [pods], {"workers": at(was)}, "h1")
    if isinstance(found, TopologyAssignmentFailure):
        return str(found)
    return {domain.values[0]: domain.pods for domain in found.assignments["workers"].domains}


def test_only_the_pods_of_the_failed_node_move() -> None:
    for request, was, expected in (
        (PodSetTopologyRequest(required=RACK), {"h1": 1, "h2": 1}, {"h2": 2}),
        (PodSetTopologyRequest(required=BLOCK), {"h1": 3, "h2": 1}, {"h2": 1, "h3": 3}),
        (PodSetTopologyRequest(required=BLOCK), {"h1": 3}, {"h4": 3}),  # none is left that it must be near to
        (PodSetTopologyRequest(unconstrained=True), {"h1": 1, "h4": 2}, {"h2": 1, "h4": 2}),
        (PAIRS, {"h1": 1, "h2": 1, "h3": 2}, {"h2": 2, "h3": 2}),
        (PAIRS, {"h1": 2, "h3": 2}, {"h2": 2, "h3": 2}),
        (
            PodSetTopologyRequest(
                required=BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
            ),
            {"h1": 2, "h2": 2},
            {"h2": 4},
        ),
    ):
        assert moved(request, was) == expected


def test_the_innermost_broken_slice_is_mended() -> None:
    """A pair of a rack's four goes to that rack, though a host of another one would fit better."""
    layers = (SliceConstraint(BLOCK, 8), SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
    left = [Host("h2", "a", "x", 4), Host("h3", "a", "y", 2)]
    pods = TASPodSetRequests("workers", 8, {"cpu": 1}, PodSetTopologyRequest(required=BLOCK, slice_constraints=layers))
    found = find_replacement_assignments(supply_of(left), [pods], {"workers": at({"h1": 2, "h2": 2, "h3": 4})}, "h1")
    assert isinstance(found, TASAssignments)
    assert found.assignments["workers"] == at({"h2": 4, "h3": 4})


@pytest.mark.parametrize(
    ("request_", "was", "problem"),
    [
        (
            PodSetTopologyRequest(required=RACK),
            {"h1": 3, "h2": 1},
            "2 out of 3 pod(s). Total nodes: 3; excluded: topologyDomain: 2",
        ),
        (PodSetTopologyRequest(required=RACK), {"h1": 1, "h9": 1}, "as it contains the stale domain h9"),
        (PodSetTopologyRequest(required="zone"), {"h1": 1}, "no requested topology level: zone"),
        (PAIRS, {"h1": 1, "h3": 2}, "no slice on level rack lacks the 1 pod(s)"),
        (PodSetTopologyRequest(required=BLOCK), {"h2": 1}, "cannot find replacement assignment for unhealthy node: h1"),
    ],
)
def test_why_a_node_cannot_be_replaced(request_: PodSetTopologyRequest, was: Mapping[str, int], problem: str) -> None:
    assert problem in str(moved(request_, was))


def test_a_set_without_an_assignment_is_passed_over() -> None:
    pods = TASPodSetRequests("workers", 1, {"cpu": 1}, PodSetTopologyRequest(required=RACK))
    found = find_replacement_assignments(
        supply_of(LEFT), [pods, pods._replace(name="other")], {"workers": at({"h1": 1})}, "h1"
    )
    assert isinstance(found, TASAssignments)
    assert list(found.assignments) == ["workers"]


def test_a_pod_dies_with_its_node() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert owned_by_single_pod({"ownerReferences": [pod]})
    assert not owned_by_single_pod({"ownerReferences": [pod, pod]})
    assert not owned_by_single_pod({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job"}]})
    assert not owned_by_single_pod(
        {"ownerReferences": [pod], "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
    )
    with pytest.raises(ValueError, match=r"metadata\.ownerReferences: not a list"):
        owned_by_single_pod({"ownerReferences": "v1"})


@st.composite
def clusters(draw: st.DrawFn) -> list[Host]:
    place = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))
    return [Host(f"h{number}", *draw(place), draw(st.integers(1, 4))) for number in range(draw(st.integers(2, 8)))]


@given(clusters(), st.integers(1, 8), st.sampled_from([1, 2]), st.data())
def test_promises_hold_after_a_node_fails(nodes: list[Host], count: int, size: int, data: st.DataObject) -> None:
    """Pods on other nodes stay, none is lost, all are in one block, and slices of a rack are whole."""
    request = PodSetTopologyRequest(required=BLOCK, slice_constraints=(SliceConstraint(RACK, size),))
    pods = TASPodSetRequests("workers", count * size, {"cpu": 1}, request)
    first = find_topology_assignments_for_flavor(supply_of(nodes), [pods])
    assume(isinstance(first, TASAssignments))
    assert isinstance(first, TASAssignments)
    was = {domain.values[0]: domain.pods for domain in first.assignments["workers"].domains}
    failed = data.draw(st.sampled_from(sorted(was)))
    rest = [host._replace(cpus=host.cpus - was.get(host.name, 0)) for host in nodes if host.name != failed]
    found = find_replacement_assignments(supply_of(rest), [pods], first.assignments, failed)
    if isinstance(found, TASAssignments):
        now = {domain.values[0]: domain.pods for domain in found.assignments["workers"].domains}
        assert sum(now.values()) == pods.pod_count
        assert all(was[host] <= now[host] for host in was if host != failed)
        assert all(now.get(host.name, 0) - was.get(host.name, 0) <= host.cpus for host in rest)
        paths = {host.name: host.path for host in rest}
        assert len({paths[host][0] for host in now}) == 1
        for rack in {paths[host][:2] for host in now}:
            assert sum(pods for host, pods in now.items() if paths[host][:2] == rack) % size == 0
