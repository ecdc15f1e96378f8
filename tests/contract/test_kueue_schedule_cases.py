"""The recorded cycles of Kueue's scheduler: who is admitted with which flavors, who gives way, who waits and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.kueue_cases import cases_of, cluster_queue, cohort, flat, flavor, local_queue, part, table, usage, workload
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig, QuotaSettings
from zonewise_scheduler.quota.cycle.scheduling_cycle import quota_resources_to_reserve, run_cycle
from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorAssignment, PodSetAssignment
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads
from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry, push_penalty
from zonewise_scheduler.quota.queue.usage_ledger import calculate_usage as used_lately

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
"""Of the upstream tests."""

HALVED = AdmissionFairSharingConfig(usage_half_life_time=10.0, usage_sampling_interval=1.0)
"""The upstream tests' admissionFairSharing."""


class World:
    """The queues of a case with their workloads; cycle() runs one with one head per queue."""

    def __init__(self, case: Json, workloads: list[Json]) -> None:
        given, shared = case["input"], table("schedule")["fixtures"].get(case["test"], {})
        queues: list[Json] = [*shared.get("clusterQueues", [])]
        queues += given.get("additionalClusterQueues") or given.get("cqs") or []
        flavors = map(flavor, shared["resourceFlavors"])
        gates = part(given, "featureGates")
        self.locals: dict[str, LocalQueue] = {
            one.key: one
            for one in map(local_queue, [*shared.get("queues", []), *(given.get("additionalLocalQueues") or [])])
        }
        found = [workload(one) for one in workloads]
        if not (gates.get("MultiKueueOrchestratedPreemption") or gates.get("ConcurrentAdmission")):
            found = [replace(one, preemption_gated=False) for one in found]
        specs = [cluster_queue(one) for one in queues]
        self.snapshot = Snapshot(specs, map(cohort, given.get("cohorts") or ()), flavors, found)
        self.settings = QuotaSettings(
            given.get("enableFairSharing", False), partial_admission=gates.get("PartialAdmission", True)
        )
        self.pending = {one.name: PendingWorkloads(one) for one in specs}
        for one in found:
            queue = self.locals.get(f"{one.namespace}/{one.queue_name}")
            if one.admission is None and queue is not None and queue.cluster_queue in self.pending:
                self.pending[queue.cluster_queue].push_or_update(one)
        self.number = 0

    def cycle(self, namespaces: Any = NAMESPACES) -> list[Decision]:
        self.number += 1
        heads = pop_heads(self.pending.values(), self.snapshot, namespaces, self.number)
        decisions = run_cycle(self.snapshot, heads, self.settings, 0.0, self.number)
        for one in decisions:
            if one.status != "admitted":
                self.pending[one.head.cluster_queue].requeue(one)
        return decisions

    def assignments(self) -> dict[str, Any]:
        """What runs, by key: the queue and the pod sets' flavors, usage and number of pods."""
        return {
            key: given_by(one.admission)
            for found in self.snapshot.workloads_by_queue.values()
            for key, one in found.items()
            if one.admission is not None
        }


def given_by(admission: Admission) -> Any:
    return admission.cluster_queue, [(one.name, one.flavors, one.usage, one.pods) for one in admission.pod_sets]


def wanted_assignments(given: Json, workloads: list[Json]) -> dict[str, Any]:
    """Where the usage is "podSet requests x count" it is that."""
    specs = {f"{one['namespace']}/{one['name']}": one for one in workloads}
    found: dict[str, Any] = {}
    for key, one in given.items():
        admitted = workload({**specs[key], "quotaReserved": one}).admission
        assert admitted is not None
        found[key] = given_by(admitted)
    return found


def preempted(workloads: list[Json]) -> set[tuple[str, str]]:
    return {
        (f"{one['namespace']}/{one['name']}", condition["reason"])
        for one in workloads
        for condition in one.get("conditions") or ()
        if condition["type"] == "Preempted"
    }


def reasons(workloads: list[Json]) -> dict[str, str]:
    """Why workloads have no quota, by key."""
    return {
        f"{one['namespace']}/{one['name']}": condition["reason"]
        for one in workloads
        for condition in one.get("conditions") or ()
        if condition["type"] == "QuotaReserved" and condition["status"] == "False"
    }


def keys(given: Json | None) -> dict[str, set[str]]:
    return {name: set(found) for name, found in (given or {}).items()}


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
    world = World(case, given["workloads"])
    decisions = world.cycle()
    assert world.assignments() == wanted_assignments(expected.get("wantAssignments") or {}, given["workloads"])
    waiting = {name: set(one.active) for name, one in world.pending.items() if set(one.active)}
    aside = {name: set(one.inadmissible) for name, one in world.pending.items() if set(one.inadmissible)}
    assert (waiting, aside) == (keys(expected.get("wantLeft")), keys(expected.get("wantInadmissibleLeft")))
    evictions = {(one.workload.key, one.reason) for each in decisions for one in each.preemption_targets}
    assert evictions == preempted(expected["wantWorkloads"])
    assert {one.workload.key: one.reason for one in decisions if one.status != "admitted"} == reasons(
        expected["wantWorkloads"]
    )
    skipped = {
        one.head.cluster_queue
        for one in decisions
        if one.status == "skipped"
        and one.assignment is not None
        and one.assignment.representative_mode == FlavorAssignmentMode.PREEMPT
    }
    counted = part(expected, "wantSkippedPreemptions")
    assert {name for name, count in counted.items() if count} == skipped & set(counted)


# --- several cycles


@cases_of("schedule", "TestLastSchedulingContext")
def test_scan_goes_on_in_the_next_cycle(case: Json) -> None:
    """After the first cycle some workloads are gone, and those set aside wake."""
    given, expected = case["input"], case["expected"]
    world = World(case, given["workloads"])
    first = world.cycle()
    assert {(one.workload.key, one.reason) for each in first for one in each.preemption_targets} == preempted(
        expected["wantWorkloads"]
    )
    for gone in given.get("deleteWorkloads") or ():
        key = f"{gone['namespace']}/{gone['name']}"
        for found in list(world.snapshot.workloads_by_queue.values()):
            if key in found:
                world.snapshot.remove_workload(found[key])
        for queue in world.pending.values():
            queue.queue_inadmissible_workloads()
    world.cycle()
    wanted = wanted_assignments(expected["wantAdmissionsOnSecondSchedule"], given["workloads"])
    assert world.assignments() == wanted


@cases_of("schedule", "TestScheduleForAFS")
def test_cycles_by_usage(case: Json) -> None:
    """As many cycles as workloads; a queue that is deleted has weight 1."""
    given, expected = case["input"], case["expected"]
    world = World(case, given["workloads"])
    world.settings = world.settings._replace(fair_sharing=True)
    used = {
        f"default/{name}": UsageLedgerEntry(
            {one: resource_value(one, amount) / 1000 for one, amount in resources.items()}, 0.0, {}
        )
        for name, resources in given["initialUsage"].items()
    }
    for _ in given["workloads"]:
        for key, found in used.items():
            weight = world.locals[key].fair_weight if key != f"default/{given.get('deleteQueue')}" else 1.0
            world.snapshot.local_queue_usage[key] = used_lately(found, weight, HALVED)
        for one in world.cycle(None):
            if one.status == "admitted":
                key = f"{one.workload.namespace}/{one.workload.queue_name}"
                sums = {
                    name: amount / 1000
                    for total in one.workload.total_requests
                    for name, amount in total.requests.items()
                }
                used[key] = push_penalty(used.get(key, UsageLedgerEntry({}, 0.0, {})), sums, HALVED)
    admitted = {
        f"{one['namespace']}/{one['name']}": one["admission"] for one in expected["wantWorkloads"] if "admission" in one
    }
    assert world.assignments() == wanted_assignments(admitted, given["workloads"])


@cases_of("schedule", "TestResourcesToReserve")
def test_reservation(case: Json) -> None:
    """The upstream test's queue: memory without limit and up to 100, GPUs without borrowing and up to 5."""

    def quotas(name: str, resource: str, nominal: str, borrowing: str | None = None) -> Json:
        limit = {} if borrowing is None else {"borrowingLimit": borrowing}
        return {"name": name, "resources": [{"name": resource, "nominalQuota": nominal, **limit}]}

    memory = [quotas("on-demand", "memory", "100"), quotas("spot", "memory", "0", "100")]
    gpus = [quotas("model-a", "gpu", "10", "0"), quotas("model-b", "gpu", "10", "5")]
    given = case["input"]
    snapshot = Snapshot([cluster_queue({"name": "cq", "cohort": "eng", "resourceGroups": [memory, gpus]})])
    snapshot.cluster_queues["cq"].add_usage(usage(given["cqUsage"]))
    used, mode = (
        usage(given["assignmentUsage"]),
        {"Fit": FlavorAssignmentMode.FIT, "Preempt": FlavorAssignmentMode.PREEMPT}[given["assignmentMode"]],
    )
    flavors = {key.resource: FlavorAssignment(key.flavor, mode, given.get("borrowing", 0)) for key in used}
    assignment = Assignment((PodSetAssignment("main", 1, {}, flavors),), used)
    assert (
        flat(quota_resources_to_reserve(snapshot.cluster_queues["cq"], assignment)) == case["expected"]["wantReserved"]
    )
