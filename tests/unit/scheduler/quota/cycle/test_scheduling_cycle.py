"""Examples of whole cycles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueuePreemption, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.cycle.entry import Decision, Entry, Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import (
    admission_checks_for_workload,
    quota_resources_to_reserve,
    run_cycle,
    with_admission,
)
from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorAssignment, PodSetAssignment
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot, TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import (
    PodSetTopologyRequest,
    TopologyAssignment,
    TopologyDomainAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, PreemptionPolicy
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyAssignments


def test_the_flavor_scan_records_the_number_of_its_cycle() -> None:
    """The default number is 0."""
    snapshot, settings, head = Snapshot([cpu_queue("q", 1)]), QuotaSettings(), Head(pending_workload("w", 2), "q")
    decisions = [*run_cycle(snapshot, [head], settings, 9.0), *run_cycle(snapshot, [head], settings, 9.0, 7)]
    assert [decision.last_assignment.scheduling_cycle for decision in decisions] == [0, 7]


def test_an_admission_names_the_amount_of_each_resource_with_a_flavor() -> None:
    """It is 0 for a leader without requests, which has the flavors of its workers."""
    flavors = {"cpu": FlavorAssignment("default", FlavorAssignmentMode.FIT)}
    leader, workers = PodSetAssignment("leader", 1, {}, flavors), PodSetAssignment("workers", 2, {"cpu": 4}, flavors)
    admitted = with_admission(pending_workload("w", 4), cpu_queue("q", 4), Assignment((leader, workers), {CPU: 4}), 0.0)
    assert admitted.admission is not None
    assert [pod_set.usage for pod_set in admitted.admission.pod_sets] == [{"cpu": 0}, {"cpu": 4}]


def test_a_blocking_entry_holds_its_quota_without_another_decision() -> None:
    """Others of its cohort do not borrow this quota during the cycle. Afterwards, it counts as unused."""
    holder, borrower = cpu_queue("holder", 5), cpu_queue("borrower", 1)
    snapshot, head = Snapshot([holder, borrower]), Head(pending_workload("head", 5), "holder")
    flavors = {"cpu": FlavorAssignment("any", FlavorAssignmentMode.PREEMPT)}
    assignment = Assignment((PodSetAssignment("main", 1, {"cpu": 5}, flavors),), {CPU: 5})
    waiting = Decision(head, "waiting", head.workload, assignment)
    blocking = [Entry(head, snapshot.cluster_queues["holder"], assignment, decision=waiting)]
    small = [Head(pending_workload(name, 1, created=1.0), "borrower") for name in ("first", "second")]
    decisions = run_cycle(snapshot, small, QuotaSettings(), 0.0, blocking=blocking)
    assert [decision.status for decision in decisions] == ["admitted", "skipped"]
    assert snapshot.cluster_queues["holder"].usage[CPU] == 0


def statuses(snapshot: Snapshot, *heads: Head) -> dict[str, str]:
    return {decision.workload.name: decision.status for decision in run_cycle(snapshot, heads, QuotaSettings(), 0.0)}


def test_a_later_entry_is_skipped_if_the_quota_is_gone() -> None:
    snapshot = Snapshot([cpu_queue("a", 0), cpu_queue("b", 0), cpu_queue("lender", 4)])
    heads = [Head(pending_workload("early", 3, created=1.0), "a"), Head(pending_workload("late", 3, created=2.0), "b")]
    assert statuses(snapshot, *reversed(heads)) == {"early": "admitted", "late": "skipped"}


def test_quota_is_held_for_a_workload_that_may_not_preempt() -> None:
    """A queue without its own quota is not admitted before a queue that waits for its own quota."""
    snapshot = Snapshot([cpu_queue("owner", 4), cpu_queue("guest", 0)])
    snapshot.add_workload(running_workload("small", "guest", CPU, 2))
    heads = [Head(pending_workload("big", 4), "owner"), Head(pending_workload("more", 2, priority=5), "guest")]
    assert statuses(snapshot, *heads) == {"big": "waiting", "more": "skipped"}
    assert snapshot.cluster_queues["guest"].usage == {CPU: 2}


@pytest.mark.parametrize(
    ("mode", "borrowing", "limit", "used", "reserved"),
    [
        (FlavorAssignmentMode.NO_FIT, 0, None, 3, 9),
        (FlavorAssignmentMode.FIT, 0, None, 3, 9),
        (FlavorAssignmentMode.PREEMPT, 0, None, 3, 1),
        (FlavorAssignmentMode.PREEMPT, 0, None, 0, 4),
        (FlavorAssignmentMode.PREEMPT, 0, None, 5, 0),
        (FlavorAssignmentMode.PREEMPT, 1, None, 3, 9),
        (FlavorAssignmentMode.PREEMPT, 1, 2, 0, 6),
        (FlavorAssignmentMode.PREEMPT, 1, 2, 3, 3),
        (FlavorAssignmentMode.PREEMPT, 1, 2, 6, 0),
        (FlavorAssignmentMode.PREEMPT, 1, 2, 7, 0),
        (FlavorAssignmentMode.PREEMPT, 1, 9, 0, 9),
    ],
)
def test_a_waiting_preemptor_holds_the_rest_of_its_nominal_quota(
    mode: FlavorAssignmentMode, borrowing: int, limit: int | None, used: int, reserved: int
) -> None:
    """If it borrows, it holds the amount left up to the borrowing limit. Other modes hold all of their usage.

    It holds nothing of a resource without quota, unless it borrows.
    """
    group = resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(4, limit)),)))
    queue = Snapshot([cpu_queue("q", 4)._replace(resource_groups=(group,))]).cluster_queues["q"]
    if used:
        queue.add_usage({CPU: used})
    other = FlavorResource("any", "gpu")
    pod_sets = (PodSetAssignment("main", 1, {}, {"cpu": FlavorAssignment("any", mode, borrowing)}),)
    amounts = quota_resources_to_reserve(queue, Assignment(pod_sets, {CPU: 9, other: 9}))
    assert amounts == {CPU: reserved, other: 0 if mode == FlavorAssignmentMode.PREEMPT and not borrowing else 9}


def test_a_victim_can_free_enough_for_two() -> None:
    """The second entry waits for the end of the same victim and has no victims of its own."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([cpu_queue("a", 2, preemption), cpu_queue("b", 2, preemption), cpu_queue("guest", 0)])
    snapshot.add_workload(running_workload("large", "guest", CPU, 4))
    heads = [
        Head(pending_workload("first", 2, created=1.0), "a"),
        Head(pending_workload("second", 2, created=2.0), "b"),
    ]
    assert statuses(snapshot, *heads) == {"first": "preempting", "second": "deferred"}


def test_a_later_preemptor_searches_for_other_victims() -> None:
    """Both were nominated with the first workload as victim. A third one, for which no victim is left, waits."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([*(cpu_queue(name, 2, preemption) for name in "abc"), cpu_queue("guest", 0)])
    for i in range(2):
        snapshot.add_workload(running_workload(f"w{i}", "guest", CPU, 2, priority=i))
    snapshot.add_workload(running_workload("own", "c", CPU, 2))
    heads = [Head(pending_workload(name, 2, created=float(i)), name) for i, name in enumerate("abc")]
    decisions = run_cycle(snapshot, heads, QuotaSettings(), 0.0)
    found = [
        (decision.workload.name, decision.status, [target.workload.name for target in decision.preemption_targets])
        for decision in decisions
    ]
    assert found == [("a", "preempting", ["w0"]), ("b", "preempting", ["w1"]), ("c", "waiting", [])]


def test_inadmissible_heads_have_their_reasons() -> None:
    snapshot = Snapshot([cpu_queue("a", 2), cpu_queue("held", 2)._replace(stop_policy="Hold")])
    heads = [
        Head(pending_workload("failed", 1), "a", inadmissible_reason="checks"),
        Head(pending_workload("foreign", 1), "a", inadmissible_reason="namespace"),
        Head(pending_workload("stopped", 1), "held"),
        Head(pending_workload("foreign-stopped", 1), "held", inadmissible_reason="namespace"),
        Head(pending_workload("lost", 1), "nowhere"),
    ]
    reasons = {
        decision.workload.name: (decision.status, decision.reason, decision.requeue_reason)
        for decision in run_cycle(snapshot, heads, QuotaSettings(), 0.0)
    }
    assert reasons == {
        "failed": ("inadmissible", "PendingEvaluation", ""),
        "foreign": ("inadmissible", "Misconfigured", "NamespaceMismatch"),
        "stopped": ("inadmissible", "Suspended", ""),
        "foreign-stopped": ("inadmissible", "Suspended", ""),
        "lost": ("inadmissible", "Misconfigured", ""),
    }


def test_admission_checks_for_certain_flavors() -> None:
    rules = AdmissionCheckStrategyRule("all"), AdmissionCheckStrategyRule("spot", frozenset({"spot"}))
    spec = cpu_queue("a", 2)._replace(admission_checks=rules)
    for flavor, checks in (("any", ("all",)), ("spot", ("all", "spot"))):
        admission = running_workload("w", "a", FlavorResource(flavor, "cpu"), 1).admission
        assert admission is not None
        assert admission_checks_for_workload(spec, admission) == checks


class Hosts(EmptyTopologySnapshot):
    """A topology of the flavor "any": each host holds some pods, and a workload gets the first host that is free."""

    def __init__(self, **room: int) -> None:
        self._room, self.occupied = room, Counter[str]()

    def has_topology(self, flavor: str) -> bool:
        return flavor == "any"

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return request.request.required == "host"

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        free = [host for host, room in self._room.items() if empty or self.occupied[host] < room]
        return {"main": on_host(free[0])} if free else TopologyPlacementFailure("main", "any", "all hosts are full")

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        return all(self.occupied[host] < self._room[host] for host in hosts_of(workload))

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        self.occupied.update(hosts_of(workload))

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        self.occupied.subtract(hosts_of(workload))


def on_host(host: str) -> TopologyAssignment:
    return TopologyAssignment(("host",), (TopologyDomainAssignment((host,), 1),))


def hosts_of(workload: Workload) -> list[str]:
    pod_sets = () if workload.admission is None else workload.admission.pod_sets
    assignments = [pod_set.topology_assignment for pod_set in pod_sets]
    return [domain.values[0] for assignment in assignments if assignment for domain in assignment.domains]


ONE_POD = (PodSet(requests={"cpu": 1}, topology=TopologyRequest(PodSetTopologyRequest("host"))),)


def snapshot_with(topology: Hosts, queues: Sequence[ClusterQueue], running: Sequence[tuple[str, str]]) -> Snapshot:
    """Return a snapshot whose running workloads have one pod each, given as (queue, host)."""
    flavors = [ResourceFlavor("any", topology_name="hosts"), ResourceFlavor("old")]
    snapshot = Snapshot(queues, resource_flavors=flavors, tas_snapshot=topology)
    for queue, host in running:
        workload = running_workload(f"{queue}-{host}", queue, CPU, 1)
        assert workload.admission is not None
        pods = workload.admission.pod_sets[0]._replace(topology_assignment=on_host(host))
        snapshot.add_workload(replace(workload, admission=workload.admission._replace(pod_sets=(pods,))))
    return snapshot


def new_heads(names: str) -> list[Head]:
    """Return a workload for each queue, in the order of the queues; each has priority over the running ones."""
    return [Head(Workload("ns", name, ONE_POD, priority=1, created_at=float(i)), name) for i, name in enumerate(names)]


def placed(decisions: list[Decision]) -> dict[str, tuple[str, str]]:
    """Return the status of each workload and the host in its assignment."""
    found: dict[str, tuple[str, str]] = {}
    for decision in decisions:
        assert decision.assignment is not None
        [pod_set] = decision.assignment.pod_sets
        placement = pod_set.topology_assignment
        found[decision.workload.name] = (decision.status, "" if placement is None else placement.domains[0].values[0])
    return found


@pytest.mark.parametrize(
    ("recompute", "expected"),
    [
        (True, {"a": ("admitted", "h1"), "b": ("admitted", "h2"), "c": ("waiting", "h1")}),
        (False, {"a": ("admitted", "h1"), "b": ("skipped", "h1"), "c": ("skipped", "h1")}),
    ],
)
def test_no_placement_is_assigned_twice(expected: dict[str, tuple[str, str]], *, recompute: bool) -> None:
    """All were nominated for the first host. The second workload gets the second host, and the third waits.

    If placements are not computed again, both wait for the next cycle.
    """
    topology = Hosts(h1=1, h2=1)
    snapshot = snapshot_with(topology, [cpu_queue(name, 4) for name in "abc"], [])
    settings = QuotaSettings(recompute_topology_assignment=recompute)
    decisions = run_cycle(snapshot, new_heads("abc"), settings, 0.0)
    assert placed(decisions) == expected
    admitted = {name: [host] if status == "admitted" else [] for name, (status, host) in expected.items()}
    assert {decision.workload.name: hosts_of(decision.workload) for decision in decisions} == admitted
    assert sorted(topology.occupied.elements()) == sorted(host for hosts in admitted.values() for host in hosts)
    if recompute:
        assert (decisions[-1].reason, decisions[-1].requeue_reason) == ("WaitingForQuota", "NoCandidates")


def test_a_workload_that_lost_its_quota_is_not_nominated_again() -> None:
    """It is skipped and is a head of the next cycle, whether or not there is a placement for it."""
    queues = [cpu_queue("a", 0), cpu_queue("b", 0), cpu_queue("lender", 1)]
    snapshot = snapshot_with(Hosts(h1=2), queues, [])
    assert placed(run_cycle(snapshot, new_heads("ab"), QuotaSettings(), 0.0)) == {
        "a": ("admitted", "h1"),
        "b": ("skipped", "h1"),
    }


@pytest.mark.parametrize(
    ("names", "running", "room", "status"), [("aq", [], 2, "admitted"), ("q", [("a", "h1")], 1, "waiting")]
)
def test_a_nomination_is_unchanged_if_no_earlier_workload_took_its_placement(
    names: str, running: list[tuple[str, str]], room: int, status: str
) -> None:
    """It keeps the findings about each flavor, including an unsuitable one."""
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(4)),)) for name in ("old", "any")]
    queues = [cpu_queue("a", 4), cpu_queue("q", 0)._replace(resource_groups=(resource_group(*flavors),))]
    decision = run_cycle(snapshot_with(Hosts(h1=room), queues, running), new_heads(names), QuotaSettings(), 0.0)[-1]
    assert decision.assignment is not None
    [pod_set] = decision.assignment.pod_sets
    assert (decision.workload.name, decision.status) == ("q", status)
    assert [considered.flavor for considered in pod_set.considered_flavors] == ["old", "any"]


@pytest.mark.parametrize(
    ("room", "running", "names", "expected"),
    [
        # each gets the host of its victim
        ((1, 1), "aA bB", "ab", {"a": ("preempting", "A"), "b": ("preempting", "B")}),
        # the capacity that another queue's victim leaves counts: with it, both fit on the first host
        ((2, 1), "aA bB", "ab", {"a": ("preempting", "A"), "b": ("preempting", "A")}),
        # a workload starts beside a victim; the preemptor starts later, so it uses nothing of the host yet
        ((2, 0), "aA", "ac", {"a": ("preempting", "A"), "c": ("admitted", "A")}),
        # two fit on the second host, but only one while the victim runs
        (
            (1, 2),
            "aA aB",
            "acd",
            {"a": ("preempting", "A"), "c": ("admitted", "B"), "d": ("waiting", "A")},
        ),
    ],
)
def test_placements_count_the_victims_of_all_queues(
    room: tuple[int, int], running: str, names: str, expected: dict[str, tuple[str, str]]
) -> None:
    """Queues a and b, with one CPU each, must preempt; c and d need not. None of them is in a cohort."""
    preemption = ClusterQueuePreemption(within_cluster_queue="LowerPriority")
    queues = [*(cpu_queue(name, 1, preemption, "") for name in "ab"), *(cpu_queue(name, 9, cohort="") for name in "cd")]
    topology = Hosts(A=room[0], B=room[1])
    before = [(each[0], each[1]) for each in running.split()]
    decisions = run_cycle(snapshot_with(topology, queues, before), new_heads(names), QuotaSettings(), 0.0)
    assert placed(decisions) == expected
    started = [host for status, host in expected.values() if status == "admitted"]
    after = Counter([*started, *(host for _, host in before)])
    assert {host: pods for host, pods in topology.occupied.items() if pods} == after


class UnhealthyNodes(EmptyTopologySnapshot):
    """All pods are on nodes that have failed."""

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> frozenset[str]:
        return frozenset(pod_set.name for pod_set in workload.pod_sets)


@pytest.mark.parametrize(
    ("amount", "fail_fast", "status"),
    [(2, True, "admitted"), (4, True, "evicted"), (9, True, "evicted"), (4, False, "waiting"), (9, False, "waiting")],
)
def test_a_workload_on_failed_nodes_is_evicted_if_it_does_not_fit(amount: int, fail_fast: bool, status: str) -> None:
    """It does not fit if its quota is in use or too small. Without fail-fast it waits."""
    snapshot = Snapshot([cpu_queue("q", 4)], tas_snapshot=UnhealthyNodes())
    snapshot.add_workload(running_workload("other", "q", CPU, 2))
    settings = QuotaSettings(fail_fast_node_replacement=fail_fast)
    [decision] = run_cycle(snapshot, [Head(pending_workload("new", amount), "q")], settings, 0.0)
    assert decision.status == status


@pytest.mark.parametrize(
    ("amount", "gated", "status"),
    [(4, True, "gated"), (4, False, "preempting"), (2, True, "admitted"), (9, True, "waiting")],
)
def test_a_gate_keeps_a_workload_from_preempting(amount: int, status: str, *, gated: bool) -> None:
    """A gate does not prevent the use of available quota, and a workload that never fits does not wait for the gate."""
    preemption = ClusterQueuePreemption(within_cluster_queue="LowerPriority")
    snapshot = Snapshot([cpu_queue("q", 4, preemption)])
    snapshot.add_workload(running_workload("low", "q", CPU, 2))
    new = replace(pending_workload("new", amount, priority=1), preemption_gated=gated)
    assert statuses(snapshot, Head(new, "q")) == {"new": status}


@pytest.mark.parametrize(
    ("reclaim", "status"), [("", "skipped"), ("Never", "skipped"), ("LowerPriority", "skipped"), ("Any", "admitted")]
)
def test_quota_is_held_for_a_preemptor_without_victims_unless_it_can_reclaim(
    reclaim: PreemptionPolicy, status: str
) -> None:
    """A queue that reclaims everything that it lends gets this quota back later."""
    preemption = ClusterQueuePreemption("LowerPriority", reclaim)
    snapshot = Snapshot([cpu_queue("owner", 4, preemption), cpu_queue("guest", 0)])
    snapshot.add_workload(running_workload("own", "owner", CPU, 2, priority=9))
    heads = [Head(pending_workload("big", 4), "owner"), Head(pending_workload("more", 2, priority=-1), "guest")]
    assert statuses(snapshot, *heads) == {"big": "waiting", "more": status}
    assert snapshot.cluster_queues["owner"].usage == {CPU: 2}


def test_a_preempting_workload_holds_its_quota_and_its_placement() -> None:
    """The next workload gets neither, since it would start where the victim still runs."""
    preemption = ClusterQueuePreemption(within_cluster_queue="LowerPriority")
    topology = Hosts(h1=1, h2=1)
    snapshot = Snapshot(
        [cpu_queue("q", 9, preemption), cpu_queue("other", 1)],
        resource_flavors=[ResourceFlavor("any", topology_name="hosts")],
        tas_snapshot=topology,
    )
    pod_sets = (PodSet(requests={"cpu": 1}, topology=TopologyRequest(PodSetTopologyRequest("host"))),)
    for host in ("h1", "h2"):
        running = running_workload(f"on-{host}", "q", CPU, 1)
        assert running.admission is not None
        domain = TopologyAssignment(("host",), (TopologyDomainAssignment((host,), 1),))
        pods = running.admission.pod_sets[0]._replace(topology_assignment=domain)
        snapshot.add_workload(replace(running, admission=running.admission._replace(pod_sets=(pods,))))
    first = Workload("ns", "first", pod_sets, priority=2, created_at=0.0)
    second = Workload("ns", "second", pod_sets, priority=1, created_at=1.0)
    decisions = run_cycle(snapshot, [Head(first, "q"), Head(second, "other")], QuotaSettings(), 0.0)
    assert [(decision.workload.name, decision.status) for decision in decisions] == [
        ("first", "preempting"),
        ("second", "waiting"),
    ]
    assert [target.workload.name for target in decisions[0].preemption_targets] == ["on-h1"]
    assert sorted(topology.occupied.elements()) == ["h1", "h2"]


class OpenGate:
    """A gate that delays no start and records each one."""

    def __init__(self, delayed: str = "") -> None:
        self.delayed, self.started = delayed, list[str]()

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        assert workload.admission is not None
        return self.delayed

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        self.started.append("<".join([workload.name, *(victim.name for victim in victims)]))


@pytest.mark.parametrize("delayed", ["", "ns/reserved"])
def test_a_reservation_delays_only_workloads_without_quota(delayed: str) -> None:
    """Each start is recorded with its victims; a workload that already has quota has started before."""
    preemption = ClusterQueuePreemption(within_cluster_queue="LowerPriority")
    snapshot = Snapshot([cpu_queue("q", 4), cpu_queue("full", 2, preemption, "")])
    for workload in (running_workload("runs", "q", CPU, 1), running_workload("low", "full", CPU, 2, -1)):
        snapshot.add_workload(workload)
    running = snapshot.workloads_by_queue["q"]["ns/runs"]
    heads = [Head(running, "q"), Head(pending_workload("new", 2), "q"), Head(pending_workload("high", 2), "full")]
    gate = OpenGate(delayed)
    decisions = run_cycle(snapshot, heads, QuotaSettings(), 0.0, gate=gate)
    waits = "waiting" if delayed else ""
    assert {decision.workload.name: (decision.status, decision.delayed_reservation) for decision in decisions} == {
        "runs": ("admitted", ""),
        "new": (waits or "admitted", delayed),
        "high": (waits or "preempting", delayed),
    }
    assert sorted(gate.started) == ([] if delayed else ["high<low", "new"])
