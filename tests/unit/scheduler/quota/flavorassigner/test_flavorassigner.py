"""Flavor assignment: where the scan stops, the reported reasons, several pod sets, and nomination mappings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import (
    CPU,
    KEYS,
    cpu_queue,
    nonzero_usage,
    pending_workload,
    running_workload,
    snapshots,
)
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.quota.api.amount import hash_resource_name
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.flavorassigner.assignment import (
    AssignmentClusterQueueState,
    least_severe_reason,
    most_severe_reason,
)
from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import assign_flavors
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot, fits
from zonewise_scheduler.quota.preemption.preemption_oracle import new_oracle

if TYPE_CHECKING:
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, NoFitReason


def make_assigner(snapshot: Snapshot, workload: Workload, queue: str = "q", **fields: Any) -> FlavorAssigner:
    oracle = new_oracle(snapshot, DEFAULT_SETTINGS)
    return FlavorAssigner(snapshot, workload, snapshot.cluster_queues[queue], oracle, **fields)


def two_flavors(old: int, new: int) -> Snapshot:
    """A queue with CPUs of an old and a new flavor."""
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(amount)),)) for name, amount in (("old", old), ("new", new))]
    return Snapshot([ClusterQueue("q", (resource_group(*flavors),))])


def flavor_names(assignment: Assignment) -> list[dict[str, str]]:
    return [{resource: flavor.name for resource, flavor in pod_set.flavors.items()} for pod_set in assignment.pod_sets]


@given(snapshots(), st.integers(0, 9), st.integers(0, 4))
def test_the_mode_agrees_with_the_available_quota(snapshot: Snapshot, amount: int, priority: int) -> None:
    """The snapshot does not change."""
    before = nonzero_usage(snapshot)
    for name, queue in snapshot.cluster_queues.items():
        assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", amount, priority), name))
        mode = assignment.representative_mode
        assert mode != FlavorAssignmentMode.FIT or fits(queue, assignment.usage)
        assert (assignment.no_fit_reason == "") == (mode != FlavorAssignmentMode.NO_FIT)
        assert mode == FlavorAssignmentMode.FIT or any(pod_set.statuses for pod_set in assignment.pod_sets)
        assert mode != FlavorAssignmentMode.NO_FIT or not any(amount <= queue.available(key) for key in KEYS)
    assert nonzero_usage(snapshot) == before


def test_the_scan_goes_on_where_it_ended() -> None:
    snapshot, new = two_flavors(4, 4), pending_workload("new", 2)
    state = AssignmentClusterQueueState({"main": {"cpu": 0}})
    assert flavor_names(assign_flavors(make_assigner(snapshot, new))) == [{"cpu": "old"}]
    assert flavor_names(assign_flavors(make_assigner(snapshot, new, last_assignment=state))) == [{"cpu": "new"}]


def test_pod_sets_count_the_usage_of_those_before_them() -> None:
    pod_sets = tuple(PodSet(name, requests={"cpu": 3}) for name in ("leader", "workers"))
    assignment = assign_flavors(make_assigner(two_flavors(4, 4), Workload("ns", "new", pod_sets)))
    assert flavor_names(assignment) == [{"cpu": "old"}, {"cpu": "new"}]
    assert assignment.usage == {FlavorResource("old", "cpu"): 3, FlavorResource("new", "cpu"): 3}


def test_statuses_have_the_reason_of_each_flavor() -> None:
    """With the missing amount, and whether it is only in use."""
    snapshot = two_flavors(2, 4)
    snapshot.add_workload(running_workload("w", "q", FlavorResource("new", "cpu"), 3))
    statuses = assign_flavors(make_assigner(snapshot, pending_workload("new", 3))).pod_sets[0].statuses
    assert [(status.reason, status.flavor, status.missing) for status in statuses] == [
        ("ExceedsMaxQuota", "old", 1),
        ("InUse", "new", 2),
    ]
    assert assign_flavors(make_assigner(snapshot, pending_workload("new", 9))).no_fit_reason == "ExceedsMaxQuota"


def test_a_resource_without_quota() -> None:
    """The workload does not fit, unless it requests 0, or undeclared resources are ignored."""
    snapshot = two_flavors(4, 4)
    for amount, ignored, mode in (
        (1, False, FlavorAssignmentMode.NO_FIT),
        (0, False, FlavorAssignmentMode.FIT),
        (1, True, FlavorAssignmentMode.FIT),
    ):
        new = Workload("ns", "new", (PodSet(requests={"cpu": 1, "gpu": amount}),))
        settings = DEFAULT_SETTINGS._replace(ignore_undeclared_resources=ignored)
        assignment = assign_flavors(make_assigner(snapshot, new, settings=settings))
        assert assignment.representative_mode == mode
        assert assignment.no_fit_reason == ("NoMatchingFlavor" if mode == FlavorAssignmentMode.NO_FIT else "")


def test_each_resource_gets_a_flavor_of_its_group() -> None:
    """However many resources of one group come before those of another."""
    names = sorted(["cpu", "memory", "example.com/a", "example.com/b"], key=hash_resource_name)
    together, alone = [names[0], names[1]], [names[2], names[3]]
    groups = tuple(
        resource_group(FlavorQuotas("-".join(each), tuple((name, ResourceQuota(4)) for name in each)))
        for each in (together, alone)
    )
    new = Workload("ns", "new", (PodSet(requests=dict.fromkeys(names, 1)),))
    assignment = assign_flavors(make_assigner(Snapshot([ClusterQueue("q", groups)]), new))
    assert flavor_names(assignment) == [{name: "-".join(each) for each in (together, alone) for name in each}]


def test_the_first_resource_that_lacks_quota_is_reported() -> None:
    """In Kueue's order of resources: memory is before CPUs, and devices may be between."""
    groups = (
        resource_group(FlavorQuotas("nodes", (("cpu", ResourceQuota(1)),))),
        resource_group(FlavorQuotas("memory", (("memory", ResourceQuota(1)),))),
    )
    snapshot = Snapshot([ClusterQueue("q", groups)])
    for requests, resource, reason in (
        ({"cpu": 2, "memory": 2}, "memory", "ExceedsMaxQuota"),
        ({"cpu": 2, "example.com/gpu": 1}, "example.com/gpu", "NoMatchingFlavor"),
        ({"cpu": 2, "memory": 1}, "cpu", "ExceedsMaxQuota"),
    ):
        assignment = assign_flavors(make_assigner(snapshot, Workload("ns", "new", (PodSet(requests=requests),))))
        resources = [status.resource for status in assignment.pod_sets[0].statuses]
        assert (resources, assignment.no_fit_reason) == ([resource], reason)


def test_only_mapped_and_allowed_flavors_are_tried() -> None:
    new = pending_workload("new", 2)
    mapping = {"main": {"cpu": "new"}}
    assert flavor_names(assign_flavors(make_assigner(two_flavors(4, 4), new, nomination_mapping=mapping))) == [
        {"cpu": "new"}
    ]
    disallowed = replace(new, allowed_flavors=frozenset({"none"}))
    assignment = assign_flavors(make_assigner(two_flavors(4, 4), disallowed))
    assert assignment.representative_mode == FlavorAssignmentMode.NO_FIT


def test_each_flavor_that_is_missing_has_its_own_reason() -> None:
    names = ("one", "two", "three")
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(4)),)) for name in names]
    snapshot = Snapshot([ClusterQueue("q", (resource_group(*flavors),))], resource_flavors={})
    [pod_set] = assign_flavors(make_assigner(snapshot, pending_workload("new", 2))).pod_sets
    assert [[status.flavor for status in flavor.statuses] for flavor in pod_set.considered_flavors] == [
        [name] for name in names
    ]


@pytest.mark.parametrize(("amount", "missing"), [(4, 0), (5, 1)])
def test_an_assignment_starts_without_usage(amount: int, missing: int) -> None:
    """A workload can have all quota of its queue, and not one more."""
    snapshot = Snapshot([cpu_queue("q", 4)])
    [pod_set] = assign_flavors(make_assigner(snapshot, pending_workload("new", amount))).pod_sets
    assert sum(status.missing for status in pod_set.statuses) == missing
    assert bool(pod_set.statuses) == bool(missing)


@pytest.mark.parametrize(("usage", "missing"), [({"cpu": 3}, 3), ({}, 6)])
def test_a_replaced_slice_gives_its_usage(usage: dict[str, int], missing: int) -> None:
    """Flavors are equal by name, also where the names are read from two objects. No usage is 0."""
    snapshot = Snapshot([cpu_queue("q", 4)])
    pods = PodSetAdmission("main", {"cpu": "".join(list(CPU.flavor))}, usage, 1)
    before = replace(pending_workload("before", 3), admission=Admission("q", (pods,), 0.0))
    assigner = make_assigner(snapshot, pending_workload("new", 10), replace_workload_slice=before)
    [pod_set] = assign_flavors(assigner).pod_sets
    assert [(status.reason, status.missing) for status in pod_set.statuses] == [("ExceedsMaxQuota", missing)]


@pytest.mark.parametrize(
    ("pod_set", "flavor", "known"), [("main", "a", "a"), ("main", "z", "z"), ("old", "any", "none")]
)
def test_a_slice_keeps_the_flavor_of_the_one_that_it_replaces(pod_set: str, flavor: str, known: str) -> None:
    """It gets no other flavor, although the quota is enough."""
    pods = PodSetAdmission(pod_set, {"cpu": flavor}, {"cpu": 3}, 1)
    before = replace(pending_workload("before", 3), admission=Admission("q", (pods,), 0.0))
    snapshot = Snapshot([cpu_queue("q", 4)])
    assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", 4), replace_workload_slice=before))
    assert assignment.representative_mode == FlavorAssignmentMode.NO_FIT
    [status] = assignment.pod_sets[0].statuses
    assert (status.reason, status.message) == ("NoMatchingFlavor", f"the job has {known}")


def test_flavors_whose_nodes_do_not_suit_the_pods_are_skipped() -> None:
    flavors = [ResourceFlavor("old", {"type": "old"}), ResourceFlavor("new", {"type": "new"})]
    spec = two_flavors(4, 4).cluster_queues["q"].spec
    snapshot = Snapshot([spec], resource_flavors=flavors)
    selector = (Requirement("type", "In", ("new",)),)
    new = Workload("ns", "new", (PodSet(requests={"cpu": 2}, node_selector=selector),))
    assignment = assign_flavors(make_assigner(snapshot, new))
    assert flavor_names(assignment) == [{"cpu": "new"}]
    mapping = {"main": {"cpu": "".join(["n", "ew"])}}
    assert flavor_names(assign_flavors(make_assigner(snapshot, new, nomination_mapping=mapping))) == [{"cpu": "new"}]


def test_of_flavors_in_one_group_the_least_severe_reason_is_reported() -> None:
    """They are alternatives: the second one has only to be freed by another queue of the cohort."""
    amounts = {"old": 1, "new": 4}
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(amount)),)) for name, amount in amounts.items()]
    lent = [FlavorQuotas(name, (("cpu", ResourceQuota(0)),)) for name in amounts]
    queues = [
        ClusterQueue("q", (resource_group(*lent),), "c"),
        ClusterQueue("lender", (resource_group(*flavors),), "c"),
    ]
    snapshot = Snapshot(queues)
    snapshot.add_workload(running_workload("w", "lender", FlavorResource("new", "cpu"), 4))
    assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", 2)))
    assert [status.reason for status in assignment.pod_sets[0].statuses] == ["ExceedsMaxQuota", "WaitingForQuota"]
    assert assignment.no_fit_reason == "WaitingForQuota"


def test_the_order_of_reasons() -> None:
    reasons: list[NoFitReason] = ["WaitingForQuota", "ExceedsMaxQuota", "WaitingForQuota"]
    assert (most_severe_reason(reasons), least_severe_reason(reasons)) == ("ExceedsMaxQuota", "WaitingForQuota")
    assert (most_severe_reason([]), least_severe_reason([])) == ("", "")
