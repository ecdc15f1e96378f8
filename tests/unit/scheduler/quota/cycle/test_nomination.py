"""Nomination: the search for fewer pods, victims and placements."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import (
    assign_without_preemption,
    flavor_assigner,
    is_admission_suitable,
    nominate,
    search_pod_counts,
)
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


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4), st.integers(0, 40))
def test_as_many_pods_as_fit_are_admitted(bounds: list[tuple[int, int]], capacity: int) -> None:
    """The result is the first counts that fit, from the full counts down to the minimum, step by step."""
    pod_sets = [PodSet(f"{i}", minimum + more, min_pods=minimum) for i, (minimum, more) in enumerate(bounds)]
    steps = sum(more for _, more in bounds)
    by_step = [
        tuple(minimum + more - floor(Fraction(more * step, steps)) for minimum, more in bounds)
        for step in (range(steps + 1) if steps else ())
    ]
    counts = search_pod_counts(pod_sets, lambda counts: counts if sum(counts) <= capacity else None)
    assert counts == next((counts for counts in by_step if sum(counts) <= capacity), None)
    assert all(isinstance(count, int) for count in counts or ())


def test_pod_counts_are_reduced_by_the_same_fraction_and_rounded() -> None:
    """Of the two pod sets, 4 and 2 pods may be omitted; counts are rounded up."""
    pod_sets = [PodSet("a", 5, min_pods=1), PodSet("b", 3, min_pods=1), PodSet("fixed", 7)]
    tried: list[tuple[int, ...]] = []

    def record(counts: tuple[int, ...]) -> bool | None:
        tried.append(counts)
        return None

    assert search_pod_counts(pod_sets, record) is None
    assert tried == [(3, 2, 7), (2, 2, 7), (1, 1, 7)]
    assert search_pod_counts(pod_sets, lambda counts: counts) == (5, 3, 7)


def test_as_many_of_a_thousand_pods_as_fit_are_admitted() -> None:
    pod_sets = [PodSet(pods=1000, min_pods=400)]
    assert search_pod_counts(pod_sets, lambda counts: counts if counts <= (700,) else None) == (700,)


CAN_SHRINK = Workload("ns", "new", (PodSet("main", 4, min_pods=2, requests={"cpu": 1}),))


@pytest.mark.parametrize(
    ("in_use", "partial", "pods"),
    [(0, True, 4), (0, False, 4), (1, True, 3), (1, False, None), (2, True, 2), (3, True, None)],
)
def test_fewer_pods_start_without_preemption_if_not_all_fit(in_use: int, pods: int | None, *, partial: bool) -> None:
    """The queue may preempt anything; a workload with quota keeps its pods."""
    snapshot = Snapshot([cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))])
    if in_use:
        snapshot.add_workload(running_workload("runs", "q", CPU, in_use, -1))
    assignment = assign_without_preemption(snapshot, Head(CAN_SHRINK, "q"), QuotaSettings(partial_admission=partial))
    assert (None if assignment is None else assignment.pod_sets[0].pods) == pods
    admitted = replace(CAN_SHRINK, admission=running_workload("w", "q", CPU, 1).admission)
    kept = assign_without_preemption(snapshot, Head(admitted, "q"), QuotaSettings(partial_admission=partial))
    assert kept is not None
    assert kept.pod_sets[0].pods == 1


@pytest.mark.parametrize(
    ("priority", "partial", "mode", "pods", "targets"),
    [
        (1, True, FlavorAssignmentMode.PREEMPT, 4, {"runs"}),
        (0, True, FlavorAssignmentMode.FIT, 3, set[str]()),
        (0, False, FlavorAssignmentMode.PREEMPT, 4, set[str]()),
    ],
)
def test_preempting_for_all_pods_precedes_starting_fewer_pods(
    priority: int, mode: FlavorAssignmentMode, pods: int, targets: set[str], *, partial: bool
) -> None:
    snapshot = Snapshot([cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))])
    snapshot.add_workload(running_workload("runs", "q", CPU, 1))
    head = Head(replace(CAN_SHRINK, priority=priority), "q")
    assignment, victims = nominate(flavor_assigner(snapshot, head, QuotaSettings(partial_admission=partial)))
    assert (assignment.representative_mode, assignment.pod_sets[0].pods) == (mode, pods)
    assert {victim.workload.name for victim in victims} == targets


@pytest.mark.parametrize(("amount", "victims"), [(2, {"low"}), (3, {"low", "high"}), (4, {"low", "high"})])
def test_the_victims_free_all_that_is_requested(amount: int, victims: set[str]) -> None:
    snapshot = Snapshot([cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))])
    snapshot.add_workload(running_workload("low", "q", CPU, 2, 0))
    snapshot.add_workload(running_workload("high", "q", CPU, 2, 1))
    head = Head(pending_workload("new", amount, priority=2), "q")
    _, targets = nominate(flavor_assigner(snapshot, head, QuotaSettings()))
    assert {target.workload.name for target in targets} == victims


@pytest.mark.parametrize(("pods", "victims"), [(1, 1), (2, 2), (3, 3)])
def test_the_victims_free_the_quota_of_pods(pods: int, victims: int) -> None:
    """Three pods run in a queue for three; the number of pods is the only quota that is missing."""
    quotas = FlavorQuotas("any", (("pods", ResourceQuota(3)), ("cpu", ResourceQuota(9))))
    snapshot = Snapshot(
        [ClusterQueue("q", (resource_group(quotas),), preemption=ClusterQueuePreemption("LowerPriority"))]
    )
    for name in "abc":
        snapshot.add_workload(running_workload(name, "q", FlavorResource("any", "pods"), 1))
    new = Workload("ns", "new", (PodSet(pods=pods, requests={"cpu": 1}),), "new", priority=1)
    _, targets = nominate(flavor_assigner(snapshot, Head(new, "q"), QuotaSettings()))
    assert len(targets) == victims


class OneHost(EmptyTopologySnapshot):
    """A topology of the flavor "any" with one host, for the pods of a single workload."""

    def __init__(self, *, unhealthy: bool = False) -> None:
        self.occupied, self._unhealthy = 0, unhealthy

    def has_topology(self, flavor: str) -> bool:
        return True

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return True

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        return {"main": HOST} if empty or not self.occupied else TopologyPlacementFailure("main", "any", "it is full")

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> frozenset[str]:
        return frozenset(["main"] if self._unhealthy else ())

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        self.occupied += has_placement(workload)

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        self.occupied -= has_placement(workload)


HOST = TopologyAssignment(("host",), (TopologyDomainAssignment(("h",), 1),))


def has_placement(workload: Workload) -> bool:
    return any(pod_set.topology_assignment is not None for pod_set in workload.admitted_pod_sets.values())


def with_placement(workload: Workload, placement: TopologyAssignment = HOST) -> Workload:
    assert workload.admission is not None
    pod_sets = tuple(pod_set._replace(topology_assignment=placement) for pod_set in workload.admission.pod_sets)
    return replace(workload, admission=workload.admission._replace(pod_sets=pod_sets))


class UnsuitableHosts(EmptyTopologySnapshot):
    """Taints and labels keep pods away from the nodes of their placements."""

    def suits(self, workload: Workload) -> bool:
        return False


@pytest.mark.parametrize(
    ("key", "taints", "hosts", "is_suitable"),
    [
        (CPU, (), EmptyTopologySnapshot(), True),
        (CPU, (Taint("maintenance", "", "NoSchedule"),), EmptyTopologySnapshot(), False),
        (CPU, (), UnsuitableHosts(), False),
        (FlavorResource("other", "cpu"), (), EmptyTopologySnapshot(), False),
        (FlavorResource("any", "gpu"), (), EmptyTopologySnapshot(), False),
    ],
    ids=["suitable", "tainted flavor", "hosts", "flavor of another queue", "resource without quota"],
)
def test_an_admission_is_suitable_if_its_flavors_and_hosts_are(
    key: FlavorResource, taints: tuple[Taint, ...], hosts: EmptyTopologySnapshot, *, is_suitable: bool
) -> None:
    flavors = [ResourceFlavor("any", node_taints=taints), ResourceFlavor("other")]
    snapshot = Snapshot([cpu_queue("q", 4)], resource_flavors=flavors, tas_snapshot=hosts)
    assert is_admission_suitable(snapshot, running_workload("w", "q", key, 1)) is is_suitable


@pytest.mark.parametrize("has_quota", [False, True])
@pytest.mark.parametrize(("priority", "victims"), [(1, {"runs"}), (0, set[str]())])
def test_a_waiting_workload_has_the_placement_that_it_waits_for(
    priority: int, victims: set[str], *, has_quota: bool
) -> None:
    """The placement is that without its victims or, if it has none, in an empty cluster. Its own quota suffices."""
    queue = cpu_queue("q", 1 if has_quota else 4, ClusterQueuePreemption("LowerPriority"))
    flavors = [ResourceFlavor("any", topology_name="hosts")]
    snapshot = Snapshot([queue], resource_flavors=flavors, tas_snapshot=OneHost())
    snapshot.add_workload(with_placement(running_workload("runs", "q", CPU, 1)))
    pod_sets = (PodSet(requests={"cpu": 1}, topology=TopologyRequest(PodSetTopologyRequest("host"))),)
    admission = running_workload("new", "q", CPU, 1).admission if has_quota else None
    new = Workload("ns", "new", pod_sets, priority=priority, admission=admission)
    if has_quota:
        snapshot.add_workload(new)
    assignment, targets = nominate(flavor_assigner(snapshot, Head(new, "q"), QuotaSettings()))
    assert assignment.representative_mode == FlavorAssignmentMode.PREEMPT
    assert [pod_set.topology_assignment for pod_set in assignment.pod_sets] == [HOST]
    assert {target.workload.name for target in targets} == victims


def test_pods_that_leave_an_unhealthy_node_do_not_wait_for_a_placement() -> None:
    """If there is no placement now, the workload does not fit, and it keeps its present placement."""
    queue = cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))
    flavors = [ResourceFlavor("any", topology_name="hosts")]
    snapshot = Snapshot([queue], resource_flavors=flavors, tas_snapshot=OneHost(unhealthy=True))
    snapshot.add_workload(with_placement(running_workload("runs", "q", CPU, 1, priority=-1)))
    old = TopologyAssignment(("host",), (TopologyDomainAssignment(("old",), 1),))
    moving = with_placement(running_workload("moves", "q", CPU, 1), old)
    topology = TopologyRequest(PodSetTopologyRequest("host"))
    moving = replace(moving, pod_sets=(moving.pod_sets[0]._replace(topology=topology),))
    assignment, targets = nominate(flavor_assigner(snapshot, Head(moving, "q"), QuotaSettings()))
    assert (assignment.representative_mode, targets) == (FlavorAssignmentMode.NO_FIT, ())
    assert [pod_set.topology_assignment for pod_set in assignment.pod_sets] == [old]


def test_a_workload_that_never_fits_has_no_victims() -> None:
    """One pod set could get quota that is in use; for the other one's resource there is no quota."""
    snapshot = Snapshot([cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))])
    snapshot.add_workload(running_workload("runs", "q", CPU, 4))
    pod_sets = (PodSet("cpus", requests={"cpu": 2}), PodSet("gpus", requests={"gpu": 1}))
    head = Head(Workload("ns", "new", pod_sets, priority=1), "q")
    assignment, targets = nominate(flavor_assigner(snapshot, head, QuotaSettings()))
    assert (assignment.representative_mode, targets) == (FlavorAssignmentMode.NO_FIT, ())


def test_a_workload_that_is_too_large_keeps_the_reason_for_all_its_pods() -> None:
    snapshot = Snapshot([cpu_queue("q", 4)])
    assignment, victims = nominate(flavor_assigner(snapshot, Head(pending_workload("new", 5), "q"), QuotaSettings()))
    assert (assignment.no_fit_reason, victims) == ("ExceedsMaxQuota", ())
