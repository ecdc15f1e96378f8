"""Whole cycles: quotas hold whatever comes, what is decided agrees with the snapshot, and nobody is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import KEYS, running, snapshots, usages, waiting
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import (
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueuePreemption,
    ResourceFlavor,
)
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload, run_cycle
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot, TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyAssignments

CPU = FlavorResource("any", "cpu")
SETTINGS = st.sampled_from([QuotaSettings(), QuotaSettings(fair_sharing=True)])
NEW = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=4)


def heads_of(snapshot: Snapshot, new: list[tuple[int, int, int]]) -> list[Head]:
    """One for each queue."""
    return [
        Head(waiting(f"new-{name}", amount, priority, float(created)), name)
        for name, (amount, priority, created) in zip(snapshot.cluster_queues, new, strict=False)
    ]


@given(snapshots(), NEW, SETTINGS)
def test_what_is_admitted_has_room(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """No root goes beyond its quota by an admission, and no queue beyond what it may borrow."""
    nodes = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    before = {(id(node), key): node.usage.get(key, 0) for node in nodes for key in KEYS}
    run_cycle(snapshot, heads_of(snapshot, new), settings, 9.0)
    for node in nodes:
        for key in KEYS:
            used, quota = node.usage.get(key, 0), node.quotas.get(key)
            more = used - before[id(node), key]
            beyond = used - node.subtree_quota.get(key, 0)
            assert more >= 0
            assert not (more and node.parent is None and beyond > 0)
            assert not (
                more and quota is not None and quota.borrowing_limit is not None and beyond > quota.borrowing_limit
            )


@given(snapshots(), NEW, SETTINGS)
def test_all_are_decided_and_only_the_admitted_stay(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """What was set aside for those that wait is given back; a second cycle of those admitted would change nothing."""
    heads = heads_of(snapshot, new)
    held = {key: one for found in snapshot.workloads_by_queue.values() for key, one in found.items()}
    decisions = run_cycle(snapshot, heads, settings, 9.0)
    assert sorted(one.head.workload.key for one in decisions) == sorted(one.workload.key for one in heads)
    admitted = {one.workload.key for one in decisions if one.status == "admitted"}
    assert {key for found in snapshot.workloads_by_queue.values() for key in found} == held.keys() | admitted
    after = usages(snapshot)
    for one in decisions:
        if one.status == "admitted":
            snapshot.remove_workload(one.workload)
            snapshot.add_workload(one.workload)
    assert usages(snapshot) == after


@given(snapshots(), NEW, SETTINGS)
def test_nobody_is_the_victim_of_two(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """And each preemptor fits once all victims of the cycle are gone."""
    decisions = run_cycle(snapshot, heads_of(snapshot, new), settings, 9.0)
    victims = [target.workload.key for one in decisions for target in one.preemption_targets]
    assert len(set(victims)) == len(victims)
    for one in decisions:
        if one.status == "preempting":
            assert one.preemption_targets
            assert one.assignment is not None
            assert one.assignment.representative_mode == FlavorAssignmentMode.PREEMPT


@given(snapshots(), NEW, SETTINGS)
def test_what_waits_says_why(snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings) -> None:
    for one in run_cycle(snapshot, heads_of(snapshot, new), settings, 9.0):
        assert (one.reason == "") == (one.status == "admitted")


# --- examples


NOBODY = ClusterQueuePreemption()


def queue(name: str, nominal: int, preemption: ClusterQueuePreemption = NOBODY, cohort: str = "c") -> ClusterQueue:
    quotas = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(nominal)),))),)
    return ClusterQueue(name, quotas, cohort, preemption=preemption)


def statuses(snapshot: Snapshot, *heads: Head) -> dict[str, str]:
    return {one.workload.name: one.status for one in run_cycle(snapshot, heads, QuotaSettings(), 0.0)}


def test_the_second_finds_the_room_taken() -> None:
    snapshot = Snapshot([queue("a", 0), queue("b", 0), queue("lender", 4)])
    heads = [Head(waiting("early", 3, created=1.0), "a"), Head(waiting("late", 3, created=2.0), "b")]
    assert statuses(snapshot, *reversed(heads)) == {"early": "admitted", "late": "skipped"}


def test_room_is_kept_for_who_may_not_preempt() -> None:
    """A queue with nothing of its own is not let in before a queue that waits for its own quota."""
    snapshot = Snapshot([queue("owner", 4), queue("guest", 0)])
    snapshot.add_workload(running("small", "guest", CPU, 2))
    heads = [Head(waiting("big", 4), "owner"), Head(waiting("more", 2, priority=5), "guest")]
    assert statuses(snapshot, *heads) == {"big": "waiting", "more": "skipped"}
    assert snapshot.cluster_queues["guest"].usage == {CPU: 2}


def test_a_victim_of_another_makes_room_for_two() -> None:
    """The one who comes second waits for the same victim to be gone, and names nobody."""
    rules = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([queue("a", 2, rules), queue("b", 2, rules), queue("guest", 0)])
    snapshot.add_workload(running("large", "guest", CPU, 4))
    heads = [Head(waiting("first", 2, created=1.0), "a"), Head(waiting("second", 2, created=2.0), "b")]
    assert statuses(snapshot, *heads) == {"first": "preempting", "second": "deferred"}


def test_heads_that_no_quota_helps() -> None:
    """Each is told why, and the quota of the others is theirs."""
    snapshot = Snapshot([queue("a", 2), queue("held", 2)._replace(stop_policy="Hold")])
    heads = [
        Head(waiting("failed", 1), "a", inadmissible_reason="checks"),
        Head(waiting("foreign", 1), "a", inadmissible_reason="namespace"),
        Head(waiting("stopped", 1), "held"),
        Head(waiting("lost", 1), "nowhere"),
    ]
    found = {
        one.workload.name: (one.status, one.reason, one.requeue_reason)
        for one in run_cycle(snapshot, heads, QuotaSettings(), 0.0)
    }
    assert found == {
        "failed": ("inadmissible", "PendingEvaluation", ""),
        "foreign": ("inadmissible", "Misconfigured", "NamespaceMismatch"),
        "stopped": ("inadmissible", "Suspended", ""),
        "lost": ("inadmissible", "Misconfigured", ""),
    }


def test_checks_of_certain_flavors() -> None:
    spec = queue("a", 2)._replace(
        admission_checks=(AdmissionCheckStrategyRule("all"), AdmissionCheckStrategyRule("spot", frozenset({"spot"})))
    )
    for flavor, checks in (("any", ("all",)), ("spot", ("all", "spot"))):
        admission = running("w", "a", FlavorResource(flavor, "cpu"), 1).admission
        assert admission is not None
        assert admission_checks_for_workload(spec, admission) == checks


class TwoHostTopology(EmptyTopologySnapshot):
    """A topology of the flavor "any" with two hosts, each with room for one pod."""

    def __init__(self) -> None:
        self._full: list[object] = []

    def has_topology(self, flavor: str) -> bool:
        return flavor == "any"

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return request.request.required == "host"

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        free = [host for host in ("one", "two") if empty or host not in self._full]
        return {"main": free[0]} if free else TopologyPlacementFailure("main", "any", "both hosts are full")

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        return not self._hosts(workload) & set(self._full)

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        self._full += self._hosts(workload)

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        for host in self._hosts(workload):
            self._full.remove(host)

    def _hosts(self, workload: Workload) -> set[object]:
        return (
            set()
            if workload.admission is None
            else {one.topology_assignment for one in workload.admission.pod_sets if one.topology_assignment}
        )


def test_no_place_is_given_twice() -> None:
    """Both were nominated for the first host: the later one is given the second, and the third waits."""
    flavors = [ResourceFlavor("any", topology_name="hosts")]
    snapshot = Snapshot([queue(name, 4) for name in "abc"], resource_flavors=flavors, tas_snapshot=TwoHostTopology())
    placed = (PodSet(requests={"cpu": 1}, topology=TopologyRequest(PodSetTopologyRequest("host"))),)
    heads = [Head(Workload("ns", name, placed, created_at=float(place)), name) for place, name in enumerate("abc")]
    found = {one.workload.name: one for one in run_cycle(snapshot, heads, QuotaSettings(), 0.0)}
    hosts = {
        name: one.workload.admission.pod_sets[0].topology_assignment
        for name, one in found.items()
        if one.workload.admission
    }
    assert hosts == {"a": "one", "b": "two"}
    assert (found["c"].status, found["c"].requeue_reason) == ("waiting", "NoCandidates")
