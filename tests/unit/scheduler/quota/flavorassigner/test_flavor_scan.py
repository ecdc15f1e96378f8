"""Which nodes suit pods: taints, node selectors and affinity."""

from __future__ import annotations

import pytest

from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.flavorassigner.flavor_scan import check_flavor_for_pod_set

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
