"""Flavors: which nodes suit, where the scan stops, what is in the way, several pod sets, fewer pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import KEYS, running, snapshots, usages, waiting
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, FlavorFungibility, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.cycle.nomination import search_pod_counts
from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState
from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner, check_flavor_for_pod_set
from zonewise_scheduler.quota.flavorassigner.flavorassigner import assign_flavors
from zonewise_scheduler.quota.flavorassigner.granular_mode import (
    BEST_GRANULAR_MODE,
    WORST_GRANULAR_MODE,
    FlavorAssignmentMode,
    GranularMode,
    PreemptionMode,
    is_preferred,
)
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot, fits
from zonewise_scheduler.quota.preemption.preemption_oracle import new_oracle

if TYPE_CHECKING:
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment

SPOT = ResourceFlavor("spot", {"type": "spot"}, (Taint("spot", "yes", "NoSchedule"),))


def request(snapshot: Snapshot, workload: Workload, queue: str = "q", **more: Any) -> FlavorAssigner:
    return FlavorAssigner(
        snapshot, workload, snapshot.cluster_queues[queue], new_oracle(snapshot, DEFAULT_SETTINGS), **more
    )


def two_flavors(first: int, second: int, **more: Any) -> Snapshot:
    """A queue with CPUs of an old and a new flavor."""
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(one)),)) for name, one in (("old", first), ("new", second))]
    return Snapshot([ClusterQueue("q", (resource_group(*flavors),), **more)])


def chosen(assignment: Assignment) -> list[dict[str, str]]:
    return [{name: one.name for name, one in pods.flavors.items()} for pods in assignment.pod_sets]


# --- properties


@given(snapshots(), st.integers(0, 9), st.integers(0, 4))
def test_what_fits_has_room_and_the_snapshot_is_as_before(snapshot: Snapshot, amount: int, priority: int) -> None:
    before = usages(snapshot)
    for name, queue in snapshot.cluster_queues.items():
        found = assign_flavors(request(snapshot, waiting("new", amount, priority), name))
        assert found.representative_mode != FlavorAssignmentMode.FIT or fits(queue, found.usage)
        assert (found.no_fit_reason == "") == (found.representative_mode != FlavorAssignmentMode.NO_FIT)
        assert found.representative_mode == FlavorAssignmentMode.FIT or any(one.statuses for one in found.pod_sets)
        assert found.representative_mode != FlavorAssignmentMode.NO_FIT or not any(
            amount <= queue.available(key) for key in KEYS
        )
    assert usages(snapshot) == before


GRADES = st.builds(GranularMode, st.sampled_from(PreemptionMode), st.integers(0, 2))
RULES = st.sampled_from([FlavorFungibility(), FlavorFungibility(preference="PreemptionOverBorrowing")])


@given(GRADES, GRADES, GRADES, RULES)
def test_preference_is_an_order(
    one: GranularMode, other: GranularMode, third: GranularMode, rules: FlavorFungibility
) -> None:
    """At most one of two is better, better than better is better, and nothing is better than the best."""
    assert not (is_preferred(one, other, rules) and is_preferred(other, one, rules))
    if is_preferred(one, other, rules) and is_preferred(other, third, rules):
        assert is_preferred(one, third, rules)
    assert not is_preferred(one, BEST_GRANULAR_MODE, rules)
    assert is_preferred(one, WORST_GRANULAR_MODE, rules) == (one.preemption_mode != PreemptionMode.NO_FIT)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4), st.integers(0, 40))
def test_as_many_pods_as_fit(sets: list[tuple[int, int]], room: int) -> None:
    """Within each pod set's bounds; one more step towards all of them would not fit."""
    pod_sets = [PodSet(f"{place}", least + more, min_pods=least) for place, (least, more) in enumerate(sets)]
    found = search_pod_counts(pod_sets, lambda counts: counts if sum(counts) <= room else None)
    least, most = sum(least for least, _ in sets), sum(one.pods for one in pod_sets)
    if most == least:
        assert found is None
    elif found is None:
        assert least > room
    else:
        assert all(
            one.min_pods <= count <= one.pods
            for one, count in zip(pod_sets, found, strict=True)
            if one.min_pods is not None
        )
        assert sum(found) <= room
        assert sum(found) == most or sum(found) + len(sets) > room


# --- nodes


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


def test_a_flavor_may_bring_tolerations() -> None:
    assert not check_flavor_for_pod_set(PodSet(), SPOT._replace(tolerations=(Toleration("spot", "Exists"),)))


def is_in(key: str, *values: str) -> Requirement:
    return Requirement(key, "In", values)


@pytest.mark.parametrize(
    ("pod_set", "suits"),
    [
        (PodSet(node_selector=(is_in("type", "spot"), is_in("zone", "a"))), True),
        (PodSet(node_selector=(is_in("type", "other"),)), False),
        (PodSet(required_terms=(NodeSelectorTerm((is_in("type", "other"),)), NodeSelectorTerm((is_in("type", "spot"),)))), True),
        (PodSet(required_terms=(NodeSelectorTerm((is_in("type", "other"),)),)), False),
        (PodSet(required_terms=(NodeSelectorTerm((is_in("type", "other"), is_in("zone", "a"))),)), False),
        (PodSet(required_terms=(NodeSelectorTerm((is_in("type", "other"),)), NodeSelectorTerm((is_in("zone", "a"),)))), True),
    ],
)
def test_only_labels_of_the_flavor_are_looked_at(pod_set: PodSet, suits: bool) -> None:
    """A term of other labels alone makes the affinity hold."""
    assert (check_flavor_for_pod_set(pod_set, SPOT._replace(node_taints=())) == "") == suits


# --- the scan


def test_the_scan_goes_on_where_it_ended() -> None:
    snapshot = two_flavors(4, 4)
    progress = AssignmentClusterQueueState({"main": {"cpu": 0}})
    assert chosen(assign_flavors(request(snapshot, waiting("new", 2)))) == [{"cpu": "old"}]
    assert chosen(assign_flavors(request(snapshot, waiting("new", 2), last_assignment=progress))) == [{"cpu": "new"}]


def test_pod_sets_count_on_what_those_before_them_get() -> None:
    sets = tuple(PodSet(name, requests={"cpu": 3}) for name in ("one", "two"))
    found = assign_flavors(request(two_flavors(4, 4), Workload("ns", "new", sets)))
    assert chosen(found) == [{"cpu": "old"}, {"cpu": "new"}]
    assert found.usage == {FlavorResource("old", "cpu"): 3, FlavorResource("new", "cpu"): 3}


def test_what_is_in_the_way_is_told() -> None:
    """Of each flavor: which, how much is missing, and whether it is only in use."""
    snapshot = two_flavors(2, 4)
    snapshot.add_workload(running("w", "q", FlavorResource("new", "cpu"), 3))
    found = assign_flavors(request(snapshot, waiting("new", 3)))
    assert [(one.reason, one.flavor, one.missing) for one in found.pod_sets[0].statuses] == [
        ("ExceedsMaxQuota", "old", 1),
        ("InUse", "new", 2),
    ]
    assert assign_flavors(request(snapshot, waiting("new", 9))).no_fit_reason == "ExceedsMaxQuota"


def test_a_resource_without_quota() -> None:
    """It does not fit, unless nothing of it is asked for, or what is not declared does not count."""
    snapshot = two_flavors(4, 4)
    for amount, ignored, mode in (
        (1, False, FlavorAssignmentMode.NO_FIT),
        (0, False, FlavorAssignmentMode.FIT),
        (1, True, FlavorAssignmentMode.FIT),
    ):
        new = Workload("ns", "new", (PodSet(requests={"cpu": 1, "gpu": amount}),))
        found = assign_flavors(
            request(snapshot, new, settings=DEFAULT_SETTINGS._replace(ignore_undeclared_resources=ignored))
        )
        assert found.representative_mode == mode
        assert found.no_fit_reason == ("NoMatchingFlavor" if mode == FlavorAssignmentMode.NO_FIT else "")


def test_which_resource_is_told_of() -> None:
    """The first that lacks, in Kueue's order of resources: memory is before CPUs, and devices may be between."""
    groups = (
        resource_group(FlavorQuotas("nodes", (("cpu", ResourceQuota(1)),))),
        resource_group(FlavorQuotas("memory", (("memory", ResourceQuota(1)),))),
    )
    snapshot = Snapshot([ClusterQueue("q", groups)])
    for wanted, first, why in (
        ({"cpu": 2, "memory": 2}, "memory", "ExceedsMaxQuota"),
        ({"cpu": 2, "example.com/gpu": 1}, "example.com/gpu", "NoMatchingFlavor"),
        ({"cpu": 2, "memory": 1}, "cpu", "ExceedsMaxQuota"),
    ):
        found = assign_flavors(request(snapshot, Workload("ns", "new", (PodSet(requests=wanted),))))
        assert ([one.resource for one in found.pod_sets[0].statuses], found.no_fit_reason) == ([first], why)


def test_pinned_flavors() -> None:
    new = waiting("new", 2)
    found = assign_flavors(request(two_flavors(4, 4), new, nomination_mapping={"main": {"cpu": "new"}}))
    assert chosen(found) == [{"cpu": "new"}]
    assert (
        assign_flavors(
            request(two_flavors(4, 4), replace(new, allowed_flavors=frozenset({"none"})))
        ).representative_mode
        == FlavorAssignmentMode.NO_FIT
    )
