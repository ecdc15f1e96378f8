"""Which nodes are suitable for pods, by taints, node selectors and affinity; and the scan of flavors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.quota.api.queue_types import (
    ClusterQueue,
    ClusterQueuePreemption,
    Cohort,
    PreemptionPolicy,
    ResourceFlavor,
)
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState, FlavorStatus, NoFitReason
from zonewise_scheduler.quota.flavorassigner.flavor_scan import (
    FlavorAssigner,
    check_flavor_for_pod_set,
    check_pod_set_and_flavor_match_for_tas,
    find_flavor_for_pod_sets,
    fits_resource_quota,
    is_flavor_suitable,
)
from zonewise_scheduler.quota.flavorassigner.granular_mode import BEST_GRANULAR_MODE, GranularMode, PreemptionMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot
from zonewise_scheduler.quota.preemption.preemption_oracle import PreemptionPossibility, no_candidates_oracle
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

if TYPE_CHECKING:
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot

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
    """A term that only concerns other labels satisfies the affinity."""
    assert (check_flavor_for_pod_set(pod_set, SPOT._replace(node_taints=())) == "") == suits


class Racks(EmptyTopologySnapshot):
    """The flavor spot has a topology with racks."""

    def has_topology(self, flavor: str) -> bool:
        return flavor == "spot"

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return request.request.required == "rack"


GROUP = resource_group(FlavorQuotas("spot", (("cpu", ResourceQuota(4)),)))


@pytest.mark.parametrize(
    ("level", "flavor", "topology", "resource", "only_topologies", "problem"),
    [
        ("", "spot", "", "cpu", False, ""),
        ("", "spot", "", "cpu", True, ""),
        ("", "spot", "racks", "cpu", True, ""),
        ("", "spot", "racks", "cpu", False, "its nodes are only for pods that request placement"),
        ("rack", "spot", "", "cpu", False, "it has no topology"),
        ("rack", "spot", "", "memory", False, ""),
        ("rack", "other", "racks", "cpu", False, "its topology is unknown"),
        ("rack", "spot", "racks", "cpu", False, ""),
        ("row", "spot", "racks", "cpu", False, "its topology racks lacks a requested level: row"),
    ],
)
def test_topologies(
    level: str, flavor: str, topology: str, resource: str, problem: str, *, only_topologies: bool
) -> None:
    request = TopologyRequest(PodSetTopologyRequest(level)) if level else None
    pod_set = PodSet(requests={resource: 1}, topology=request)
    nodes = ResourceFlavor(flavor, topology_name=topology)
    found = check_pod_set_and_flavor_match_for_tas(pod_set, nodes, GROUP, Racks(), is_tas_only=only_topologies)
    assert found == problem


# --- the scan


def cpus(*amounts: int) -> ClusterQueue:
    """Return a queue with CPUs of flavors that are named by their indexes."""
    flavors = [FlavorQuotas(f"{i}", (("cpu", ResourceQuota(amount)),)) for i, amount in enumerate(amounts)]
    return ClusterQueue("q", (resource_group(*flavors),))


def scan_assigner(spec: ClusterQueue, workload: Workload) -> FlavorAssigner:
    snapshot = Snapshot([spec])
    return FlavorAssigner(snapshot, workload, snapshot.cluster_queues["q"], no_candidates_oracle)


@pytest.mark.parametrize(
    ("amounts", "flavor", "tried"),
    [
        ((4,), "0", -1),
        ((4, 4), "0", 0),
        ((1, 4), "1", -1),
        ((4, 4, 4), "0", 0),
        ((1, 4, 4), "1", 1),
        ((1, 1, 4), "2", -1),
        ((1, 1, 1, 4, 4), "3", 3),
        ((1, 1, 1), "", 0),
    ],
)
def test_the_next_scan_starts_after_the_flavor_that_fits(amounts: tuple[int, ...], flavor: str, tried: int) -> None:
    """It starts at the first flavor once the scan has reached the end. Each flavor keeps its reasons."""
    assigner = scan_assigner(cpus(*amounts), pending_workload("new", 2))
    found = find_flavor_for_pod_sets(assigner, [0], {"cpu": 2}, "cpu", {})
    assert {name: (each.name, each.tried_flavor_idx) for name, each in found.flavors.items()} == (
        {"cpu": (flavor, tried)} if flavor else {}
    )
    too_small = [FlavorStatus("ExceedsMaxQuota", f"{i}", "cpu", 1) for i, amount in enumerate(amounts) if amount < 2]
    assert list(found.statuses) == ([] if flavor else too_small)
    assert [status for each in found.considered_flavors for status in each.statuses] == too_small


def test_pod_sets_of_a_group_continue_where_the_first_one_ended() -> None:
    pod_sets = tuple(PodSet(name, requests={"cpu": 1}) for name in ("leader", "workers"))
    state = AssignmentClusterQueueState({"leader": {"cpu": 0}, "workers": {"cpu": 1}})
    assigner = replace(scan_assigner(cpus(4, 4, 4), Workload("ns", "new", pod_sets)), last_assignment=state)
    assert find_flavor_for_pod_sets(assigner, [0, 1], {"cpu": 2}, "cpu", {}).flavors["cpu"].name == "1"


@pytest.mark.parametrize("mapped", ["0", "1", "2"])
def test_a_mapping_leaves_one_flavor(mapped: str) -> None:
    """Only that flavor is tried, whether or not it fits and whatever its position."""
    for amounts in ((4, 4, 4), (1, 1, 1)):
        assigner = scan_assigner(cpus(*amounts), pending_workload("new", 2))
        assigner = replace(assigner, nomination_mapping={"main": {"cpu": mapped}})
        found = find_flavor_for_pod_sets(assigner, [0], {"cpu": 2}, "cpu", {})
        assert [each.flavor for each in found.considered_flavors] == [mapped]


@pytest.mark.parametrize(
    ("allowed", "labels", "suits"),
    [(None, "spot", True), ("spot", "spot", True), ("other", "spot", False), (None, "other", False)],
)
def test_a_suitable_flavor_is_allowed_and_has_the_labels(allowed: str | None, labels: str, *, suits: bool) -> None:
    """Quota is not checked."""
    allowed_flavors = None if allowed is None else frozenset([allowed])
    pod_sets = (PodSet(requests={"cpu": 9}, node_selector=(is_in("type", labels),)),)
    spec = ClusterQueue("q", (GROUP,))
    snapshot = Snapshot([spec], resource_flavors=[ResourceFlavor("spot", {"type": "spot"})])
    new = Workload("ns", "new", pod_sets, allowed_flavors=allowed_flavors)
    assigner = FlavorAssigner(snapshot, new, snapshot.cluster_queues["q"], no_candidates_oracle)
    assert is_flavor_suitable(assigner, [0], "spot", GROUP) == suits


# --- quota


class Oracle:
    """An oracle that finds a preemption and records that it was called."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(
        self, queue: ClusterQueueSnapshot, workload: Workload, key: FlavorResource, amount: int, /
    ) -> tuple[PreemptionPossibility, int]:
        self.asked = True
        return "Reclaim", 7


NO_FIT, FIT = PreemptionMode.NO_FIT, PreemptionMode.FIT


@pytest.mark.parametrize(
    ("used", "amount", "mode", "reason", "missing"),
    [
        (0, 10, GranularMode(NO_FIT, 0), "ExceedsMaxQuota", 1),
        (0, 4, BEST_GRANULAR_MODE, "", 0),
        (0, 5, GranularMode(FIT, 1), "", 0),
        (0, 7, GranularMode(FIT, 2), "", 0),
        (8, 1, BEST_GRANULAR_MODE, "", 0),
        (8, 3, None, "InUse", 2),
        (9, 1, None, "InUse", 1),
        (9, 4, None, "InUse", 4),
        (9, 6, None, "InUse", 6),
        (9, 7, GranularMode(NO_FIT, 2), "WaitingForQuota", 7),
        (8, 7, GranularMode(NO_FIT, 2), "WaitingForQuota", 6),
        (10, 4, None, "InUse", 4),
    ],
)
def test_the_mode_of_an_amount(
    used: int, amount: int, mode: GranularMode | None, reason: NoFitReason, missing: int
) -> None:
    """The queue has 4 CPUs, its cohort 2, and the root 3; another queue uses some of them.

    A mode of None means that the oracle decides: the quota of the queue, or of its cohort, is sufficient.
    """
    groups = [(resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(amount)),))),) for amount in (2, 3)]
    cohorts = [Cohort("c", "root", groups[0]), Cohort("root", "", groups[1])]
    snapshot = Snapshot([cpu_queue("q", 4), cpu_queue("other", 0, cohort="root")], cohorts)
    if used:
        snapshot.add_workload(running_workload("runs", "other", CPU, used))
    oracle = Oracle()
    found, status = fits_resource_quota(
        snapshot.cluster_queues["q"], pending_workload("new", amount), CPU, amount, oracle, fair_sharing=False
    )
    assert found == (mode or GranularMode(PreemptionMode.RECLAIM, 7))
    assert status == (FlavorStatus(reason, "any", "cpu", missing) if reason else None)
    assert oracle.asked == (mode is None)


@pytest.mark.parametrize(("amount", "reason"), [(3, ""), (4, "InUse"), (5, "ExceedsMaxQuota")])
def test_a_queue_in_no_cohort_may_preempt_for_all_of_its_quota(amount: int, reason: NoFitReason) -> None:
    """It has 4 CPUs, one of which is in use."""
    snapshot = Snapshot([cpu_queue("q", 4, cohort="")])
    snapshot.add_workload(running_workload("runs", "q", CPU, 1))
    queue, oracle, new = snapshot.cluster_queues["q"], Oracle(), pending_workload("new", amount)
    _, status = fits_resource_quota(queue, new, CPU, amount, oracle, fair_sharing=False)
    assert ("" if status is None else status.reason) == reason
    assert oracle.asked == (reason == "InUse")


@pytest.mark.parametrize("borrow", ["Never", "LowerPriority"])
@pytest.mark.parametrize("reclaim", ["", "Never", "LowerPriority", "Any"])
@pytest.mark.parametrize("fair_sharing", [False, True])
@pytest.mark.parametrize("nominal", [None, 0, 3])
def test_which_queues_may_preempt_while_they_borrow(
    borrow: Literal["Never", "LowerPriority"], reclaim: PreemptionPolicy, nominal: int | None, *, fair_sharing: bool
) -> None:
    """The policy decides; with fair sharing, queues that reclaim may do so, too. Within nominal quota, all queues may.

    With a nominal quota of None, the queue has no quota for the resource at all.
    """
    preemption = ClusterQueuePreemption(reclaim_within_cohort=reclaim, borrow_within_cohort=borrow)
    spec = cpu_queue("q", nominal or 0, preemption)
    if nominal is None:
        spec = spec._replace(resource_groups=())
    snapshot = Snapshot([spec, cpu_queue("lender", 3), cpu_queue("other", 0)])
    snapshot.add_workload(running_workload("runs", "other", CPU, 3 + (nominal or 0)))
    oracle, amount = Oracle(), nominal or 1
    queue, new = snapshot.cluster_queues["q"], pending_workload("new", amount)
    fits_resource_quota(queue, new, CPU, amount, oracle, fair_sharing=fair_sharing)
    expected = nominal == 3 or borrow == "LowerPriority" or (fair_sharing and reclaim != "Never")
    assert oracle.asked == expected
