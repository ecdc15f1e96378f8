"""Which nodes suit pods: taints, node selectors and affinity."""

from __future__ import annotations

import pytest

from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest
from zonewise_scheduler.quota.flavorassigner.flavor_scan import (
    check_flavor_for_pod_set,
    check_pod_set_and_flavor_match_for_tas,
)
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

SPOT = ResourceFlavor("spot", {"type": "spot"}, (Taint("spot", "yes", "NoSchedule"),))


@pytest.mark.parametrize(
    ("pod_set", "suits"),
    [
        (PodSet(), False),
        (PodSet(tolerations=(Toleration("spot", "Exists"),)), True),
        (PodSet(tolerations=(Toleration("spot", "Equal", "no"),)), False),
    ],
)
def test_taints(pod_set: PodSet, suits: bool) -> None:
    assert (check_flavor_for_pod_set(pod_set, SPOT) == "") == suits


def test_tolerations_of_the_flavor_count() -> None:
    assert not check_flavor_for_pod_set(PodSet(), SPOT._replace(tolerations=(Toleration("spot", "Exists"),)))


def is_in(key: str, *values: str) -> Requirement:
    return Requirement(key, "In", values)


def terms(*requirements: tuple[Requirement, ...]) -> tuple[NodeSelectorTerm, ...]:
    return tuple(NodeSelectorTerm(term) for term in requirements)


@pytest.mark.parametrize(
    ("pod_set", "suits"),
    [
        (PodSet(node_selector=(is_in("type", "spot"), is_in("zone", "a"))), True),
        (PodSet(node_selector=(is_in("type", "other"),)), False),
        (PodSet(required_terms=terms((is_in("type", "other"),), (is_in("type", "spot"),))), True),
        (PodSet(required_terms=terms((is_in("type", "other"),))), False),
        (PodSet(required_terms=terms((is_in("type", "other"), is_in("zone", "a")))), False),
        (PodSet(required_terms=terms((is_in("type", "other"),), (is_in("zone", "a"),))), True),
    ],
)
def test_only_labels_of_the_flavor_count(pod_set: PodSet, suits: bool) -> None:
    """A term on other labels alone makes the affinity hold."""
    assert (check_flavor_for_pod_set(pod_set, SPOT._replace(node_taints=())) == "") == suits


class Racks(EmptyTopologySnapshot):
    """The flavor spot has a topology with racks."""

    def has_topology(self, flavor: str) -> bool:
        return flavor == "spot"

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return request.request.required == "rack"


GROUP = resource_group(FlavorQuotas("spot", (("cpu", ResourceQuota(4)),)))


@pytest.mark.parametrize(
    ("level", "flavor", "topology", "resource", "only_topologies", "problem"),
    [
        ("", "spot", "", "cpu", False, ""),
        ("", "spot", "", "cpu", True, ""),
        ("", "spot", "racks", "cpu", True, ""),
        ("", "spot", "racks", "cpu", False, "its nodes are for pods that ask for placement"),
        ("rack", "spot", "", "cpu", False, "it has no topology"),
        ("rack", "spot", "", "memory", False, ""),
        ("rack", "other", "racks", "cpu", False, "its topology is not known"),
        ("rack", "spot", "racks", "cpu", False, ""),
        ("row", "spot", "racks", "cpu", False, "its topology lacks the level that is asked for"),
    ],
)
def test_topologies(
    level: str, flavor: str, topology: str, resource: str, problem: str, *, only_topologies: bool
) -> None:
    request = TopologyRequest(PodSetTopologyRequest(level)) if level else None
    pod_set = PodSet(requests={resource: 1}, topology=request)
    nodes = ResourceFlavor(flavor, topology_name=topology)
    found = check_pod_set_and_flavor_match_for_tas(pod_set, nodes, GROUP, Racks(), is_tas_only=only_topologies)
    assert found == problem
