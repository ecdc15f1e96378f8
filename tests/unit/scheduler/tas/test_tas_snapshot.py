"""Placements among existing ones: overlapping flavors, replacement, preemption and second passes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.tas_clusters import Host, hosts_of, job, pods_of, preempting_queue, snapshot_of
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS, QuotaSettings
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
    needs_second_pass,
)
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

ONE_HOST = PodSetTopologyRequest(HOSTNAME)


def run_one_cycle(
    snapshot: Snapshot, *heads: tuple[str, Workload], settings: QuotaSettings = DEFAULT_SETTINGS
) -> dict[str, Decision]:
    """Return the decisions by workload."""
    decisions = run_cycle(snapshot, [Head(workload, name) for name, workload in heads], settings, 1.0)
    return {decision.workload.name: decision for decision in decisions}


def admit(snapshot: Snapshot, name: str, workload: Workload) -> Workload:
    """Return the workload after its admission to a queue."""
    decision = run_one_cycle(snapshot, (name, workload))[workload.name]
    assert decision.status == "admitted"
    return decision.workload


def with_unhealthy_nodes(snapshot: Snapshot, workload: Workload, *hosts: str) -> Workload:
    """Return a running workload after some of its hosts became unhealthy."""
    updated = replace(workload, unhealthy_nodes=hosts)
    snapshot.remove_workload(workload)
    snapshot.add_workload(updated)
    return updated


def test_flavors_share_hosts() -> None:
    """Capacity used by pods of one flavor also counts as used for the other flavor, in the same cycle."""
    queues = [preempting_queue("a", 9, ("all",)), preempting_queue("b", 9, ("fast",))]
    heads = [(name, job(f"of-{name}", pods_of(3, request=ONE_HOST), created=float(name == "b"))) for name in "ab"]
    decisions = run_one_cycle(snapshot_of(queues, [Host("one", "x", 4), Host("two", "x", 3)]), *heads)
    assert {name: hosts_of(decision.workload) for name, decision in decisions.items()} == {
        "of-a": {"main": {"one": 1}},
        "of-b": {"main": {"two": 1}},
    }


def test_pod_sets_of_one_workload_in_two_flavors() -> None:
    """The second pod set does not use the host of the first one."""
    snapshot = snapshot_of([preempting_queue("a", 3, ("fast", "all"))], [Host("one", "x", 3), Host("two", "x", 3)])
    pod_sets = [pods_of(3, request=ONE_HOST, name=name) for name in ("first", "second")]
    workload = admit(snapshot, "a", job("both", *pod_sets))
    assert sorted(host for hosts in hosts_of(workload).values() for host in hosts) == ["one", "two"]


def test_leader_and_workers_in_one_rack() -> None:
    hosts = [Host("one", "x", 2), Host("two", "y", 2), Host("three", "y", 1)]
    pod_sets = [
        pods_of(1, count, PodSetTopologyRequest("rack"), name) for name, count in (("leader", 1), ("workers", 2))
    ]
    grouped = [
        pod_set._replace(topology=pod_set.topology and pod_set.topology._replace(pod_set_group_name="g"))
        for pod_set in pod_sets
    ]
    workload = admit(snapshot_of([preempting_queue("a", 9)], hosts), "a", job("one", *grouped))
    assert {host for pods_by_host in hosts_of(workload).values() for host in pods_by_host} == {"two", "three"}


def test_implied_request_if_all_flavors_have_topologies() -> None:
    snapshot = snapshot_of([preempting_queue("a", 9)], [Host("one", "x", 2)])
    assert hosts_of(admit(snapshot, "a", job("one", PodSet(requests={"cpu": 2})))) == {"main": {"one": 1}}
    assert run_one_cycle(snapshot, ("a", job("two", PodSet(requests={"cpu": 1}))))["two"].status == "waiting"


def test_quota_that_counts_other_resources_than_nodes() -> None:
    """The quota counts credits, but the host provides CPUs."""
    snapshot = snapshot_of([preempting_queue("a", 9)], [Host("one", "x", 2)])
    pod_set = pods_of(2)._replace(requests={"cpu": 9}, node_requests={"cpu": 2})
    assert hosts_of(admit(snapshot, "a", job("one", pod_set))) == {"main": {"one": 1}}


def test_invalid_group_has_no_placement() -> None:
    """The reason is reported, and the cycle continues with the other workloads."""
    pod_sets = [pods_of(1, 2, PodSetTopologyRequest("rack"), name) for name in ("one", "two")]
    grouped = [
        pod_set._replace(topology=pod_set.topology and pod_set.topology._replace(pod_set_group_name="g"))
        for pod_set in pod_sets
    ]
    snapshot = snapshot_of([preempting_queue("a", 99), preempting_queue("b", 9)], [Host("one", "x", 9)])
    decisions = run_one_cycle(snapshot, ("a", job("wrong", *grouped)), ("b", job("right", pods_of(1))))
    assert {name: decision.status for name, decision in decisions.items()} == {"wrong": "waiting", "right": "admitted"}
    assert "not a leader of one pod and its workers" in str(decisions["wrong"].assignment)


def test_unhealthy_nodes_of_an_earlier_run_are_ignored() -> None:
    snapshot = snapshot_of([preempting_queue("a", 9)], [Host("one", "x", 2)])
    workload = admit(snapshot, "a", replace(job("again", pods_of(2)), unhealthy_nodes=("gone", "too")))
    assert (hosts_of(workload), workload.unhealthy_nodes) == ({"main": {"one": 1}}, ())


# --- preemption


def test_victims_use_the_required_hosts() -> None:
    """The quota suffices for all workloads; the victim is the workload on the required host."""
    snapshot = snapshot_of([preempting_queue("a", 99)], [Host("one", "x", 4), Host("two", "y", 4)])
    for name, priority in (("low", 1), ("high", 5)):
        admit(snapshot, "a", job(name, pods_of(3), priority=priority))
    decision = run_one_cycle(snapshot, ("a", job("new", pods_of(2, 2, PodSetTopologyRequest("rack")), priority=3)))[
        "new"
    ]
    assert (decision.status, [target.workload.name for target in decision.preemption_targets]) == (
        "preempting",
        ["low"],
    )


@pytest.mark.parametrize("recompute", [True, False])
def test_assignment_is_held_while_victims_run(recompute: bool) -> None:
    """A preemptor holds its assignment. Other workloads get another one if the gate allows a new search."""
    snapshot = snapshot_of(
        [preempting_queue("a", 9), preempting_queue("b", 9, cohort="")], [Host("one", "x", 4), Host("two", "y", 6)]
    )
    admit(snapshot, "a", job("low", pods_of(2)))
    heads = [("a", job("first", pods_of(4, 2), priority=9)), ("b", job("second", pods_of(2, request=ONE_HOST)))]
    decisions = run_one_cycle(snapshot, *heads, settings=QuotaSettings(recompute_topology_assignment=recompute))
    assert decisions["first"].status == "preempting"
    assert (decisions["second"].status, hosts_of(decisions["second"].workload)) == (
        ("admitted", {"main": {"two": 1}}) if recompute else ("skipped", {})
    )


def test_capacity_of_running_victims_is_not_used() -> None:
    """The victim's host has capacity for two pods after the preemption, but only for one before."""
    queues = [
        preempting_queue("lends", 5),
        preempting_queue("borrows", 0),
        preempting_queue("f", 9, cohort=""),
        preempting_queue("g", 9, cohort=""),
    ]
    snapshot = snapshot_of(queues, [Host("large", "x", 10), Host("small", "x", 3)])
    victim = admit(snapshot, "borrows", job("victim", pods_of(5)))
    assert hosts_of(victim) == {"main": {"large": 1}}
    heads = [("lends", job("first", pods_of(3, request=ONE_HOST), priority=9))]
    heads += [(name, job(name, pods_of(5), created=float(i))) for i, name in enumerate("fg")]
    decisions = run_one_cycle(snapshot, *heads)
    assert {name: decision.status for name, decision in decisions.items()} == {
        "first": "preempting",
        "f": "admitted",
        "g": "waiting",
    }


def test_assignment_on_a_victims_host_leaves_free_capacity() -> None:
    """The held assignment uses the victim's capacity, not the capacity that is free now."""
    snapshot = snapshot_of([preempting_queue("a", 99), preempting_queue("b", 9, cohort="")], [Host("one", "x", 6)])
    admit(snapshot, "a", job("low", pods_of(5)))
    decisions = run_one_cycle(snapshot, ("a", job("first", pods_of(3), priority=9)), ("b", job("second", pods_of(1))))
    assert {name: decision.status for name, decision in decisions.items()} == {
        "first": "preempting",
        "second": "admitted",
    }


# --- second passes


def test_pods_of_an_unhealthy_node_are_replaced() -> None:
    """The other pods are not moved, and the unhealthy node's capacity is not used in the same cycle."""
    snapshot = snapshot_of([preempting_queue("a", 99)], [Host(name, "x", 2) for name in ("one", "two", "three")])
    workload = with_unhealthy_nodes(snapshot, admit(snapshot, "a", job("moves", pods_of(2, 2))), "one")
    assert needs_second_pass(workload, snapshot.tas_snapshot)
    decisions = run_one_cycle(snapshot, ("a", workload), ("a", job("new", pods_of(2))))
    assert decisions["new"].status == "waiting"
    moved = decisions["moves"].workload
    assert (hosts_of(moved), moved.unhealthy_nodes) == ({"main": {"three": 1, "two": 1}}, ())
    assert not needs_second_pass(moved, snapshot.tas_snapshot)
    assert hosts_of(admit(snapshot, "a", job("new", pods_of(2)))) == {"main": {"one": 1}}


@pytest.mark.parametrize(("fail_fast", "status"), [(True, "evicted"), (False, "waiting")])
@pytest.mark.parametrize("hosts", [("one",), ("one", "two")])
def test_pods_without_a_replacement(fail_fast: bool, status: str, hosts: tuple[str, ...]) -> None:
    """A replacement never preempts workloads, and if several nodes fail at once, their pods are not replaced."""
    snapshot = snapshot_of([preempting_queue("a", 99)], [Host(name, "x", 2) for name in ("one", "two", "three")])
    workload = admit(snapshot, "a", job("stays", pods_of(2, 2), priority=9))
    if len(hosts) == 1:
        admit(snapshot, "a", job("other", pods_of(2)))
    workload = with_unhealthy_nodes(snapshot, workload, *hosts)
    decision = run_one_cycle(snapshot, ("a", workload), settings=QuotaSettings(fail_fast_node_replacement=fail_fast))[
        "stays"
    ]
    assert (decision.status, decision.preemption_targets, hosts_of(decision.workload)) == (
        status,
        (),
        hosts_of(workload),
    )


@pytest.mark.parametrize("quota", [9, 0])
def test_a_replaced_node_adds_no_flavor(quota: int) -> None:
    """Since the admission, the queue has received quota for GPUs. The workload keeps its flavors and continues."""
    before, hosts = preempting_queue("a", 9), [Host("one", "x", 2), Host("two", "x", 2)]
    gpus = resource_group(FlavorQuotas("fast", (("gpu", ResourceQuota(quota)),)))
    after = before._replace(resource_groups=(*before.resource_groups, gpus))
    settings = DEFAULT_SETTINGS._replace(resources=ResourceSettings("IgnoreUndeclared"))
    new = job("one", pods_of(2)._replace(requests={"cpu": 2, "gpu": 1}, node_requests={"cpu": 2}))
    admitted = run_one_cycle(snapshot_of([before], hosts), ("a", new), settings=settings)["one"].workload
    snapshot = snapshot_of([after], hosts)
    snapshot.add_workload(admitted)
    moved = with_unhealthy_nodes(snapshot, admitted, "one")
    decision = run_one_cycle(snapshot, ("a", moved), settings=settings)["one"]
    assert (decision.status, hosts_of(decision.workload)) == ("admitted", {"main": {"two": 1}})
    assert decision.workload.usage == admitted.usage == {FlavorResource("all", "cpu"): 2}


def test_replacement_on_the_same_node_uses_its_capacity() -> None:
    """The node is ready again. After the first pod set's replacement, too little is left for the second."""
    snapshot = snapshot_of([preempting_queue("a", 99)], [Host("one", "x", 3), Host("two", "x", 5)])
    workload = admit(snapshot, "a", job("moves", pods_of(1, name="first"), pods_of(1, name="second")))
    assert hosts_of(workload) == {"first": {"one": 1}, "second": {"one": 1}}
    moved = admit(snapshot, "a", with_unhealthy_nodes(snapshot, workload, "one"))
    assert hosts_of(moved) == {"first": {"one": 1}, "second": {"two": 1}}


def test_groups_are_replaced_pod_set_by_pod_set() -> None:
    """Workers are replaced directly after their leader, before pod sets between them."""
    snapshot = snapshot_of(
        [preempting_queue("a", 99)], [Host("one", "x", 2), Host("two", "x", 3), Host("three", "x", 9)]
    )
    other = admit(snapshot, "a", job("other", pods_of(2)))
    pod_sets = [pods_of(1, name=name) for name in ("leader", "between", "workers")]
    for i in (0, 2):
        topology = pod_sets[i].topology
        assert topology is not None
        pod_sets[i] = pod_sets[i]._replace(topology=topology._replace(pod_set_group_name="g"))
    workload = admit(snapshot, "a", job("moves", *pod_sets))
    assert {host for hosts in hosts_of(workload).values() for host in hosts} == {"two"}
    snapshot.remove_workload(other)
    moved = admit(snapshot, "a", with_unhealthy_nodes(snapshot, workload, "two"))
    assert hosts_of(moved) == {"leader": {"one": 1}, "between": {"three": 1}, "workers": {"one": 1}}


def test_a_single_pod_is_not_replaced() -> None:
    """The pod cannot move, so its workload ends with it."""
    snapshot = snapshot_of([preempting_queue("a", 99)], [Host(name, "x", 2) for name in ("one", "two")])
    workload = admit(snapshot, "a", replace(job("pod", pods_of(2)), owned_by_single_pod=True))
    decision = run_one_cycle(snapshot, ("a", with_unhealthy_nodes(snapshot, workload, "one")))["pod"]
    assert (decision.status, hosts_of(decision.workload)) == ("admitted", {"main": {"one": 1}})


def test_second_pass_after_provisioning() -> None:
    """The first pass reserves quota without nodes; the second one finds an assignment although the quota is used up."""
    rule = AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER)
    spec = preempting_queue("a", 2)._replace(admission_checks=(rule,))
    empty = snapshot_of([spec], [])
    pending = admit(empty, "a", job("one", pods_of(2)))
    assert (hosts_of(pending), pending.admitted_pod_sets["main"].delayed_topology_request) == ({}, "Pending")
    assert needs_second_pass(pending, empty.tas_snapshot)
    snapshot = snapshot_of([spec], [Host("new", "x", 2)])
    snapshot.add_workload(pending)
    placed = admit(snapshot, "a", pending)
    assert (hosts_of(placed), placed.admitted_pod_sets["main"].delayed_topology_request) == (
        {"main": {"new": 1}},
        "Ready",
    )
    assert placed.admission is not None
    assert (placed.admission.reserved_at, snapshot.workloads_by_queue["a"]) == (1.0, {placed.key: placed})
    assert not needs_second_pass(placed, snapshot.tas_snapshot)


def test_only_admitted_pods_are_assigned() -> None:
    """After partial admission, only the admitted pods are assigned and replaced; their usage does not change."""
    spec = preempting_queue("a", 3)._replace(
        admission_checks=(AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER),)
    )
    pending = admit(snapshot_of([spec], []), "a", job("one", pods_of(1, 5)._replace(min_pods=1)))
    snapshot = snapshot_of([spec], [Host("old", "x", 3), Host("new", "y", 9)])
    snapshot.add_workload(pending)
    placed = admit(snapshot, "a", pending)
    moved = admit(snapshot, "a", with_unhealthy_nodes(snapshot, placed, "old"))
    for workload, host in ((placed, "old"), (moved, "new")):
        admitted = workload.admitted_pod_sets["main"]
        assert (hosts_of(workload), admitted.pods, admitted.usage) == ({"main": {host: 3}}, 3, {"cpu": 3})


PAIRS = PodSetTopologyRequest(slice_constraints=(SliceConstraint(HOSTNAME, 2),))


def test_a_job_whose_first_pods_have_finished_restarts() -> None:
    """It may have lost its quota since then. The five remaining pods are two pairs and one pod."""
    pending = replace(job("one", pods_of(1, 6, PAIRS)), reclaimable_pods={"main": 1})
    restarted = admit(snapshot_of([preempting_queue("a", 9)], [Host("h1", "x", 3), Host("h2", "x", 4)]), "a", pending)
    assert hosts_of(restarted) == {"main": {"h1": 2, "h2": 3}}


def test_partial_admission_finds_the_largest_number_of_pods_in_slices() -> None:
    pending = job("one", pods_of(1, 8, PAIRS)._replace(min_pods=2))
    admitted = admit(snapshot_of([preempting_queue("a", 9)], [Host("h1", "x", 6)]), "a", pending)
    assert hosts_of(admitted) == {"main": {"h1": 6}}


def test_second_pass_preempts() -> None:
    """The workload already has its quota, but its nodes are in use."""
    spec = preempting_queue("a", 3)._replace(
        admission_checks=(AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER),)
    )
    pending = admit(snapshot_of([spec], []), "a", job("one", pods_of(2), priority=9))
    snapshot = snapshot_of([preempting_queue("a", 3)], [Host("new", "x", 2)])
    admit(snapshot, "a", job("low", pods_of(1)))
    snapshot.add_workload(pending)
    decision = run_one_cycle(snapshot, ("a", pending))["one"]
    assert (decision.status, [target.workload.name for target in decision.preemption_targets]) == (
        "preempting",
        ["low"],
    )


@pytest.mark.parametrize(
    ("rule", "delayed"),
    [
        (AdmissionCheckStrategyRule("one", frozenset({"all"}), PROVISIONING_REQUEST_CONTROLLER), "Pending"),
        (AdmissionCheckStrategyRule("one", frozenset({"fast"}), PROVISIONING_REQUEST_CONTROLLER), ""),
        (AdmissionCheckStrategyRule("one", frozenset({"fast"}), MULTIKUEUE_CONTROLLER), "Pending"),
        (AdmissionCheckStrategyRule("one"), ""),
    ],
)
def test_checks_that_delay_assignments(rule: AdmissionCheckStrategyRule, delayed: str) -> None:
    snapshot = snapshot_of([preempting_queue("a", 2)._replace(admission_checks=(rule,))], [Host("one", "x", 2)])
    workload = admit(snapshot, "a", job("one", pods_of(2)))
    assert (workload.admitted_pod_sets["main"].delayed_topology_request, bool(hosts_of(workload))) == (
        delayed,
        not delayed,
    )


def test_stale_assignments_use_no_capacity() -> None:
    """The usage of a workload on a deleted node can be added and removed without effect on other nodes."""
    hosts = [Host("one", "x", 2), Host("two", "x", 2)]
    old = admit(snapshot_of([preempting_queue("a", 9)], hosts), "a", job("old", pods_of(2, 2)))
    snapshot = snapshot_of([preempting_queue("a", 9)], hosts[1:])
    snapshot.add_workload(old)
    assert run_one_cycle(snapshot, ("a", job("new", pods_of(1))))["new"].status == "waiting"
    snapshot.remove_workload(old)
    assert hosts_of(admit(snapshot, "a", job("new", pods_of(2)))) == {"main": {"two": 1}}
    assert not snapshot.tas_snapshot.fits(old)


def test_the_pods_of_a_replaced_slice_stay_on_their_hosts() -> None:
    """Only the additional pods are placed. A host that is gone has no pods, and fewer pods are truncated."""
    hosts = [Host(name, "x", 4) for name in ("one", "two", "three")]
    snapshot = snapshot_of([preempting_queue("q", 12, ("all",))], hosts)
    other = admit(snapshot, "q", job("other", pods_of(1, 2)))
    old = admit(snapshot, "q", job("old", pods_of(1, 4)))
    snapshot.remove_workload(other)
    before = hosts_of(old)["main"]
    new = replace(job("new", pods_of(1, 7)), replaces=old.key)
    grown = admit(snapshot, "q", new)
    assert all(hosts_of(grown)["main"][host] >= pods for host, pods in before.items())
    assert sum(hosts_of(grown)["main"].values()) == 7
    assert list(snapshot.workloads_by_queue["q"]) == [grown.key]
    shrunk = admit(snapshot, "q", replace(job("newer", pods_of(1, 2)), replaces=grown.key))
    assert sum(hosts_of(shrunk)["main"].values()) == 2
    assert hosts_of(shrunk)["main"].keys() <= hosts_of(grown)["main"].keys()
    full = admit(snapshot, "q", replace(job("newest", pods_of(1, 12)), replaces=shrunk.key))
    assert hosts_of(full)["main"] == {"one": 4, "two": 4, "three": 4}


def test_a_slice_that_requests_a_level_cannot_replace_another() -> None:
    snapshot = snapshot_of([preempting_queue("q", 9, ("all",))], [Host("one", "x", 9)])
    old = admit(snapshot, "q", job("old", pods_of(2, request=ONE_HOST)))
    new = replace(job("new", pods_of(3, request=ONE_HOST)), replaces=old.key)
    decision = run_one_cycle(snapshot, ("q", new))["new"]
    assert decision.status == "waiting"
    assert decision.assignment is not None
    assert decision.assignment.pod_sets[0].error == "a job that grows can keep no required or preferred level"
