"""The recorded cases of Kueue's flavor assignment: flavors, modes, the end of the scan, and reasons.

Each test defines the fixtures that its cases lack, such as queues that the upstream test creates for all cases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.kueue_cases import (
    cases_of,
    cluster_queue,
    cohort,
    flat_usage,
    flavor,
    part,
    pod_set,
    table,
    usage,
    workload,
)
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import FlavorFungibility
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.cycle.nomination import search_pod_counts
from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import assign_flavors
from zonewise_scheduler.quota.flavorassigner.granular_mode import (
    FlavorAssignmentMode,
    GranularMode,
    PreemptionMode,
    is_preferred,
)
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment
from zonewise_scheduler.tas.tree.assignment_parameters import has_level

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import TopologyRequest
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyAssignments, TopologyPlacementFailure

MODES = {"NoFit": FlavorAssignmentMode.NO_FIT, "Preempt": FlavorAssignmentMode.PREEMPT, "Fit": FlavorAssignmentMode.FIT}
PREEMPTION_MODES = {
    "noFit": PreemptionMode.NO_FIT,
    "noPreemptionCandidates": PreemptionMode.NO_CANDIDATES,
    "preempt": PreemptionMode.PREEMPT,
    "reclaim": PreemptionMode.RECLAIM,
    "fit": PreemptionMode.FIT,
}


class RecordedOracle:
    """An oracle with the recorded results of the case; without a result, preemption helps."""

    def __init__(self, results: Json | None) -> None:
        self._results = {next(iter(usage({key: 0}))): result for key, result in (results or {}).items()}

    def __call__(self, _queue: object, _workload: Workload, key: FlavorResource, _amount: int) -> tuple[Any, int]:
        result = self._results.get(key)
        return (result["preemptionPossiblity"], result["borrowingAfterSimulation"]) if result else ("Preempt", 0)


class OneNodeTopologies(EmptyTopologySnapshot):
    """Topologies of some flavors, each with one node; if `available`, the only pod of the case fits on the node."""

    def __init__(self, flavors: list[ResourceFlavor], levels: dict[str, list[str]], *, available: bool) -> None:
        self._levels = {
            flavor.name: levels[flavor.topology_name] for flavor in flavors if flavor.topology_name in levels
        }
        self._available = available

    def has_topology(self, flavor: str) -> bool:
        return flavor in self._levels

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return has_level(self._levels[flavor], request.request)

    def find_topology_assignments(
        self, workload: Workload, requests: Any, *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        if not self._available:
            return super().find_topology_assignments(workload, requests, empty=empty)
        on_node = TopologyAssignment(("kubernetes.io/hostname",), (TopologyDomainAssignment(("node",), 1),))
        return {request.pod_set.name: on_node for by_flavor in requests.values() for request in by_flavor}


def make_assigner(
    given: Json, queues: list[Json], pods: list[Json], flavors: Any, cohorts: list[Json] | None = None, **fields: Any
) -> FlavorAssigner:
    """Return the assigner of a new workload with these pods in the first queue; `fields` are those of the workload."""
    resource_flavors = list(map(flavor, flavors))
    levels = {topology["name"]: topology["levels"] for topology in given.get("topologies") or ()}
    topologies = OneNodeTopologies(resource_flavors, levels, available=bool(given.get("available")))
    cluster_queues, cohort_specs = map(cluster_queue, queues), map(cohort, cohorts or ())
    snapshot = Snapshot(cluster_queues, cohort_specs, resource_flavors, tas_snapshot=topologies)
    new = replace(workload({"name": "new", "podSets": pods}), **fields)
    settings = QuotaSettings(fair_sharing=given.get("enableFairSharing", False))
    queue = snapshot.cluster_queues[queues[0]["name"]]
    return FlavorAssigner(snapshot, new, queue, RecordedOracle(given.get("simulationResult")), settings)


def fixture(test: str) -> list[Json]:
    return list(table("flavor")["fixtures"][test]["resourceFlavors"].values())


@cases_of("flavor", "TestAssignFlavors")
def test_flavors(case: Json) -> None:
    given, expected = case["input"], case["expected"]["wantAssignment"]
    queues = [given[name] for name in ("clusterQueue", "secondaryClusterQueue") if name in given]
    assigner = make_assigner(given, queues, given["wlPods"], fixture("TestAssignFlavors"))
    for queue, name in zip(queues, ("clusterQueueUsage", "secondaryClusterQueueUsage"), strict=False):
        assigner.snapshot.cluster_queues[queue["name"]].add_usage(usage(given.get(name)))
    if "preemptWorkloadSlice" in given:
        assigner = replace(assigner, replace_workload_slice=slice_from_requests(given["preemptWorkloadSlice"]))
    assignment = assign_flavors(assigner)
    assert assignment.representative_mode == MODES[case["expected"].get("wantRepMode") or "NoFit"]
    assert assignment.borrows == expected.get("borrowing", 0)
    assert assignment.no_fit_reason == expected.get("noFitReason", "")
    assert flat_usage(assignment.usage) == expected["usage"]["quota"]["assigned"]
    assert len(assignment.pod_sets) == len(expected["podSets"])
    for assigned, recorded in zip(assignment.pod_sets, expected["podSets"], strict=True):
        assert (assigned.name, assigned.pods) == (recorded["name"], recorded["count"])
        requests = {name: resource_value(name, quantity) for name, quantity in recorded["requests"].items()}
        assert assigned.requests == requests
        flavors = {
            resource: (assignment.name, assignment.mode, assignment.tried_flavor_idx)
            for resource, assignment in assigned.flavors.items()
        }
        recorded_flavors = recorded.get("flavors", {})
        assert flavors == {resource: recorded_flavor(flavor) for resource, flavor in recorded_flavors.items()}


def recorded_flavor(flavor: Json) -> tuple[str, FlavorAssignmentMode, int]:
    """Return a recorded flavor; the cases spell the keys in two ways."""
    lower = {key.lower(): value for key, value in flavor.items()}
    return lower["name"], MODES[lower["mode"]], lower["triedflavoridx"]


def slice_from_requests(given: Json) -> Workload:
    """Return a slice of an elastic job, with the recorded requests and flavors."""
    admitted = tuple(
        PodSetAdmission(pods["name"], pods["flavors"], pods["requests"], pods.get("count", 1))
        for pods in given["totalRequests"]
    )
    pod_sets = tuple(PodSet(pods.name, pods.pods) for pods in admitted)
    return Workload("", "old", pod_sets, admission=Admission("", admitted))


RECLAIMING = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}


@cases_of("flavor", "TestReclaimBeforePriorityPreemption")
def test_reclaim_before_preemption(case: Json) -> None:
    """Three flavors have 10 of each resource; the upstream test's second queue has none."""
    given = case["input"]

    def three_flavors(amount: str) -> list[Json]:
        resources = [{"name": name, "nominalQuota": amount} for name in ("compute", "gpu")]
        return [{"name": name, "resources": resources} for name in ("uno", "due", "tre")]

    fungibility = given.get("flavorFungibility", {"whenCanPreempt": "TryNextFlavor"})
    own = {"name": "test-clusterqueue", "cohort": "cohort", "preemption": RECLAIMING, "flavorFungibility": fungibility}
    sibling = {"name": "other-clusterqueue", "cohort": "cohort", "resourceGroups": [three_flavors("0")]}
    check_flavors(case, [{**own, "resourceGroups": [three_flavors("10")]}, sibling], [], ["uno", "due", "tre"])


@cases_of("flavor", "TestHierarchical")
def test_hierarchical_flavors(case: Json) -> None:
    """The upstream test's nested cohorts have 4 CPUs each of a flavor with the cohort's name."""
    names = ["one", "two", "three"]

    def quota(name: str, amount: str) -> Json:
        return {"name": name, "resources": [{"name": "cpu", "nominalQuota": amount}]}

    own = {"name": "test-clusterqueue", "cohort": "one", "preemption": RECLAIMING}
    sibling = {"name": "other-clusterqueue", "cohort": "two", "resourceGroups": [[quota(name, "0") for name in names]]}
    cohorts = [
        {"name": name, "parent": parent, "resourceGroups": [[quota(name, "4")]]}
        for name, parent in (("three", ""), ("two", "three"), ("one", "two"))
    ]
    queue = {**own, "resourceGroups": [case["input"]["testClusterQueueFlavors"]]}
    check_flavors(case, [queue, sibling], cohorts, names)


def check_flavors(case: Json, queues: list[Json], cohorts: list[Json], names: list[str]) -> None:
    given, expected = case["input"], case["expected"]
    assigner = make_assigner(given, queues, [given["workloadRequests"]], [{"name": name} for name in names], cohorts)
    assigner.snapshot.cluster_queues["other-clusterqueue"].add_usage(usage(given.get("otherClusterQueueUsage")))
    assigner.queue.add_usage(usage(given.get("testClusterQueueUsage")))
    assignment = assign_flavors(assigner)
    assert assignment.representative_mode == MODES[expected["wantMode"]]
    flavors = assignment.pod_sets[0].flavors
    assert {resource: flavor.name for resource, flavor in flavors.items()} == expected["wantAssigment"]


@cases_of("flavor", "TestIsPreferred")
def test_is_preferred(case: Json) -> None:
    a, b = (
        GranularMode(PREEMPTION_MODES[mode["preemptionMode"]], mode["borrowingLevel"])
        for mode in map(case["input"].get, "ab")
    )
    preference = part(case["input"], "config").get("preference", "BorrowingOverPreemption")
    assert is_preferred(a, b, FlavorFungibility(preference=preference)) == case["expected"]["wantPreferred"]


@cases_of("flavor", "TestAssignFlavorsWithAllowedFlavors")
def test_allowed_flavors(case: Json) -> None:
    """The upstream test's queue has 10 CPUs of each flavor, but 1 CPU of the occupied flavor."""
    amounts = {"f1": "10", "f2": "10", "occupied": "1"}
    queue = {
        "name": "cq",
        "resourceGroups": [
            [{"name": name, "resources": [{"name": "cpu", "nominalQuota": amount}]} for name, amount in amounts.items()]
        ],
    }
    given, expected = case["input"], case["expected"]
    allowed = None if given.get("allowedFlavors") is None else frozenset(given["allowedFlavors"])
    pods = [{"name": "main", "count": 1, "requests": {"cpu": "2"}}]
    assignment = assign_flavors(make_assigner(given, [queue], pods, fixture(case["test"]), allowed_flavors=allowed))
    assert assignment.representative_mode == MODES[expected["wantRepMode"]]
    names = {flavor.name for flavor in assignment.pod_sets[0].flavors.values()}
    assert names == ({expected["wantFlavor"]} if expected["wantFlavor"] else set())


@cases_of("flavor", "TestIsNoFitDueToCapacityAndLimits")
def test_no_fit_reason(case: Json) -> None:
    """The upstream test's queue has 2 CPUs of two flavors and may borrow 4. Only considered flavors count."""
    given, expected = case["input"], case["expected"]
    resources = [{"name": "cpu", "nominalQuota": "2", "borrowingLimit": "4"}]
    queue = {"name": "cq", "resourceGroups": [[{"name": f"flavor-{name}", "resources": resources} for name in "ab"]]}
    flavors = list(part(given, "resourceFlavors").values()) or fixture(case["test"])
    allowed = frozenset(given["allowedFlavors"]) if given.get("allowedFlavors") else None
    siblings: list[Json] = given.get("siblingCQs") or []
    assigner = make_assigner(
        given, [given.get("cq") or queue, *siblings], [given["podSet"]], flavors, allowed_flavors=allowed
    )
    assigner.queue.add_usage(usage(given.get("cqUsage")))
    for name, amounts in part(given, "siblingCQUsage").items():
        assigner.snapshot.cluster_queues[name].add_usage(usage(amounts))
    if "replaceWl" in given:
        assigner = replace(assigner, replace_workload_slice=admitted_slice(given["replaceWl"]))
    assignment = assign_flavors(assigner)
    assert assignment.no_fit_reason == expected["wantNoFitReason"]
    reasons = {
        considered.flavor: considered.no_fit_reason
        for pod_set in assignment.pod_sets
        for considered in pod_set.considered_flavors
    }
    recorded = part(expected, "wantFlavorAttempts")
    assert {name: reason for name, reason in reasons.items() if name in recorded} == {
        name: reason for name, reason in recorded.items() if name in reasons
    }


def admitted_slice(given: Json) -> Workload:
    """Return the slice with its admission, which has the usage of its requests."""
    slice_ = workload({**given, "quotaReserved": given["admission"]})
    assert slice_.admission is not None
    pod_sets = tuple(
        admitted._replace(usage=total.requests)
        for admitted, total in zip(slice_.admission.pod_sets, slice_.total_requests, strict=True)
    )
    return replace(slice_, admission=slice_.admission._replace(pod_sets=pod_sets))


@cases_of("flavor", "TestFlavorScanRecordsLastTriedFlavorIdx")
def test_end_of_the_scan(case: Json) -> None:
    """Two flavors have a topology of hosts, and a sibling queue lends."""
    given, expected = case["input"], case["expected"]

    def quotas(amount: str) -> list[list[Json]]:
        resources = [{"name": "cpu", "nominalQuota": amount}]
        return [[{"name": f"flavor-{number}", "resources": resources} for number in "12"]]

    own = {"name": "cq", "cohort": "cohort", "flavorFungibility": given["fungibility"]}
    queues = [{**own, "resourceGroups": quotas(given["nominalPerFlavor"])}]
    queues.append({"name": "sibling", "cohort": "cohort", "resourceGroups": quotas(given["cohortSpare"])})
    host = "kubernetes.io/hostname"
    pods = [{"name": "main", "count": 1, "requests": {"cpu": given["request"]}, "topologyRequest": {"required": host}}]
    flavors = [{"name": f"flavor-{number}", "topologyName": f"topology-{number}"} for number in "12"]
    topologies = [{"name": f"topology-{number}", "levels": [host]} for number in "12"]
    scenario: Json = {**given, "topologies": topologies, "available": not given.get("nodeUsage")}
    assigner = make_assigner(scenario, queues, pods, flavors)
    assigner.queue.add_usage(usage(given.get("clusterQueueUsage")))
    assignment = assign_flavors(assigner)
    assert assignment.representative_mode == MODES[expected["wantMode"]]
    assert assignment.last_tried_flavor_idx["main"]["cpu"] == expected["wantTriedFlavorIdx"]
    assert (assignment.pod_sets[0].topology_assignment is not None) == expected["wantPlan"]


@cases_of("flavor", "TestSearch")
def test_search_pod_counts(case: Json) -> None:
    given, expected = case["input"], case["expected"]
    limit = given["countLimit"]
    total = search_pod_counts(
        list(map(pod_set, given["podSets"])),
        lambda counts: sum(counts) if sum(counts) <= limit else None,
    )
    assert (total is not None, total or 0) == (expected["wantFound"], expected["wantCount"])
