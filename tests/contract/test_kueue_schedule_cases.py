"""The recorded cycles of Kueue's scheduler: admissions with their flavors, victims, pending workloads and reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.kueue_cases import (
    cases_of,
    cluster_queue,
    cohort,
    flat_usage,
    flavor,
    local_queue,
    part,
    table,
    usage,
    workload,
)
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig, QuotaSettings
from zonewise_scheduler.quota.cycle.scheduling_cycle import quota_resources_to_reserve, run_cycle
from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorAssignment, PodSetAssignment
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads
from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry, add_penalty, calculate_usage

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.api.queue_types import LocalQueue
    from zonewise_scheduler.quota.api.workload_types import Admission
    from zonewise_scheduler.quota.cycle.entry import Decision

NAMESPACES: dict[str, dict[str, str]] = {
    "eng-alpha": {"dep": "eng"},
    "eng-beta": {"dep": "eng"},
    "eng-gamma": {"dep": "eng"},
    "sales": {"dep": "sales"},
    "lend": {"dep": "lend"},
}
"""The namespaces of the upstream tests, with their labels."""

AFS_CONFIG = AdmissionFairSharingConfig(usage_half_life_time=10.0, usage_sampling_interval=1.0)
"""The admissionFairSharing configuration of the upstream tests."""


class Scenario:
    """The queues of a case with their workloads; cycle() runs one cycle with one head of each queue."""

    def __init__(self, case: Json, workloads: list[Json]) -> None:
        given, shared = case["input"], table("schedule")["fixtures"].get(case["test"], {})
        queues: list[Json] = [*shared.get("clusterQueues", [])]
        queues += given.get("additionalClusterQueues") or given.get("cqs") or []
        flavors = map(flavor, shared["resourceFlavors"])
        gates = part(given, "featureGates")
        local_queues: list[Json] = [*shared.get("queues", []), *(given.get("additionalLocalQueues") or [])]
        self.local_queues: dict[str, LocalQueue] = {queue.key: queue for queue in map(local_queue, local_queues)}
        all_workloads = list(map(workload, workloads))
        if not (gates.get("MultiKueueOrchestratedPreemption") or gates.get("ConcurrentAdmission")):
            all_workloads = [replace(workload, preemption_gated=False) for workload in all_workloads]
        specs = list(map(cluster_queue, queues))
        self.snapshot = Snapshot(specs, map(cohort, given.get("cohorts") or ()), flavors, all_workloads)
        self.settings = QuotaSettings(
            given.get("enableFairSharing", False), partial_admission=gates.get("PartialAdmission", True)
        )
        self.pending = {spec.name: PendingWorkloads(spec) for spec in specs}
        for new in all_workloads:
            queue = self.local_queues.get(new.local_queue_key)
            if new.admission is None and queue is not None and queue.cluster_queue in self.pending:
                self.pending[queue.cluster_queue].push_or_update(new)
        self.number = 0

    def cycle(self, namespaces: Any = NAMESPACES) -> list[Decision]:
        self.number += 1
        heads = pop_heads(self.pending.values(), self.snapshot, namespaces, self.number)
        decisions = run_cycle(self.snapshot, heads, self.settings, 0.0, self.number)
        for decision in decisions:
            if decision.status != "admitted":
                self.pending[decision.head.cluster_queue].requeue(decision)
        return decisions

    def assignments(self) -> dict[str, Any]:
        """Return the running workloads by key: the queue, and the flavors, usage and number of pods of each pod set."""
        return {
            key: flat_admission(running.admission)
            for workloads in self.snapshot.workloads_by_queue.values()
            for key, running in workloads.items()
            if running.admission is not None
        }


def flat_admission(admission: Admission) -> Any:
    pod_sets = [(pod_set.name, pod_set.flavors, pod_set.usage, pod_set.pods) for pod_set in admission.pod_sets]
    return admission.cluster_queue, pod_sets


def key_of(obj: Json) -> str:
    return f"{obj['namespace']}/{obj['name']}"


def recorded_assignments(admissions: Json, workloads: list[Json]) -> dict[str, Any]:
    """Return the recorded assignments; a usage of "podSet requests x count" stands for that product."""
    specs = {key_of(obj): obj for obj in workloads}
    assignments: dict[str, Any] = {}
    for key, recorded in admissions.items():
        admission = workload({**specs[key], "quotaReserved": recorded}).admission
        assert admission is not None
        assignments[key] = flat_admission(admission)
    return assignments


def recorded_preemptions(workloads: list[Json]) -> set[tuple[str, str]]:
    return {
        (key_of(obj), condition["reason"])
        for obj in workloads
        for condition in obj.get("conditions") or ()
        if condition["type"] == "Preempted"
    }


def recorded_reasons(workloads: list[Json]) -> dict[str, str]:
    """Return the reasons of workloads without quota, by key."""
    return {
        key_of(obj): condition["reason"]
        for obj in workloads
        for condition in obj.get("conditions") or ()
        if condition["type"] == "QuotaReserved" and condition["status"] == "False"
    }


def recorded_keys(keys_by_queue: Json | None) -> dict[str, set[str]]:
    return {name: set(keys) for name, keys in (keys_by_queue or {}).items()}


# --- one cycle


@cases_of("schedule", "TestSchedule")
def test_cycle(case: Json) -> None:
    check_cycle(case)


@cases_of("schedule", "TestScheduleForFairSharing")
def test_fair_cycle(case: Json) -> None:
    check_cycle(case)


@cases_of("schedule", "TestScheduleRecomputePreemptionTargets")
def test_cycle_with_victims_of_two(case: Json) -> None:
    check_cycle(case)


def check_cycle(case: Json) -> None:
    given, expected = case["input"], case["expected"]
    scenario = Scenario(case, given["workloads"])
    decisions = scenario.cycle()
    assert scenario.assignments() == recorded_assignments(expected.get("wantAssignments") or {}, given["workloads"])
    active = {name: set(queue.active) for name, queue in scenario.pending.items() if queue.active}
    inadmissible = {name: set(queue.inadmissible) for name, queue in scenario.pending.items() if queue.inadmissible}
    assert active == recorded_keys(expected.get("wantLeft"))
    assert inadmissible == recorded_keys(expected.get("wantInadmissibleLeft"))
    assert preemptions(decisions) == recorded_preemptions(expected["wantWorkloads"])
    reasons = {decision.workload.key: decision.reason for decision in decisions if decision.status != "admitted"}
    assert reasons == recorded_reasons(expected["wantWorkloads"])
    skipped = {
        decision.head.cluster_queue
        for decision in decisions
        if decision.status == "skipped"
        and decision.assignment is not None
        and decision.assignment.representative_mode == FlavorAssignmentMode.PREEMPT
    }
    counts = part(expected, "wantSkippedPreemptions")
    assert {name for name, count in counts.items() if count} == skipped & set(counts)


def preemptions(decisions: list[Decision]) -> set[tuple[str, str]]:
    return {(target.workload.key, target.reason) for decision in decisions for target in decision.preemption_targets}


# --- several cycles


@cases_of("schedule", "TestLastSchedulingContext")
def test_scan_continues_in_the_next_cycle(case: Json) -> None:
    """After the first cycle, some workloads are deleted, and inadmissible workloads become active."""
    given, expected = case["input"], case["expected"]
    scenario = Scenario(case, given["workloads"])
    first = scenario.cycle()
    assert preemptions(first) == recorded_preemptions(expected["wantWorkloads"])
    for deleted in given.get("deleteWorkloads") or ():
        key = key_of(deleted)
        for workloads in list(scenario.snapshot.workloads_by_queue.values()):
            if key in workloads:
                scenario.snapshot.remove_workload(workloads[key])
        for queue in scenario.pending.values():
            queue.queue_inadmissible_workloads()
    scenario.cycle()
    recorded = recorded_assignments(expected["wantAdmissionsOnSecondSchedule"], given["workloads"])
    assert scenario.assignments() == recorded


@cases_of("schedule", "TestScheduleForAFS")
def test_cycles_with_admission_fair_sharing(case: Json) -> None:
    """The number of cycles is the number of workloads; a deleted LocalQueue has weight 1."""
    given, expected = case["input"], case["expected"]
    scenario = Scenario(case, given["workloads"])
    scenario.settings = scenario.settings._replace(fair_sharing=True)
    ledger = {
        f"default/{name}": UsageLedgerEntry(
            {resource: resource_value(resource, quantity) / 1000 for resource, quantity in quantities.items()}, 0.0
        )
        for name, quantities in given["initialUsage"].items()
    }
    for _ in given["workloads"]:
        for key, entry in ledger.items():
            weight = scenario.local_queues[key].fair_weight if key != f"default/{given.get('deleteQueue')}" else 1.0
            scenario.snapshot.local_queue_usage[key] = calculate_usage(entry, weight, AFS_CONFIG)
        for decision in scenario.cycle(None):
            if decision.status == "admitted":
                key = decision.workload.local_queue_key
                requests = {
                    name: amount / 1000
                    for total in decision.workload.total_requests
                    for name, amount in total.requests.items()
                }
                ledger[key] = add_penalty(ledger.get(key, UsageLedgerEntry({}, 0.0)), requests, AFS_CONFIG)
    admitted = {key_of(obj): obj["admission"] for obj in expected["wantWorkloads"] if "admission" in obj}
    assert scenario.assignments() == recorded_assignments(admitted, given["workloads"])


@cases_of("schedule", "TestResourcesToReserve")
def test_resources_to_reserve(case: Json) -> None:
    """The upstream test's queue has memory without limit and up to 100, and GPUs without borrowing and up to 5."""

    def quotas(name: str, resource: str, nominal: str, borrowing: str | None = None) -> Json:
        limit = {} if borrowing is None else {"borrowingLimit": borrowing}
        return {"name": name, "resources": [{"name": resource, "nominalQuota": nominal, **limit}]}

    memory = [quotas("on-demand", "memory", "100"), quotas("spot", "memory", "0", "100")]
    gpus = [quotas("model-a", "gpu", "10", "0"), quotas("model-b", "gpu", "10", "5")]
    given = case["input"]
    snapshot = Snapshot([cluster_queue({"name": "cq", "cohort": "eng", "resourceGroups": [memory, gpus]})])
    snapshot.cluster_queues["cq"].add_usage(usage(given["cqUsage"]))
    assignment_usage, mode = (
        usage(given["assignmentUsage"]),
        {"Fit": FlavorAssignmentMode.FIT, "Preempt": FlavorAssignmentMode.PREEMPT}[given["assignmentMode"]],
    )
    flavors = {key.resource: FlavorAssignment(key.flavor, mode, given.get("borrowing", 0)) for key in assignment_usage}
    assignment = Assignment((PodSetAssignment("main", 1, {}, flavors),), assignment_usage)
    assert (
        flat_usage(quota_resources_to_reserve(snapshot.cluster_queues["cq"], assignment))
        == case["expected"]["wantReserved"]
    )
