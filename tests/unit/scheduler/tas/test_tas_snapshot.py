"""Places beside those that are taken: of flavors with common hosts, of pods that move, wait or start later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.tas_clusters import Host, hosts_of, job, pods_of, queue, snapshot_of
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS, QuotaSettings
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
    needs_second_pass,
)
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

ONE_HOST = PodSetTopologyRequest(HOSTNAME)


def cycle(
    snapshot: Snapshot, *heads: tuple[str, Workload], settings: QuotaSettings = DEFAULT_SETTINGS
) -> dict[str, Decision]:
    """The decisions, by the workload's name."""
    decisions = run_cycle(snapshot, [Head(one, name) for name, one in heads], settings, 1.0)
    return {one.workload.name: one for one in decisions}


def started(snapshot: Snapshot, name: str, one: Workload) -> Workload:
    """A workload that was admitted to a queue."""
    found = cycle(snapshot, (name, one))[one.name]
    assert found.status == "admitted"
    return found.workload


def failed(snapshot: Snapshot, one: Workload, *hosts: str) -> Workload:
    """A workload that runs, after some of its hosts failed."""
    new = replace(one, unhealthy_nodes=hosts)
    snapshot.remove_workload(one)
    snapshot.add_workload(new)
    return new


def test_flavors_share_their_hosts() -> None:
    """What is given to pods of one flavor is given to none of another, in the same cycle too."""
    queues = [queue("a", 9, ("all",)), queue("b", 9, ("fast",))]
    heads = [(name, job(f"of-{name}", pods_of(3, request=ONE_HOST), created=float(name == "b"))) for name in "ab"]
    found = cycle(snapshot_of(queues, [Host("one", "x", 4), Host("two", "x", 3)]), *heads)
    assert {name: hosts_of(one.workload) for name, one in found.items()} == {
        "of-a": {"main": {"one": 1}},
        "of-b": {"main": {"two": 1}},
    }


def test_pod_sets_of_one_workload_in_two_flavors() -> None:
    """The second set counts on the host that the first is given."""
    snapshot = snapshot_of([queue("a", 3, ("fast", "all"))], [Host("one", "x", 3), Host("two", "x", 3)])
    sets = [pods_of(3, request=ONE_HOST, name=name) for name in ("first", "second")]
    one = started(snapshot, "a", job("both", *sets))
    assert sorted(host for hosts in hosts_of(one).values() for host in hosts) == ["one", "two"]


def test_leader_and_workers_go_to_one_rack() -> None:
    hosts = [Host("one", "x", 2), Host("two", "y", 2), Host("three", "y", 1)]
    sets = [pods_of(1, count, PodSetTopologyRequest("rack"), name) for name, count in (("leader", 1), ("workers", 2))]
    grouped = [one._replace(topology=one.topology and one.topology._replace(pod_set_group_name="g")) for one in sets]
    found = started(snapshot_of([queue("a", 9)], hosts), "a", job("one", *grouped))
    assert {host for at in hosts_of(found).values() for host in at} == {"two", "three"}


def test_pods_that_ask_for_nothing_are_placed_where_all_flavors_have_topologies() -> None:
    snapshot = snapshot_of([queue("a", 9)], [Host("one", "x", 2)])
    assert hosts_of(started(snapshot, "a", job("one", PodSet(requests={"cpu": 2})))) == {"main": {"one": 1}}
    assert cycle(snapshot, ("a", job("two", PodSet(requests={"cpu": 1}))))["two"].status == "waiting"


def test_places_are_looked_for_where_the_quota_counts_something_else() -> None:
    """Credits are counted by the quota; no host has any."""
    snapshot = snapshot_of([queue("a", 9)], [Host("one", "x", 2)])
    pods = pods_of(2)._replace(requests={"cpu": 9}, node_requests={"cpu": 2})
    assert hosts_of(started(snapshot, "a", job("one", pods))) == {"main": {"one": 1}}


def test_a_group_that_is_none_finds_no_place() -> None:
    """It is told, and the cycle goes on for the others."""
    sets = [pods_of(1, 2, PodSetTopologyRequest("rack"), name) for name in ("one", "two")]
    grouped = [one._replace(topology=one.topology and one.topology._replace(pod_set_group_name="g")) for one in sets]
    snapshot = snapshot_of([queue("a", 99), queue("b", 9)], [Host("one", "x", 9)])
    found = cycle(snapshot, ("a", job("wrong", *grouped)), ("b", job("right", pods_of(1))))
    assert {name: one.status for name, one in found.items()} == {"wrong": "waiting", "right": "admitted"}
    assert "not a leader of one pod and its workers" in str(found["wrong"].assignment)


def test_nodes_that_failed_before_it_started_are_nothing_to_it() -> None:
    snapshot = snapshot_of([queue("a", 9)], [Host("one", "x", 2)])
    new = started(snapshot, "a", replace(job("again", pods_of(2)), unhealthy_nodes=("gone", "too")))
    assert (hosts_of(new), new.unhealthy_nodes) == ({"main": {"one": 1}}, ())


# --- who waits


def test_victims_are_those_in_the_way() -> None:
    """There is quota for all: who gives way is who has the host."""
    snapshot = snapshot_of([queue("a", 99)], [Host("one", "x", 4), Host("two", "y", 4)])
    for name, priority in (("low", 1), ("high", 5)):
        started(snapshot, "a", job(name, pods_of(3), priority=priority))
    found = cycle(snapshot, ("a", job("new", pods_of(2, 2, PodSetTopologyRequest("rack")), priority=3)))["new"]
    assert (found.status, [one.workload.name for one in found.preemption_targets]) == ("preempting", ["low"])


@pytest.mark.parametrize("anew", [True, False])
def test_places_ahead_are_kept(anew: bool) -> None:
    """Who waits for victims keeps the places where it will be; others do not slip in, but may look elsewhere."""
    snapshot = snapshot_of([queue("a", 9), queue("b", 9, cohort="")], [Host("one", "x", 4), Host("two", "y", 6)])
    started(snapshot, "a", job("low", pods_of(2)))
    heads = [("a", job("first", pods_of(4, 2), priority=9)), ("b", job("second", pods_of(2, request=ONE_HOST)))]
    found = cycle(snapshot, *heads, settings=QuotaSettings(recompute_topology_assignment=anew))
    assert found["first"].status == "preempting"
    assert (found["second"].status, hosts_of(found["second"].workload)) == (
        ("admitted", {"main": {"two": 1}}) if anew else ("skipped", {})
    )


def test_nobody_starts_where_victims_run_still() -> None:
    """A victim's host would have room for two once it is gone; until then there is room for one."""
    queues = [queue("lends", 5), queue("borrows", 0), queue("f", 9, cohort=""), queue("g", 9, cohort="")]
    snapshot = snapshot_of(queues, [Host("large", "x", 10), Host("small", "x", 3)])
    victim = started(snapshot, "borrows", job("victim", pods_of(5)))
    assert hosts_of(victim) == {"main": {"large": 1}}
    heads = [("lends", job("first", pods_of(3, request=ONE_HOST), priority=9))]
    heads += [(name, job(name, pods_of(5), created=float(place))) for place, name in enumerate("fg")]
    found = cycle(snapshot, *heads)
    assert {name: one.status for name, one in found.items()} == {
        "first": "preempting",
        "f": "admitted",
        "g": "waiting",
    }


def test_victims_of_another_cohort_leave_room() -> None:
    """Places are kept where a victim runs still, which is no reason to send others away from what is free now."""
    snapshot = snapshot_of([queue("a", 99), queue("b", 9, cohort="")], [Host("one", "x", 6)])
    started(snapshot, "a", job("low", pods_of(5)))
    found = cycle(snapshot, ("a", job("first", pods_of(3), priority=9)), ("b", job("second", pods_of(1))))
    assert {name: one.status for name, one in found.items()} == {"first": "preempting", "second": "admitted"}


# --- second passes


def test_pods_of_a_failed_node_move() -> None:
    """The others stay, and the room on the failed node is given to nobody in the same cycle."""
    snapshot = snapshot_of([queue("a", 99)], [Host(name, "x", 2) for name in ("one", "two", "three")])
    one = failed(snapshot, started(snapshot, "a", job("moves", pods_of(2, 2))), "one")
    assert needs_second_pass(one, snapshot.tas_snapshot)
    found = cycle(snapshot, ("a", one), ("a", job("new", pods_of(2))))
    assert found["new"].status == "waiting"
    moved = found["moves"].workload
    assert (hosts_of(moved), moved.unhealthy_nodes) == ({"main": {"three": 1, "two": 1}}, ())
    assert not needs_second_pass(moved, snapshot.tas_snapshot)
    assert hosts_of(started(snapshot, "a", job("new", pods_of(2)))) == {"main": {"one": 1}}


@pytest.mark.parametrize(("evicts", "status"), [(True, "evicted"), (False, "waiting")])
@pytest.mark.parametrize("hosts", [("one",), ("one", "two")])
def test_pods_that_cannot_move(evicts: bool, status: str, hosts: tuple[str, ...]) -> None:
    """Nobody gives way to them; several nodes at once are not replaced."""
    snapshot = snapshot_of([queue("a", 99)], [Host(name, "x", 2) for name in ("one", "two", "three")])
    one = started(snapshot, "a", job("stays", pods_of(2, 2), priority=9))
    if len(hosts) == 1:
        started(snapshot, "a", job("other", pods_of(2)))
    one = failed(snapshot, one, *hosts)
    found = cycle(snapshot, ("a", one), settings=QuotaSettings(fail_fast_node_replacement=evicts))["stays"]
    assert (found.status, found.preemption_targets, hosts_of(found.workload)) == (status, (), hosts_of(one))


def test_pods_that_come_back_to_a_failed_node_take_room_there_anew() -> None:
    """The node is ready again and has some left: what a first set takes of that is no more for the second."""
    snapshot = snapshot_of([queue("a", 99)], [Host("one", "x", 3), Host("two", "x", 5)])
    one = started(snapshot, "a", job("moves", pods_of(1, name="first"), pods_of(1, name="second")))
    assert hosts_of(one) == {"first": {"one": 1}, "second": {"one": 1}}
    moved = started(snapshot, "a", failed(snapshot, one, "one"))
    assert hosts_of(moved) == {"first": {"one": 1}, "second": {"two": 1}}


def test_pods_of_a_group_move_one_set_after_the_other() -> None:
    """Workers look for a host right after their leader, before sets that come between the two."""
    snapshot = snapshot_of([queue("a", 99)], [Host("one", "x", 2), Host("two", "x", 3), Host("three", "x", 9)])
    other = started(snapshot, "a", job("other", pods_of(2)))
    sets = [pods_of(1, name=name) for name in ("leader", "between", "workers")]
    for place in (0, 2):
        topology = sets[place].topology
        assert topology is not None
        sets[place] = sets[place]._replace(topology=topology._replace(pod_set_group_name="g"))
    one = started(snapshot, "a", job("moves", *sets))
    assert {host for hosts in hosts_of(one).values() for host in hosts} == {"two"}
    snapshot.remove_workload(other)
    moved = started(snapshot, "a", failed(snapshot, one, "two"))
    assert hosts_of(moved) == {"leader": {"one": 1}, "between": {"three": 1}, "workers": {"one": 1}}


def test_a_single_pod_stays() -> None:
    """It cannot move, and its workload ends with it."""
    snapshot = snapshot_of([queue("a", 99)], [Host(name, "x", 2) for name in ("one", "two")])
    one = started(snapshot, "a", replace(job("pod", pods_of(2)), owned_by_single_pod=True))
    found = cycle(snapshot, ("a", failed(snapshot, one, "one")))["pod"]
    assert (found.status, hosts_of(found.workload)) == ("admitted", {"main": {"one": 1}})


def test_places_after_provisioning() -> None:
    """First the quota alone, since there are no nodes; then the places, though the quota is full."""
    rule = AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER)
    spec = queue("a", 2)._replace(admission_checks=(rule,))
    empty = snapshot_of([spec], [])
    one = started(empty, "a", job("one", pods_of(2)))
    assert (hosts_of(one), one.admitted_pod_sets["main"].delayed_topology_request) == ({}, "Pending")
    assert needs_second_pass(one, empty.tas_snapshot)
    snapshot = snapshot_of([spec], [Host("new", "x", 2)])
    snapshot.add_workload(one)
    new = started(snapshot, "a", one)
    assert (hosts_of(new), new.admitted_pod_sets["main"].delayed_topology_request) == ({"main": {"new": 1}}, "Ready")
    assert new.admission is not None
    assert (new.admission.reserved_at, snapshot.workloads_by_queue["a"]) == (1.0, {new.key: new})
    assert not needs_second_pass(new, snapshot.tas_snapshot)


def test_places_are_for_the_pods_that_have_quota() -> None:
    """Of a workload that was admitted with fewer pods, so many are placed, and move, and what they use stays."""
    spec = queue("a", 3)._replace(
        admission_checks=(AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER),)
    )
    one = started(snapshot_of([spec], []), "a", job("one", pods_of(1, 5)._replace(min_pods=1)))
    snapshot = snapshot_of([spec], [Host("old", "x", 3), Host("new", "y", 9)])
    snapshot.add_workload(one)
    placed = started(snapshot, "a", one)
    moved = started(snapshot, "a", failed(snapshot, placed, "old"))
    for found, host in ((placed, "old"), (moved, "new")):
        held = found.admitted_pod_sets["main"]
        assert (hosts_of(found), held.pods, held.usage) == ({"main": {host: 3}}, 3, {"cpu": 3})


def test_others_give_way_to_those_with_quota() -> None:
    """It has its quota already, and needs none more."""
    spec = queue("a", 3)._replace(
        admission_checks=(AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER),)
    )
    one = started(snapshot_of([spec], []), "a", job("one", pods_of(2), priority=9))
    snapshot = snapshot_of([queue("a", 3)], [Host("new", "x", 2)])
    started(snapshot, "a", job("low", pods_of(1)))
    snapshot.add_workload(one)
    found = cycle(snapshot, ("a", one))["one"]
    assert (found.status, [each.workload.name for each in found.preemption_targets]) == ("preempting", ["low"])


@pytest.mark.parametrize(
    ("rule", "delayed"),
    [
        (AdmissionCheckStrategyRule("one", frozenset({"all"}), PROVISIONING_REQUEST_CONTROLLER), "Pending"),
        (AdmissionCheckStrategyRule("one", frozenset({"fast"}), PROVISIONING_REQUEST_CONTROLLER), ""),
        (AdmissionCheckStrategyRule("one", frozenset({"fast"}), MULTIKUEUE_CONTROLLER), "Pending"),
        (AdmissionCheckStrategyRule("one"), ""),
    ],
)
def test_which_checks_delay_places(rule: AdmissionCheckStrategyRule, delayed: str) -> None:
    snapshot = snapshot_of([queue("a", 2)._replace(admission_checks=(rule,))], [Host("one", "x", 2)])
    one = started(snapshot, "a", job("one", pods_of(2)))
    assert (one.admitted_pod_sets["main"].delayed_topology_request, bool(hosts_of(one))) == (delayed, not delayed)


def test_places_that_are_no_more_take_nothing() -> None:
    """A workload of a node that is gone runs in the books still, and leaves them without a trace."""
    hosts = [Host("one", "x", 2), Host("two", "x", 2)]
    old = started(snapshot_of([queue("a", 9)], hosts), "a", job("old", pods_of(2, 2)))
    snapshot = snapshot_of([queue("a", 9)], hosts[1:])
    snapshot.add_workload(old)
    assert cycle(snapshot, ("a", job("new", pods_of(1))))["new"].status == "waiting"
    snapshot.remove_workload(old)
    assert hosts_of(started(snapshot, "a", job("new", pods_of(2)))) == {"main": {"two": 1}}
    assert not snapshot.tas_snapshot.fits(old)
