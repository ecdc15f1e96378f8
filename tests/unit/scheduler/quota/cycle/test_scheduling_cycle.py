"""Whole cycles: quotas hold, decisions agree with the snapshot, and every head has a decision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

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
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueuePreemption, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import (
    admission_checks_for_workload,
    quota_resources_to_reserve,
    run_cycle,
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

    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyAssignments

SETTINGS = st.sampled_from([QuotaSettings(), QuotaSettings(fair_sharing=True)])
NEW = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=4)
"""Amount, priority and time of creation of new workloads."""


def make_heads(snapshot: Snapshot, new: list[tuple[int, int, int]]) -> list[Head]:
    """One head for each queue."""
    return [
        Head(pending_workload(f"new-{name}", amount, priority, float(created)), name)
        for name, (amount, priority, created) in zip(snapshot.cluster_queues, new, strict=False)
    ]


@given(snapshots(), NEW, SETTINGS)
def test_admissions_stay_within_quota(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """No admission makes a root exceed its quota, or a node its borrowing limit."""
    nodes = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    before = {(id(node), key): node.usage.get(key, 0) for node in nodes for key in KEYS}
    run_cycle(snapshot, make_heads(snapshot, new), settings, 9.0)
    for node in nodes:
        for key in KEYS:
            usage, quota = node.usage.get(key, 0), node.quotas.get(key)
            more = usage - before[id(node), key]
            beyond = usage - node.subtree_quota.get(key, 0)
            assert more >= 0
            assert not (more and node.parent is None and beyond > 0)
            assert not (
                more and quota is not None and quota.borrowing_limit is not None and beyond > quota.borrowing_limit
            )


@given(snapshots(), NEW, SETTINGS)
def test_every_head_is_decided_and_only_admitted_workloads_are_added(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """What the cycle held for pending workloads is released. To add the admitted workloads again changes nothing."""
    heads = make_heads(snapshot, new)
    running = {key for workloads in snapshot.workloads_by_queue.values() for key in workloads}
    decisions = run_cycle(snapshot, heads, settings, 9.0)
    decided = sorted(decision.head.workload.key for decision in decisions)
    assert decided == sorted(head.workload.key for head in heads)
    admitted = {decision.workload.key for decision in decisions if decision.status == "admitted"}
    assert {key for workloads in snapshot.workloads_by_queue.values() for key in workloads} == running | admitted
    after = nonzero_usage(snapshot)
    for decision in decisions:
        if decision.status == "admitted":
            snapshot.remove_workload(decision.workload)
            snapshot.add_workload(decision.workload)
    assert nonzero_usage(snapshot) == after


@given(snapshots(), NEW, SETTINGS)
def test_no_workload_is_the_victim_of_two_preemptors(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    decisions = run_cycle(snapshot, make_heads(snapshot, new), settings, 9.0)
    victims = [target.workload.key for decision in decisions for target in decision.preemption_targets]
    assert len(set(victims)) == len(victims)
    for decision in decisions:
        if decision.status == "preempting":
            assert decision.preemption_targets
            assert decision.assignment is not None
            assert decision.assignment.representative_mode == FlavorAssignmentMode.PREEMPT


@given(snapshots(), NEW, SETTINGS)
def test_all_but_admitted_workloads_have_a_reason(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    for decision in run_cycle(snapshot, make_heads(snapshot, new), settings, 9.0):
        assert (decision.reason == "") == (decision.status == "admitted")


# --- examples


def statuses(snapshot: Snapshot, *heads: Head) -> dict[str, str]:
    return {decision.workload.name: decision.status for decision in run_cycle(snapshot, heads, QuotaSettings(), 0.0)}


def test_a_later_entry_is_skipped_if_the_quota_is_gone() -> None:
    snapshot = Snapshot([cpu_queue("a", 0), cpu_queue("b", 0), cpu_queue("lender", 4)])
    heads = [Head(pending_workload("early", 3, created=1.0), "a"), Head(pending_workload("late", 3, created=2.0), "b")]
    assert statuses(snapshot, *reversed(heads)) == {"early": "admitted", "late": "skipped"}


def test_quota_is_held_for_a_workload_that_may_not_preempt() -> None:
    """A queue without own quota is not admitted before a queue that waits for its own quota."""
    snapshot = Snapshot([cpu_queue("owner", 4), cpu_queue("guest", 0)])
    snapshot.add_workload(running_workload("small", "guest", CPU, 2))
    heads = [Head(pending_workload("big", 4), "owner"), Head(pending_workload("more", 2, priority=5), "guest")]
    assert statuses(snapshot, *heads) == {"big": "waiting", "more": "skipped"}
    assert snapshot.cluster_queues["guest"].usage == {CPU: 2}


@pytest.mark.parametrize(
    ("mode", "used", "reserved"),
    [
        (FlavorAssignmentMode.NO_FIT, 3, 9),
        (FlavorAssignmentMode.FIT, 3, 9),
        (FlavorAssignmentMode.PREEMPT, 3, 1),
        (FlavorAssignmentMode.PREEMPT, 0, 4),
        (FlavorAssignmentMode.PREEMPT, 5, 0),
    ],
)
def test_a_waiting_preemptor_holds_what_is_left_of_its_nominal_quota(
    mode: FlavorAssignmentMode, used: int, reserved: int
) -> None:
    """Other modes hold all that they use. Without quota of its own, the queue holds none."""
    queue = Snapshot([cpu_queue("q", 4)]).cluster_queues["q"]
    if used:
        queue.add_usage({CPU: used})
    other = FlavorResource("any", "gpu")
    pod_sets = (PodSetAssignment("main", 1, {}, {"cpu": FlavorAssignment("any", mode)}),)
    amounts = quota_resources_to_reserve(queue, Assignment(pod_sets, {CPU: 9, other: 9}))
    assert amounts == {CPU: reserved, other: 0 if mode == FlavorAssignmentMode.PREEMPT else 9}


def test_a_victim_can_free_enough_for_two() -> None:
    """The second entry waits until the same victim has ended, and has no victims."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([cpu_queue("a", 2, preemption), cpu_queue("b", 2, preemption), cpu_queue("guest", 0)])
    snapshot.add_workload(running_workload("large", "guest", CPU, 4))
    heads = [
        Head(pending_workload("first", 2, created=1.0), "a"),
        Head(pending_workload("second", 2, created=2.0), "b"),
    ]
    assert statuses(snapshot, *heads) == {"first": "preempting", "second": "deferred"}


def test_inadmissible_heads_have_their_reasons() -> None:
    snapshot = Snapshot([cpu_queue("a", 2), cpu_queue("held", 2)._replace(stop_policy="Hold")])
    heads = [
        Head(pending_workload("failed", 1), "a", inadmissible_reason="checks"),
        Head(pending_workload("foreign", 1), "a", inadmissible_reason="namespace"),
        Head(pending_workload("stopped", 1), "held"),
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
        "lost": ("inadmissible", "Misconfigured", ""),
    }


def test_admission_checks_for_certain_flavors() -> None:
    rules = AdmissionCheckStrategyRule("all"), AdmissionCheckStrategyRule("spot", frozenset({"spot"}))
    spec = cpu_queue("a", 2)._replace(admission_checks=rules)
    for flavor, checks in (("any", ("all",)), ("spot", ("all", "spot"))):
        admission = running_workload("w", "a", FlavorResource(flavor, "cpu"), 1).admission
        assert admission is not None
        assert admission_checks_for_workload(spec, admission) == checks


class TwoHostTopology(EmptyTopologySnapshot):
    """A topology of the flavor "any" with two hosts, each for one pod."""

    def __init__(self) -> None:
        self.occupied: list[str] = []

    def has_topology(self, flavor: str) -> bool:
        return flavor == "any"

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return request.request.required == "host"

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        free = [host for host in ("h1", "h2") if empty or host not in self.occupied]
        if not free:
            return TopologyPlacementFailure("main", "any", "both hosts are full")
        return {"main": TopologyAssignment(("host",), (TopologyDomainAssignment((free[0],), 1),))}

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        return not set(hosts_of(workload)) & set(self.occupied)

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        self.occupied += hosts_of(workload)

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        for host in hosts_of(workload):
            self.occupied.remove(host)


def hosts_of(workload: Workload) -> list[str]:
    pod_sets = () if workload.admission is None else workload.admission.pod_sets
    assignments = [pod_set.topology_assignment for pod_set in pod_sets]
    return [domain.values[0] for assignment in assignments if assignment for domain in assignment.domains]


def test_no_placement_is_assigned_twice() -> None:
    """All were nominated for the first host. The second workload gets the second host, and the third waits."""
    flavors = [ResourceFlavor("any", topology_name="hosts")]
    queues = [cpu_queue(name, 4) for name in "abc"]
    snapshot = Snapshot(queues, resource_flavors=flavors, tas_snapshot=TwoHostTopology())
    pod_sets = (PodSet(requests={"cpu": 1}, topology=TopologyRequest(PodSetTopologyRequest("host"))),)
    heads = [Head(Workload("ns", name, pod_sets, created_at=float(i)), name) for i, name in enumerate("abc")]
    decisions = {decision.workload.name: decision for decision in run_cycle(snapshot, heads, QuotaSettings(), 0.0)}
    assert {name: hosts_of(decision.workload) for name, decision in decisions.items()} == {
        "a": ["h1"],
        "b": ["h2"],
        "c": [],
    }
    assert (decisions["c"].status, decisions["c"].requeue_reason) == ("waiting", "NoCandidates")


class UnhealthyNodes(EmptyTopologySnapshot):
    """All pods are on nodes that have failed."""

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> frozenset[str]:
        return frozenset(pod_set.name for pod_set in workload.pod_sets)


@pytest.mark.parametrize(
    ("amount", "fail_fast", "status"),
    [(2, True, "admitted"), (4, True, "evicted"), (9, True, "evicted"), (4, False, "waiting"), (9, False, "waiting")],
)
def test_a_workload_on_failed_nodes_is_evicted_where_it_does_not_fit(amount: int, fail_fast: bool, status: str) -> None:
    """Neither where its quota is in use, nor where there is too little. Without fail-fast it waits."""
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
    """It neither keeps it from what is available, nor makes what never fits wait for the gate."""
    preemption = ClusterQueuePreemption(within_cluster_queue="LowerPriority")
    snapshot = Snapshot([cpu_queue("q", 4, preemption)])
    snapshot.add_workload(running_workload("low", "q", CPU, 2))
    new = replace(pending_workload("new", amount, priority=1), preemption_gated=gated)
    assert statuses(snapshot, Head(new, "q")) == {"new": status}


@pytest.mark.parametrize(
    ("reclaim", "status"), [("Never", "skipped"), ("LowerPriority", "skipped"), ("Any", "admitted")]
)
def test_quota_is_held_for_a_preemptor_without_victims_unless_it_can_reclaim(
    reclaim: Literal["Never", "LowerPriority", "Any"], status: str
) -> None:
    """A queue that reclaims all that it lends gets it back later."""
    preemption = ClusterQueuePreemption("LowerPriority", reclaim)
    snapshot = Snapshot([cpu_queue("owner", 4, preemption), cpu_queue("guest", 0)])
    snapshot.add_workload(running_workload("own", "owner", CPU, 2, priority=9))
    heads = [Head(pending_workload("big", 4), "owner"), Head(pending_workload("more", 2, priority=-1), "guest")]
    assert statuses(snapshot, *heads) == {"big": "waiting", "more": status}
    assert snapshot.cluster_queues["owner"].usage == {CPU: 2}


def test_a_preempting_workload_holds_its_quota_and_its_placement() -> None:
    """The next workload gets neither: it would start where the victim still runs."""
    preemption = ClusterQueuePreemption(within_cluster_queue="LowerPriority")
    topology = TwoHostTopology()
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
    assert sorted(topology.occupied) == ["h1", "h2"]


class OpenGate:
    """It delays no start, and records each one."""

    def __init__(self, delayed: str = "") -> None:
        self.delayed, self.started = delayed, list[str]()

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        assert workload.admission is not None
        return self.delayed

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        self.started.append("<".join([workload.name, *(victim.name for victim in victims)]))


@pytest.mark.parametrize("delayed", ["", "ns/reserved"])
def test_a_reservation_delays_workloads_without_quota_alone(delayed: str) -> None:
    """Each start, with its victims, is recorded; a workload that has its quota has started before."""
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
