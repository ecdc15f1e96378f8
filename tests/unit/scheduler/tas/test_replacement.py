"""Replacement of the pods of an unhealthy node: other pods keep their leaves."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.tas_trees import BLOCK, HOST, RACK, Host, assignment_of, flavor_snapshot_of
from zonewise_scheduler.quota.topology.types import (
    PodSetTopologyRequest,
    SliceConstraint,
)
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.replacement import find_replacement_assignments
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.types import TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

REMAINING_HOSTS = [Host("h2", "a", "x", 2), Host("h3", "a", "y", 9), Host("h4", "b", "x", 9)]
"""All hosts except the unhealthy h1 in rack x of block a."""
PAIRS_IN_RACKS = PodSetTopologyRequest(required=BLOCK, slice_constraints=(SliceConstraint(RACK, 2),))

TRIPLES_IN_RACKS = PodSetTopologyRequest(required=BLOCK, slice_constraints=(SliceConstraint(RACK, 3),))


def replace_h1(request: PodSetTopologyRequest | None, pods_by_host: Mapping[str, int]) -> dict[str, int] | str:
    pod_set = TASPodSetRequests("workers", sum(pods_by_host.values()), {"cpu": 1}, request)
    result = find_replacement_assignments(
        flavor_snapshot_of(REMAINING_HOSTS), [pod_set], {"workers": assignment_of(pods_by_host)}, "h1"
    )
    if isinstance(result, TopologyAssignmentFailure):
        return str(result)
    return {domain.values[0]: domain.pods for domain in result.assignments["workers"].domains}


def test_only_pods_of_the_unhealthy_node_move() -> None:
    for request, pods_by_host, expected in (
        (PodSetTopologyRequest(required=RACK), {"h1": 1, "h2": 1}, {"h2": 2}),
        (PodSetTopologyRequest(required=BLOCK), {"h1": 3, "h2": 1}, {"h2": 1, "h3": 3}),
        (PodSetTopologyRequest(required=BLOCK), {"h1": 3}, {"h4": 3}),  # no pod remains that they must be close to
        (PodSetTopologyRequest(unconstrained=True), {"h1": 1, "h4": 2}, {"h2": 1, "h4": 2}),
        (PAIRS_IN_RACKS, {"h1": 1, "h2": 1, "h3": 2}, {"h2": 2, "h3": 2}),
        (PAIRS_IN_RACKS, {"h1": 2, "h3": 2}, {"h2": 2, "h3": 2}),
        (PAIRS_IN_RACKS._replace(required=""), {"h1": 1, "h2": 1, "h3": 2}, {"h2": 2, "h3": 2}),
        (
            PodSetTopologyRequest(
                required=BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
            ),
            {"h1": 2, "h2": 2},
            {"h2": 4},
        ),
    ):
        assert replace_h1(request, pods_by_host) == expected


def test_last_slice_may_have_fewer_pods() -> None:
    """Its pods move together, or join the others of their slice."""
    for request, pods_by_host, expected in (
        (PAIRS_IN_RACKS, {"h1": 1, "h3": 2}, {"h2": 1, "h3": 2}),
        (PAIRS_IN_RACKS, {"h1": 3, "h3": 2}, {"h3": 5}),
        (PAIRS_IN_RACKS, {"h1": 1, "h2": 1, "h3": 1}, {"h2": 2, "h3": 1}),
        (TRIPLES_IN_RACKS, {"h1": 1, "h2": 1, "h3": 3}, {"h2": 2, "h3": 3}),
        (TRIPLES_IN_RACKS, {"h1": 2, "h2": 1, "h3": 2}, {"h2": 3, "h3": 2}),
        (
            PodSetTopologyRequest(
                required=BLOCK, slice_constraints=(SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
            ),
            {"h1": 1, "h3": 4},
            {"h3": 5},
        ),
    ):
        assert replace_h1(request, pods_by_host) == expected


def test_innermost_incomplete_slice_is_completed() -> None:
    """A pair completes a rack's four pods, although a host of another rack is a better fit."""
    layers = (SliceConstraint(BLOCK, 8), SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
    hosts = [Host("h2", "a", "x", 4), Host("h3", "a", "y", 2)]
    pod_set = TASPodSetRequests(
        "workers", 8, {"cpu": 1}, PodSetTopologyRequest(required=BLOCK, slice_constraints=layers)
    )
    result = find_replacement_assignments(
        flavor_snapshot_of(hosts), [pod_set], {"workers": assignment_of({"h1": 2, "h2": 2, "h3": 4})}, "h1"
    )
    assert isinstance(result, TASAssignments)
    assert result.assignments["workers"] == assignment_of({"h2": 4, "h3": 4})


def test_slices_of_all_inner_layers_remain_whole() -> None:
    """Four pods must be in one rack, although two racks of the block each have a free host for half of them."""
    layers = (SliceConstraint(BLOCK, 8), SliceConstraint(RACK, 4), SliceConstraint(HOST, 2))
    hosts = [Host("h2", "a", "y", 0), Host("h3", "a", "x", 2), Host("h4", "a", "z", 2)]
    pod_set = TASPodSetRequests(
        "workers", 8, {"cpu": 1}, PodSetTopologyRequest(required=BLOCK, slice_constraints=layers)
    )
    for spare_hosts, is_replaced in (((), False), ((Host("h5", "a", "w", 4),), True)):
        result = find_replacement_assignments(
            flavor_snapshot_of([*hosts, *spare_hosts]), [pod_set], {"workers": assignment_of({"h1": 4, "h2": 4})}, "h1"
        )
        assert isinstance(result, TASAssignments) is is_replaced


@pytest.mark.parametrize(
    ("request_", "pods_by_host", "problem"),
    [
        (
            PodSetTopologyRequest(required=RACK),
            {"h1": 3, "h2": 1},
            "2 out of 3 pod(s). Total nodes: 3; excluded: topologyDomain: 2",
        ),
        (PodSetTopologyRequest(required=RACK), {"h1": 1, "h9": 1}, "as it contains the stale domain h9"),
        (PodSetTopologyRequest(required="zone"), {"h1": 1}, "no requested topology level: zone"),
        (TRIPLES_IN_RACKS, {"h1": 1, "h2": 1, "h3": 1}, "no slice on level rack lacks the 1 pod(s)"),
        (PodSetTopologyRequest(required=BLOCK), {"h2": 1}, "cannot find replacement assignment for unhealthy node: h1"),
    ],
)
def test_failure_messages(request_: PodSetTopologyRequest, pods_by_host: Mapping[str, int], problem: str) -> None:
    assert problem in str(replace_h1(request_, pods_by_host))


@pytest.mark.parametrize(("group", "expected"), [("group", "h2"), ("", "h4")])
def test_workers_that_lose_all_nodes_remain_near_their_leader(group: str, expected: str) -> None:
    workers = TASPodSetRequests("workers", 2, {"cpu": 1}, PodSetTopologyRequest(required=RACK), group_name=group)
    hosts = [Host("h2", "a", "x", 9), Host("h3", "a", "y", 1), Host("h4", "b", "x", 2)]
    result = find_replacement_assignments(
        flavor_snapshot_of(hosts),
        [workers],
        {"workers": assignment_of({"h1": 2}), "leader": assignment_of({"h2": 1})},
        "h1",
        groups={"workers": group, "leader": group},
    )
    assert isinstance(result, TASAssignments)
    assert result.assignments == {"workers": assignment_of({expected: 2})}


def test_pod_set_without_assignment_is_skipped() -> None:
    pod_set = TASPodSetRequests("workers", 1, {"cpu": 1}, PodSetTopologyRequest(required=RACK))
    result = find_replacement_assignments(
        flavor_snapshot_of(REMAINING_HOSTS),
        [pod_set, pod_set._replace(name="other")],
        {"workers": assignment_of({"h1": 1})},
        "h1",
    )
    assert isinstance(result, TASAssignments)
    assert list(result.assignments) == ["workers"]


@st.composite
def clusters(draw: st.DrawFn) -> list[Host]:
    domain = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))
    return [Host(f"h{i}", *draw(domain), draw(st.integers(1, 4))) for i in range(draw(st.integers(2, 8)))]


@given(clusters(), st.integers(1, 12), st.sampled_from([1, 2, 3]), st.data())
def test_request_holds_after_replacement(nodes: list[Host], count: int, size: int, data: st.DataObject) -> None:
    """Pods on other nodes are not moved, all pods are in one block, and only the last rack slice may be smaller."""
    request = PodSetTopologyRequest(required=BLOCK, slice_constraints=(SliceConstraint(RACK, size),))
    pod_set = TASPodSetRequests("workers", count, {"cpu": 1}, request)
    first = find_topology_assignments_for_flavor(flavor_snapshot_of(nodes), [pod_set])
    assume(isinstance(first, TASAssignments))
    assert isinstance(first, TASAssignments)
    pods_before = {domain.values[0]: domain.pods for domain in first.assignments["workers"].domains}
    unhealthy_node = data.draw(st.sampled_from(sorted(pods_before)))
    remaining_hosts = [
        host._replace(cpus=host.cpus - pods_before.get(host.name, 0)) for host in nodes if host.name != unhealthy_node
    ]
    result = find_replacement_assignments(
        flavor_snapshot_of(remaining_hosts), [pod_set], first.assignments, unhealthy_node
    )
    if isinstance(result, TASAssignments):
        pods_after = {domain.values[0]: domain.pods for domain in result.assignments["workers"].domains}
        assert sum(pods_after.values()) == pod_set.pod_count
        assert all(pods_before[host] <= pods_after[host] for host in pods_before if host != unhealthy_node)
        assert all(
            pods_after.get(host.name, 0) - pods_before.get(host.name, 0) <= host.cpus for host in remaining_hosts
        )
        paths = {host.name: host.path for host in remaining_hosts}
        assert len({paths[host][0] for host in pods_after}) == 1
        pods_by_rack = Counter[tuple[str, ...]]()
        for host, pods in pods_after.items():
            pods_by_rack[paths[host][:2]] += pods
        assert sorted({0, *(pods % size for pods in pods_by_rack.values())}) == sorted({0, count % size})
        assert sum(pods % size > 0 for pods in pods_by_rack.values()) <= 1
