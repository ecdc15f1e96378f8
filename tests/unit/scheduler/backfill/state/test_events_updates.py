"""Admission checks, and workloads that change while they are pending or running."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import CPU, local, make_planner, make_workload, queue
from support.tas_clusters import LEVELS, Host, flavor_topologies, hosts_of, job, pods_of, snapshot_of
from support.tas_clusters import preempting_queue as placed_queue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import PlannerState, new_state
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction, PodSet
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import PROVISIONING_REQUEST_CONTROLLER
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot

CHECKED = queue("q", 4)._replace(admission_checks=(AdmissionCheckStrategyRule("capacity"),))


def starts(planner: PlannerState, now: float) -> list[str]:
    return [one.key for one in schedule(planner, now).admitted]


def reserved_starts(planner: PlannerState) -> list[tuple[str, float]]:
    return [(reservation.workload.key, reservation.start) for reservation in planner.reservations_by_start]


# --- admission checks


def test_the_run_time_counts_from_when_the_checks_have_passed() -> None:
    """Until then the deadline is unknown; afterwards it is the start plus the walltime."""
    planner = make_planner([CHECKED], BackfillPolicy())
    events.submit(planner, make_workload("one", 4, run=10), "q")
    events.submit(planner, make_workload("two", 4, run=10, at=1), "q")
    (one,) = schedule(planner, 1).admitted
    assert one.admission is not None
    assert one.admission.pending_checks == ("capacity",)
    assert planner.running["ns/one"].deadline == inf
    assert reserved_starts(planner) == [("ns/two", inf)]
    events.checks_passed(planner, "ns/one", 5)
    assert planner.running["ns/one"].deadline == 15
    schedule(planner, 5)
    assert reserved_starts(planner) == [("ns/two", 15)]


def test_a_check_of_another_flavor_does_not_apply() -> None:
    planner = make_planner(
        [CHECKED._replace(admission_checks=(AdmissionCheckStrategyRule("capacity", frozenset({"spot"})),))],
        BackfillPolicy(),
    )
    events.submit(planner, make_workload("one", 4, run=10), "q")
    schedule(planner, 0)
    assert planner.running["ns/one"].deadline == 10


def test_a_workload_with_pending_checks_delays_no_reservation() -> None:
    """Such a workload may wait for any time, so it could delay another workload's reservation."""
    planner = make_planner([CHECKED._replace(cohort_name="c"), queue("p", 0, cohort="c")], BackfillPolicy())
    events.submit(planner, make_workload("runs", 3, run=10), "p")
    schedule(planner, 0)
    events.submit(planner, make_workload("wide", 4, run=10, at=1), "p")
    schedule(planner, 1)
    events.submit(planner, make_workload("brief", 1, run=1, at=2), "q")
    assert starts(planner, 2) == []
    events.submit(planner, make_workload("sure", 1, run=1, at=3), "p")
    assert starts(planner, 3) == ["ns/sure"]


def test_a_failed_check_stops_a_workload() -> None:
    """Its checks start again with its next admission."""
    planner = make_planner([CHECKED], BackfillPolicy())
    one = make_workload("one", 4)
    events.submit(planner, one, "q")
    events.submit(planner, make_workload("two", 4, at=1), "q")
    schedule(planner, 1)
    events.update(planner, replace(one, failed_checks=("capacity",)))
    step = schedule(planner, 2)
    assert [(stop.workload.key, stop.reason) for stop in step.stopped] == [("ns/one", "AdmissionCheck")]
    events.evict(planner, "ns/one", Eviction("AdmissionCheck", 3))
    assert starts(planner, 3) == ["ns/two"]
    assert reserved_starts(planner) == [("ns/one", inf)]


@pytest.mark.parametrize("strict", [False, True])
def test_failed_checks_make_a_workload_inadmissible(strict: bool) -> None:
    """As in Kueue, the other workloads of a StrictFIFO queue wait behind it."""
    spec = CHECKED._replace(queueing_strategy="StrictFIFO" if strict else "BestEffortFIFO")
    planner = make_planner([spec], BackfillPolicy())
    one = make_workload("one", 2)
    events.submit(planner, replace(one, failed_checks=("capacity",)), "q")
    events.submit(planner, make_workload("two", 2, at=1), "q")
    step = schedule(planner, 1)
    assert [each.key for each in step.admitted] == ([] if strict else ["ns/two"])
    assert step.decisions["ns/one"].reason == "PendingEvaluation"
    events.update(planner, one)
    assert "ns/one" in starts(planner, 2)


# --- topology


HOSTS = [Host(name, "x", 2) for name in ("one", "two", "three")]


def test_pods_of_a_failed_node_move() -> None:
    """The pods move to a free host. The workload keeps running, and the plan names it once."""
    planner = new_state(snapshot_of([placed_queue("a", 99)], HOSTS), BackfillPolicy())
    events.submit(planner, job("moves", pods_of(2, 2)), "a")
    (one,) = schedule(planner, 0).admitted
    events.update(planner, replace(one, unhealthy_nodes=("one",)))
    step = schedule(planner, 1)
    assert [hosts_of(each) for each in step.placed] == [{"main": {"three": 1, "two": 1}}]
    assert (step.admitted, step.stopped) == ((), ())
    assert schedule(planner, 2).placed == ()
    assert planner.running["ns/moves"].workload.unhealthy_nodes == ()
    events.finish(planner, "ns/moves")


def test_a_workload_whose_pods_cannot_move_stops() -> None:
    planner = new_state(snapshot_of([placed_queue("a", 99)], HOSTS[:2]), BackfillPolicy())
    events.submit(planner, job("stays", pods_of(2, 2)), "a")
    (one,) = schedule(planner, 0).admitted
    events.update(planner, replace(one, unhealthy_nodes=("one",)))
    assert [(each.workload.key, each.reason) for each in schedule(planner, 1).stopped] == [("ns/stays", "NodeFailures")]
    events.evict(planner, "ns/stays", Eviction("NodeFailures", 2))
    assert starts(planner, 2) == ["ns/stays"]


def test_new_nodes_give_a_topology_assignment() -> None:
    """Quota, nodes and the check arrive one after the other; meanwhile, pending workloads are scheduled."""
    rule = AdmissionCheckStrategyRule("new-nodes", controller_name=PROVISIONING_REQUEST_CONTROLLER)
    spec = placed_queue("a", 2)._replace(admission_checks=(rule,))
    snapshot = snapshot_of([spec], [])
    planner = new_state(snapshot, BackfillPolicy())
    events.submit(planner, job("one", pods_of(2)), "a")
    (one,) = schedule(planner, 0).admitted
    assert hosts_of(one) == {}
    flavors = tuple((snapshot.resource_flavors or {}).values())
    events.reconfigure(
        planner,
        QueueConfiguration((spec,), flavors=flavors),
        TASSnapshot(flavor_topologies([Host("new", "x", 2)], LEVELS)),
    )
    assert schedule(planner, 1).placed == ()
    events.checks_passed(planner, "ns/one", 2)
    (one,) = schedule(planner, 2).placed
    assert hosts_of(one) == {"main": {"new": 1}}
    assert planner.running["ns/one"].workload is one
    assert one.admission is not None
    assert (one.admission.reserved_at, one.admission.started_at) == (0, 2)


def test_a_change_of_nodes_moves_reservations() -> None:
    """A reservation on nodes that disappear moves to other nodes."""
    spec = placed_queue("a", 99)
    snapshot = snapshot_of([spec], HOSTS[:1])
    flavors = tuple((snapshot.resource_flavors or {}).values())
    planner = new_state(snapshot, BackfillPolicy())
    events.submit(planner, replace(job("runs", pods_of(2)), walltime=10), "a")
    schedule(planner, 0)
    events.submit(planner, job("waits", pods_of(2), created=1), "a")
    schedule(planner, 1)
    assert reserved_starts(planner) == [("ns/waits", 10)]
    events.reconfigure(
        planner, QueueConfiguration((spec,), flavors=flavors), TASSnapshot(flavor_topologies(HOSTS[:2], LEVELS))
    )
    assert starts(planner, 2) == ["ns/waits"]


@pytest.mark.parametrize("changed", [True, False])
def test_after_a_change_of_nodes_infeasible_reservations_move_before_workloads_start(*, changed: bool) -> None:
    """The reserved start is infeasible, as another workload runs longer. A check moves it, so that a third starts."""
    planner = make_planner([queue("q", 8)], BackfillPolicy())
    events.submit(planner, make_workload("runs", 4, run=10), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("waits", 8, at=1), "q")
    schedule(planner, 1)
    planner.reservations.record(planner.reservations.by_key["ns/waits"]._replace(start=2.0))
    events.submit(planner, make_workload("short", 4, run=5, at=2), "q")
    if changed:
        events.nodes_changed(planner)
    assert starts(planner, 3) == ["ns/short"] * changed
    assert reserved_starts(planner) == [("ns/waits", 10)]


# --- new states


def test_reclaimable_pods_free_quota() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    one = replace(make_workload("one", 1), pod_sets=(PodSet(pods=4, requests={"cpu": 1}),))
    events.submit(planner, one, "q")
    events.submit(planner, make_workload("two", 3, at=1), "q")
    schedule(planner, 1)
    assert reserved_starts(planner) == [("ns/two", 11)]
    events.update(planner, replace(one, reclaimable_pods={"main": 3}))
    assert starts(planner, 2) == ["ns/two"]
    events.finish(planner, "ns/one")
    events.finish(planner, "ns/two")
    assert planner.snapshot.cluster_queues["q"].usage[CPU] == 0


def test_a_longer_walltime_moves_reservations() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    one = make_workload("one", 4, run=10)
    events.submit(planner, one, "q")
    events.submit(planner, make_workload("two", 4, at=1), "q")
    schedule(planner, 1)
    assert reserved_starts(planner) == [("ns/two", 11)]
    events.update(planner, replace(one, walltime=20))
    schedule(planner, 2)
    assert reserved_starts(planner) == [("ns/two", 21)]


def test_a_lower_priority_may_make_it_a_victim() -> None:
    policy = ClusterQueuePreemption("LowerPriority")
    planner = make_planner([queue("q", 4, preemption=policy)], BackfillPolicy())
    one = make_workload("one", 4, priority=1)
    events.submit(planner, one, "q")
    events.submit(planner, make_workload("two", 4, at=1, priority=1), "q")
    assert schedule(planner, 1).victims == ()
    events.update(planner, replace(one, priority=0))
    assert [each.workload.key for each in schedule(planner, 2).victims] == ["ns/one"]


def test_only_another_priority_permits_a_forbidden_preemption() -> None:
    """A preemption that would close a ring is forbidden until the priorities behind the ring change."""
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    one = make_workload("one", 4, run=10)
    events.submit(planner, one, "q")
    schedule(planner, 0)
    graph = planner.snapshot.preemption_graph
    graph.add("ns/one", "ns/two")
    graph.add("ns/two", "ns/one")
    events.update(planner, replace(one, walltime=20))
    assert graph.forbidden("ns/one") == {"ns/two"}
    events.update(planner, replace(one, walltime=20, priority=7))
    assert graph.forbidden("ns/one") == set()


@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize(("priority", "permitted"), [(int("1000"), False), (999, True), (1001, True)])
def test_a_preemption_is_permitted_by_a_lower_or_a_higher_priority(
    pending: bool, priority: int, permitted: bool
) -> None:
    """The change may be that of a pending or a running workload; an equal priority permits nothing."""
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("runs", 4, priority=int("1000")), "q")
    events.submit(planner, make_workload("waits", 4, at=1, priority=int("1000")), "q")
    schedule(planner, 1)
    name = "waits" if pending else "runs"
    graph = planner.snapshot.preemption_graph
    graph.add(f"ns/{name}", "ns/other")
    graph.add("ns/other", f"ns/{name}")
    events.update(planner, make_workload(name, 4, run=20, at=int(pending), priority=priority))
    assert graph.forbidden(f"ns/{name}") == (set() if permitted else {"ns/other"})


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_a_workload_submitted_to_another_queue_leaves_its_former_queue(first: str, second: str) -> None:
    planner = make_planner([queue("a", 4), queue("b", 4)], BackfillPolicy())
    events.submit(planner, make_workload("one", 4), first)
    events.submit(planner, make_workload("one", 4), second)
    assert planner.pending == {"ns/one": second}
    assert planner.pending_queues[first].heap.get("ns/one") is None
    assert starts(planner, 0) == ["ns/one"]


def test_a_workload_that_is_submitted_to_its_own_queue_keeps_its_reservation() -> None:
    """The name of the queue is compared by value, not by identity."""
    planner = make_planner([queue("queue", 4)], BackfillPolicy())
    events.submit(planner, make_workload("one", 4), "queue")
    schedule(planner, 0)
    events.submit(planner, make_workload("two", 4, at=1), "queue")
    schedule(planner, 1)
    events.submit(planner, make_workload("two", 4, at=1), "".join(["que", "ue"]))
    assert reserved_starts(planner) == [("ns/two", 10)]


def test_passing_checks_of_a_workload_without_checks_changes_nothing() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("one", 4), "q")
    schedule(planner, 0)
    events.checks_passed(planner, "ns/one", 5)
    assert planner.running["ns/one"].deadline == 10


def test_the_request_of_a_pending_workload_may_change() -> None:
    """The old reservation is released; the changed workload gets a new one."""
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    one, two = make_workload("one", 4, run=10), make_workload("two", 4, at=1)
    events.submit(planner, one, "q")
    events.submit(planner, two, "q")
    schedule(planner, 1)
    events.update(planner, replace(two))
    assert reserved_starts(planner) == [("ns/two", 11)]
    events.update(planner, replace(two, pod_sets=(PodSet(requests={"cpu": 5}),)))
    schedule(planner, 2)
    assert reserved_starts(planner) == []


def test_an_update_of_an_unknown_workload_is_an_error() -> None:
    with pytest.raises(KeyError):
        events.update(make_planner([queue("q", 4)], BackfillPolicy()), make_workload("one", 4))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=10), st.integers(0, 2))
def test_an_equal_update_changes_nothing(sizes: list[tuple[int, int]], every: int) -> None:
    planner, other = (make_planner([queue("q", 4)], BackfillPolicy(depth=UNLIMITED_DEPTH)) for _ in range(2))
    came = [make_workload(f"{now}", cpus, run=run, at=now) for now, (cpus, run) in enumerate(sizes)]
    for now, one in enumerate(came):
        for each in (planner, other):
            for key in [key for key, run in each.running.items() if run.deadline <= now]:
                events.finish(each, key)
            events.submit(each, one, "q")
        for again in came[: now + 1 : every + 1]:
            if again.key in planner.running or again.key in planner.pending:
                events.update(planner, replace(again))
        assert starts(planner, now) == starts(other, now)
        assert reserved_starts(planner) == reserved_starts(other)


# --- walltimes


def test_the_default_walltime_is_that_of_the_queue() -> None:
    """The default of the LocalQueue precedes that of the ClusterQueue, also for running workloads."""
    spec = queue("q", 4)._replace(default_walltime=20)
    names = [local("own", default_walltime=10), local("plain")]
    planner = make_planner([spec], BackfillPolicy(), names)
    for name, at in (("own", 0), ("plain", 1)):
        events.submit(planner, make_workload(name, 2, inf, at=at, local=name))
    events.submit(planner, make_workload("declared", 2, 5, at=2, local="own"))
    schedule(planner, 2)
    assert {key: run.deadline for key, run in planner.running.items()} == {"ns/own": 12, "ns/plain": 22}
    assert reserved_starts(planner) == [("ns/declared", 12)]
    running = [replace(run.workload, walltime=inf) for run in planner.running.values()]
    other = new_state(Snapshot([spec], workloads=running), BackfillPolicy(), local_queues=names)
    assert {key: run.deadline for key, run in other.running.items()} == {"ns/own": 12, "ns/plain": 22}


def test_running_workloads_keep_their_admission_at_a_restart() -> None:
    """A workload whose checks have not passed has no deadline; otherwise it runs from the time of the last check."""
    planner = make_planner([CHECKED], BackfillPolicy())
    for name in ("one", "two"):
        events.submit(planner, make_workload(name, 2, 10), "q")
    schedule(planner, 1)
    events.checks_passed(planner, "ns/one", 4)
    with_checks = [run.workload for run in planner.running.values()]
    forgotten = [
        replace(one, admission=one.admission._replace(pending_checks=()))
        for one in with_checks
        if one.admission is not None
    ]
    for running in (with_checks, forgotten):
        other = new_state(Snapshot([CHECKED], workloads=running), BackfillPolicy())
        assert {key: run.deadline for key, run in other.running.items()} == {"ns/one": 14, "ns/two": inf}


def test_a_failed_check_releases_a_reservation() -> None:
    """Other workloads may use the quota in the meantime."""
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("runs", 2, 10), "q")
    schedule(planner, 0)
    wide = make_workload("wide", 4, 10, at=1)
    events.submit(planner, wide, "q")
    events.submit(planner, make_workload("long", 2, 50, at=2), "q")
    assert starts(planner, 2) == []
    events.update(planner, replace(wide, failed_checks=("capacity",)))
    assert starts(planner, 3) == ["ns/long"]
    assert reserved_starts(planner) == []
