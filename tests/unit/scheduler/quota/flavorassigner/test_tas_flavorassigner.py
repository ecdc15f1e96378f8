"""Which pods are placed now and which later, and what becomes of an assignment without a placement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.quota_strategies import cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Eviction, PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.flavorassigner.assignment import (
    Assignment,
    ConsideredFlavor,
    FlavorAssignment,
    PodSetAssignment,
)
from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
    is_topology_request_delayed,
    needs_second_pass,
    update_assignment_for_tas,
)
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot, TopologyPlacementFailure
from zonewise_scheduler.quota.preemption.preemption_oracle import no_candidates_oracle
from zonewise_scheduler.quota.topology.types import (
    PodSetTopologyRequest,
    TopologyAssignment,
    TopologyDomainAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyAssignments

FIT, PREEMPT, NO_FIT = FlavorAssignmentMode.FIT, FlavorAssignmentMode.PREEMPT, FlavorAssignmentMode.NO_FIT
PLACEMENT = TopologyAssignment(("host",), (TopologyDomainAssignment(("h",), 1),))
FAILURE = TopologyPlacementFailure("main", "b", "it is full")
EXPLICIT = TopologyRequest(PodSetTopologyRequest("host"))


class Topology(EmptyTopologySnapshot):
    """Topologies of some flavors; a placement exists now, only in an empty cluster, or never."""

    def __init__(self, names: str = "b", *, now: bool = True, empty: bool = True, unhealthy: str = "") -> None:
        self._names, self._now, self._empty, self._unhealthy = names, now, empty, unhealthy

    def has_topology(self, flavor: str) -> bool:
        return flavor in self._names

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        return {"main": PLACEMENT} if (self._empty if empty else self._now) else FAILURE

    def pod_sets_on_unhealthy_nodes(self, workload: Workload) -> frozenset[str]:
        return frozenset([self._unhealthy] if self._unhealthy else ())


def spec(*checks: AdmissionCheckStrategyRule) -> ClusterQueue:
    return cpu_queue("q", 4)._replace(admission_checks=checks)


def assigner(workload: Workload, topology: Topology, queue: ClusterQueue | None = None) -> FlavorAssigner:
    snapshot = Snapshot([queue or spec()], tas_snapshot=topology)
    return FlavorAssigner(snapshot, workload, snapshot.cluster_queues["q"], no_candidates_oracle)


def workload_with(topology: TopologyRequest | None = EXPLICIT, pods: int = 1) -> Workload:
    return Workload("ns", "w", (PodSet("main", pods, requests={"cpu": 1}, topology=topology),))


def assignment_of(
    mode: FlavorAssignmentMode = FIT, pods: int = 1, flavors: Mapping[str, str] | None = None
) -> Assignment:
    chosen = {resource: FlavorAssignment(name, mode) for resource, name in (flavors or {"cpu": "b"}).items()}
    considered = tuple(ConsideredFlavor(name, FIT) for name in "abc")
    return Assignment((PodSetAssignment("main", pods, {}, chosen, considered_flavors=considered),), {})


PROVISIONING = AdmissionCheckStrategyRule("p", controller_name=PROVISIONING_REQUEST_CONTROLLER)


@pytest.mark.parametrize(
    ("check", "pending", "admitted"),
    [
        (PROVISIONING, True, False),
        (PROVISIONING._replace(on_flavors=frozenset("b")), True, False),
        (PROVISIONING._replace(on_flavors=frozenset("a")), False, False),
        (PROVISIONING._replace(controller_name=""), False, False),
        (PROVISIONING._replace(controller_name="a"), False, False),
        (PROVISIONING._replace(controller_name="z"), False, False),
        (PROVISIONING._replace(controller_name="".join(PROVISIONING_REQUEST_CONTROLLER)), True, False),
        (PROVISIONING._replace(controller_name="".join([*MULTIKUEUE_CONTROLLER])), True, True),
    ],
)
def test_a_request_waits_for_nodes_or_for_another_cluster(
    check: AdmissionCheckStrategyRule, *, pending: bool, admitted: bool
) -> None:
    """Nodes are provisioned only for workloads without quota, and only for certain flavors."""
    new, running = pending_workload("new", 1), running_workload("old", "q", FlavorResource("b", "cpu"), 1)
    assert is_topology_request_delayed(spec(check), "b", new) == pending
    assert is_topology_request_delayed(spec(check), "b", running) == admitted
    assert is_topology_request_delayed(spec(PROVISIONING._replace(controller_name="a"), check), "b", new) == pending


@pytest.mark.parametrize(
    ("delayed", "placed", "unhealthy", "expected"),
    [
        ("Pending", False, "", True),
        ("Pending", True, "", False),
        ("Ready", False, "", False),
        ("", False, "", False),
        ("", True, "main", True),
    ],
)
def test_a_workload_is_a_head_again_for_its_placement(
    delayed: str, unhealthy: str, *, placed: bool, expected: bool
) -> None:
    """It is not a head again without quota or after its eviction."""
    running = running_workload("w", "q", FlavorResource("b", "cpu"), 1)
    assert running.admission is not None
    pods = running.admission.pod_sets[0]._replace(
        delayed_topology_request=delayed, topology_assignment=PLACEMENT if placed else None
    )
    workload = replace(running, admission=running.admission._replace(pod_sets=(pods,)))
    topology = Topology(unhealthy=unhealthy)
    assert needs_second_pass(workload, topology) == expected
    assert not needs_second_pass(replace(workload, eviction=Eviction("Preempted", 1.0)), topology)
    assert not needs_second_pass(replace(workload, admission=None), topology)


@pytest.mark.parametrize(
    ("mode", "now", "empty", "unhealthy", "result", "reasons"),
    [
        (FIT, True, True, "", FIT, []),
        (FIT, False, True, "", PREEMPT, ["InUse"]),
        (FIT, False, False, "", NO_FIT, ["InUse", "TopologyPlacementFailed"]),
        (FIT, False, True, "main", NO_FIT, ["InUse"]),
        (PREEMPT, True, True, "", PREEMPT, []),
        (PREEMPT, False, False, "", NO_FIT, ["TopologyPlacementFailed"]),
        (NO_FIT, False, False, "", NO_FIT, []),
    ],
)
def test_the_mode_of_an_assignment_without_placement(
    mode: FlavorAssignmentMode,
    unhealthy: str,
    result: FlavorAssignmentMode,
    reasons: list[str],
    *,
    now: bool,
    empty: bool,
) -> None:
    """A preemption helps if an empty cluster has a placement. Only the flavor that failed has the status."""
    topology = Topology(now=now, empty=empty, unhealthy=unhealthy)
    assignment = update_assignment_for_tas(assigner(workload_with(), topology), assignment_of(mode))
    [pod_set] = assignment.pod_sets
    assert assignment.representative_mode == result
    assert pod_set.topology_assignment == (PLACEMENT if result == FIT else None)
    assert [status.reason for status in pod_set.statuses] == reasons
    modes = {
        flavor.flavor: (flavor.mode, [each.reason for each in flavor.statuses]) for flavor in pod_set.considered_flavors
    }
    unchanged: tuple[FlavorAssignmentMode, list[str]] = (FIT, [])
    assert modes == {"a": unchanged, "b": (result, reasons[-1:]) if reasons else unchanged, "c": unchanged}


@pytest.mark.parametrize(
    ("workload", "flavors", "pods", "requested", "error"),
    [
        (workload_with(), {"cpu": "b"}, 1, True, ""),
        (workload_with(), {"cpu": "b"}, 0, False, ""),
        (workload_with(None), {"cpu": "b"}, 1, False, ""),
        (workload_with(), {"cpu": "b", "gpu": "a"}, 1, True, ""),
        (workload_with(), {"cpu": "b", "gpu": "d"}, 1, False, "flavors with different topologies: b, d"),
        (workload_with(), {"cpu": "a"}, 1, False, "no flavor with a topology"),
    ],
)
@pytest.mark.parametrize("checks", [(), (PROVISIONING,)])
def test_the_pods_that_are_placed_now(
    workload: Workload,
    flavors: dict[str, str],
    pods: int,
    error: str,
    checks: tuple[AdmissionCheckStrategyRule, ...],
    *,
    requested: bool,
) -> None:
    """Pods with a request and one flavor with a topology are placed now; with a check that provisions nodes, later."""
    wanted = assigner(workload, Topology("bd"), spec(*checks))
    assignment = update_assignment_for_tas(wanted, assignment_of(pods=pods, flavors=flavors))
    [pod_set] = assignment.pod_sets
    delayed = requested and bool(checks)
    assert {name: [each.pods for each in requests] for name, requests in assignment.placement_requests.items()} == (
        {"b": [pods]} if requested and not delayed else {}
    )
    assert (pod_set.delayed_topology_request, pod_set.error) == ("Pending" if delayed else "", error)
    assert (pod_set.topology_assignment == PLACEMENT) == (requested and not delayed)


@pytest.mark.parametrize(("unhealthy", "moves"), [("", False), ("other", False), ("main", True)])
def test_a_placement_is_kept_unless_its_node_is_unhealthy(unhealthy: str, *, moves: bool) -> None:
    assignment = assignment_of()
    placed = replace(assignment.pod_sets[0], topology_assignment=replace_domain("old"))
    topology = Topology(unhealthy=unhealthy)
    result = update_assignment_for_tas(assigner(workload_with(), topology), replace(assignment, pod_sets=(placed,)))
    assert result.pod_sets[0].topology_assignment == (PLACEMENT if moves else replace_domain("old"))


def replace_domain(host: str) -> TopologyAssignment:
    return TopologyAssignment(("host",), (TopologyDomainAssignment((host,), 1),))


def test_pods_without_a_request_are_placed_if_all_flavors_have_topologies() -> None:
    group = resource_group(*(FlavorQuotas(name, (("cpu", ResourceQuota(4)),)) for name in ("a", "b")))
    queue = spec()._replace(resource_groups=(group,))
    for names, placed in (("ab", True), ("b", False)):
        wanted = assigner(workload_with(None), Topology(names), queue)
        [pod_set] = update_assignment_for_tas(wanted, assignment_of()).pod_sets
        assert (pod_set.topology_assignment is not None) == placed


def pod_sets_of(names: str, requested: str) -> tuple[Workload, Assignment]:
    """Return a workload with pod sets, all with quota; those with the letters of `requested` request a placement."""
    specs = tuple(
        PodSet(f"pods-{name}", requests={"cpu": 1}, topology=EXPLICIT if name in requested else None) for name in names
    )
    flavors = {"cpu": FlavorAssignment("b", FIT)}
    return Workload("ns", "w", specs), Assignment(
        tuple(PodSetAssignment(spec.name, 1, {}, flavors) for spec in specs), {}
    )


class FullHost(Topology):
    """A topology with no placement now for the pod set "pods-m", whose name is a different string object."""

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        return {} if empty else FAILURE._replace(pod_set="".join(["pods", "-m"]))


@pytest.mark.parametrize("requested", ["m", "am", "mz", "amz"])
@pytest.mark.parametrize("names", ["amz", "zma"])
def test_all_placed_pod_sets_wait_for_the_one_without_a_placement(names: str, requested: str) -> None:
    """They are placed together; pod sets without a request fit. Only the pod set that failed has the reason."""
    workload, assignment = pod_sets_of(names, requested)
    result = update_assignment_for_tas(assigner(workload, FullHost()), assignment)
    modes = {pod_set.name: pod_set.representative_mode for pod_set in result.pod_sets}
    assert modes == {f"pods-{name}": PREEMPT if name in requested else FIT for name in names}
    assert {pod_set.name for pod_set in result.pod_sets if pod_set.statuses} == {"pods-m"}
