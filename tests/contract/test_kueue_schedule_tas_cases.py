"""The recorded cycles of Kueue's scheduler over topologies: placements, victims, and the reasons of pending workloads.

Only messages about topologies are compared. Cluster and API server are not part of the tests. A case with an error of
the API server has the same decision, but none of its events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.kueue_cases import cases_of, cluster_queue, flavor, local_queue, part, table, workload
from support.kueue_tas_cases import feature_gates_of, nodes_of, ready_of
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload, run_cycle
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import needs_second_pass
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads
from zonewise_scheduler.tas.flavor_topology import build_flavor_topology
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, Workload
    from zonewise_scheduler.quota.cycle.entry import Decision

TESTS = ("TestScheduleForTAS", "TestScheduleForTASCohorts", "TestScheduleForTASPreemption")


class World:
    """The queues and nodes of a case with their workloads; cycle() runs one cycle, with one head of each queue."""

    def __init__(self, case: Json) -> None:
        given, gates = case["input"], part(case["input"], "featureGates")
        flavors = [flavor(one) for one in given["resourceFlavors"]]
        levels = {one["name"]: one["levels"] for one in given["topologies"]}
        nodes, ready = nodes_of(case), ready_of(case)
        grounds = [
            build_flavor_topology(one, levels[one.topology_name], nodes, ready)
            for one in flavors
            if one.topology_name in levels
        ]
        self.specs = [with_controllers(cluster_queue(one), given) for one in given["clusterQueues"]]
        self.found = {one.key: one for one in (transformed(workload(one), given) for one in given["workloads"])}
        places = TASSnapshot(grounds, feature_gates_of(gates))
        self.snapshot = Snapshot(self.specs, (), flavors, self.found.values(), places)
        self.settings = QuotaSettings(
            recompute_topology_assignment=gates.get("TASRecomputeAssignmentWithinSchedulingCycle", True),
            fail_fast_node_replacement=gates.get("TASFailedNodeReplacementFailFast", True),
        )
        self.pending = {one.name: PendingWorkloads(one) for one in self.specs}
        queues = map(local_queue, table("schedule_tas")["fixtures"][case["test"]]["queues"])
        leads = {one.key: one.cluster_queue for one in queues}
        for one in self.found.values():
            if one.admission is None:
                self.pending[leads[f"{one.namespace}/{one.queue_name}"]].push_or_update(one)

    def cycle(self) -> list[Decision]:
        again = [
            Head(one, one.admission.cluster_queue)
            for one in self.found.values()
            if one.admission is not None and needs_second_pass(one, self.snapshot.tas_snapshot)
        ]
        heads = [*again, *pop_heads(self.pending.values(), self.snapshot)]
        decisions = run_cycle(self.snapshot, heads, self.settings, 0.0)
        for one in decisions:
            if one.status != "admitted" and one.head.workload.admission is None:
                self.pending[one.head.cluster_queue].requeue(one)
        return decisions

    def admissions(self) -> dict[str, Any]:
        return {
            key: as_given(one.admission)
            for running in self.snapshot.workloads_by_queue.values()
            for key, one in running.items()
            if one.admission is not None
        }

    def events(self, one: Decision) -> list[tuple[str, str]]:
        """Return the events that a decision would cause, as pairs of workload and reason."""
        key, again, admission = one.workload.key, one.head.workload.admission is not None, one.workload.admission
        if one.status == "admitted":
            assert admission is not None
            spec = next(spec for spec in self.specs if spec.name == one.head.cluster_queue)
            delayed = any(each.delayed_topology_request == "Ready" for each in admission.pod_sets)
            reserved = [] if again else [(key, "QuotaReserved")]
            starts = delayed if again else not admission_checks_for_workload(spec, admission)
            return [*reserved, *([(key, "Admitted")] if starts else [])]
        if one.status == "evicted":
            return [(key, "EvictedDueToNodeFailures")]
        found = [(key, "SecondPassFailed" if again else one.reason)]
        for target in one.preemption_targets:
            victim = target.workload.key
            found += [(victim, "Preempted"), (victim, "EvictedDueToPreempted"), (key, "PreemptedWorkload")]
        return found


def with_controllers(spec: ClusterQueue, given: Json) -> ClusterQueue:
    controllers = {one["name"]: one["controllerName"] for one in given.get("admissionChecks") or ()}
    return spec._replace(
        admission_checks=tuple(one._replace(controller_name=controllers[one.name]) for one in spec.admission_checks)
    )


def transformed(one: Workload, given: Json) -> Workload:
    """Return a workload whose quota counts other resources than those of its nodes (resources.transformations)."""
    rules: list[Json] = given.get("resourceTransformations") or []
    return replace(one, pod_sets=tuple(transformed_pods(pods, rules) for pods in one.pod_sets)) if rules else one


def transformed_pods(pods: PodSet, rules: list[Json]) -> PodSet:
    counted = dict(pods.requests)
    for rule in rules:
        amount = pods.requests.get(rule["input"], 0)
        if rule["strategy"] == "Replace":
            counted.pop(rule["input"], None)
        for name, each in rule["outputs"].items():
            unit = resource_value(rule["input"], "1")
            counted[name] = counted.get(name, 0) + amount * resource_value(name, each) // unit
    return pods._replace(requests=counted, node_requests=pods.requests)


def as_given(admission: Admission) -> Any:
    return admission.cluster_queue, [
        (one.name, one.flavors, one.usage, one.pods, one.topology_assignment, one.delayed_topology_request)
        for one in admission.pod_sets
    ]


def keys(given: Json | None) -> dict[str, set[str]]:
    return {name: set(found) for name, found in (given or {}).items()}


def conditions(workloads: list[Json], kind: str, status: str) -> set[tuple[str, str]]:
    """Return the reasons of a condition by workload."""
    return {
        (f"{one['namespace']}/{one['name']}", condition["reason"])
        for one in workloads
        for condition in one.get("conditions") or ()
        if (condition["type"], condition["status"]) == (kind, status)
    }


@cases_of("schedule_tas", TESTS[0])
def test_cycle(case: Json) -> None:
    check(case)


@cases_of("schedule_tas", TESTS[1])
def test_cycle_of_a_cohort(case: Json) -> None:
    check(case)


@cases_of("schedule_tas", TESTS[2])
def test_cycle_with_victims(case: Json) -> None:
    check(case)


def test_all_cases_are_covered() -> None:
    """The tests cover every kind of case and omit none."""
    assert {case["test"] for case in table("schedule_tas")["cases"]} <= set(TESTS)


def check(case: Json) -> None:
    given, expected = case["input"], case["expected"]
    specs = {f"{one['namespace']}/{one['name']}": one for one in given["workloads"]}
    world = World(case)
    before = world.admissions()
    decisions = world.cycle()
    new: dict[str, Any] = {}
    for key, one in part(expected, "wantNewAssignments").items():
        admission = workload({**specs[key], "quotaReserved": one}).admission
        assert admission is not None
        new[key] = as_given(admission)
    assert world.admissions() == before | new
    waiting = {name: set(one.active) for name, one in world.pending.items() if one.active}
    aside = {name: set(one.inadmissible) for name, one in world.pending.items() if one.inadmissible}
    assert (waiting, aside) == (keys(expected.get("wantLeft")), keys(expected.get("wantInadmissibleLeft")))
    check_events_and_reasons(world, decisions, expected, silent="patchStatusErr" in given)


def check_events_and_reasons(world: World, decisions: list[Decision], expected: Json, *, silent: bool) -> None:
    wanted: list[Json] = expected.get("wantEvents") or []
    events = [] if silent else sorted(event for one in decisions for event in world.events(one))
    assert events == sorted((f"{one['args'][0]}/{one['args'][1]}", one["args"][2]) for one in wanted)
    said = {one.workload.key: str(one.assignment) for one in decisions}
    for one in wanted:
        message = one.get("message", "")
        if ': topology "' in message:
            text = message.partition(": ")[2].partition(". Pending")[0]
            assert repr(text)[1:-1] in said[f"{one['args'][0]}/{one['args'][1]}"]
    if "wantWorkloads" in expected:
        victims = {(each.workload.key, each.reason) for one in decisions for each in one.preemption_targets}
        assert victims == conditions(expected["wantWorkloads"], "Preempted", "True")
        reasons = {(one.workload.key, one.reason) for one in decisions if one.status != "admitted"}
        assert reasons == conditions(expected["wantWorkloads"], "QuotaReserved", "False")
