"""The recorded cases of Kueue's flavor assignment: the flavors, their modes, the scan's progress and the reasons.

Fixtures that the recorded cases lack (queues that the upstream test makes for all of them) are told at each test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.kueue_cases import cases_of, cluster_queue, cohort, flat, flavor, part, pod_set, table, usage, workload
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
from zonewise_scheduler.tas.tree.assignment_parameters import has_level

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import TopologyRequest
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyAssignments, TopologyPlacementFailure

MODES = {"NoFit": FlavorAssignmentMode.NO_FIT, "Preempt": FlavorAssignmentMode.PREEMPT, "Fit": FlavorAssignmentMode.FIT}
REACHES = {
    "noFit": PreemptionMode.NO_FIT,
    "noPreemptionCandidates": PreemptionMode.NO_CANDIDATES,
    "preempt": PreemptionMode.PREEMPT,
    "reclaim": PreemptionMode.RECLAIM,
    "fit": PreemptionMode.FIT,
}


class Foretold:
    """An oracle that answers as the case says; of what it does not name, that preemption helps."""

    def __init__(self, given: Json | None) -> None:
        self._answers = {next(iter(usage({key: 0}))): answer for key, answer in (given or {}).items()}

    def __call__(self, _queue: object, _workload: Workload, key: FlavorResource, _amount: int) -> tuple[Any, int]:
        answer = self._answers.get(key)
        return (answer["preemptionPossiblity"], answer["borrowingAfterSimulation"]) if answer else ("Preempt", 0)


class Nodes(EmptyTopologySnapshot):
    """Topologies of some flavors; a pod finds a place in those with `room`, of which the cases have one pod at most."""

    def __init__(self, flavors: list[ResourceFlavor], levels: dict[str, list[str]], *, room: bool) -> None:
        self._levels = {one.name: levels[one.topology_name] for one in flavors if one.topology_name in levels}
        self._room = room

    def has_topology(self, flavor: str) -> bool:
        return flavor in self._levels

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return has_level(self._levels[flavor], request.request)

    def find_topology_assignments(
        self, workload: Workload, requests: Any, *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        if not self._room:
            return super().find_topology_assignments(workload, requests, empty=empty)
        return {one.pod_set.name: "node" for found in requests.values() for one in found}


def flavor_request(
    given: Json, queues: list[Json], pods: list[Json], flavors: Any, cohorts: list[Json] | None = None, **more: Any
) -> FlavorAssigner:
    """What asks for flavors of the first queue."""
    kinds = [flavor(one) for one in flavors]
    levels = {one["name"]: one["levels"] for one in given.get("topologies") or ()}
    places = Nodes(kinds, levels, room=bool(given.get("room")))
    snapshot = Snapshot(map(cluster_queue, queues), map(cohort, cohorts or ()), kinds, tas_snapshot=places)
    asking = replace(workload({"name": "new", "podSets": pods}), **more)
    settings = QuotaSettings(fair_sharing=given.get("enableFairSharing", False))
    queue = snapshot.cluster_queues[queues[0]["name"]]
    return FlavorAssigner(snapshot, asking, queue, Foretold(given.get("simulationResult")), settings)


def fixture(test: str) -> list[Json]:
    return list(table("flavor")["fixtures"][test]["resourceFlavors"].values())


@cases_of("flavor", "TestAssignFlavors")
def test_flavors(case: Json) -> None:
    given, wanted = case["input"], case["expected"]["wantAssignment"]
    queues = [given[name] for name in ("clusterQueue", "secondaryClusterQueue") if name in given]
    request = flavor_request(given, queues, given["wlPods"], fixture("TestAssignFlavors"))
    for one, name in zip(queues, ("clusterQueueUsage", "secondaryClusterQueueUsage"), strict=False):
        request.snapshot.cluster_queues[one["name"]].add_usage(usage(given.get(name)))
    if "preemptWorkloadSlice" in given:
        request = replace(request, replace_workload_slice=slice_of(given["preemptWorkloadSlice"]))
    found = assign_flavors(request)
    assert found.representative_mode == MODES[case["expected"].get("wantRepMode") or "NoFit"]
    assert found.borrows == wanted.get("borrowing", 0)
    assert found.no_fit_reason == wanted.get("noFitReason", "")
    assert flat(found.usage) == wanted["usage"]["quota"]["assigned"]
    assert len(found.pod_sets) == len(wanted["podSets"])
    for mine, theirs in zip(found.pod_sets, wanted["podSets"], strict=True):
        assert (mine.name, mine.pods) == (theirs["name"], theirs["count"])
        assert mine.requests == {name: resource_value(name, one) for name, one in theirs["requests"].items()}
        assert {name: (one.name, one.mode, one.tried_flavor_idx) for name, one in mine.flavors.items()} == {
            name: (one["name"], MODES[one["mode"]], one["triedflavoridx"])
            for name, one in ((name, lowered(one)) for name, one in theirs.get("flavors", {}).items())
        }


def lowered(one: Json) -> Json:
    """The cases write these keys in two ways."""
    return {key.lower(): value for key, value in one.items()}


def slice_of(given: Json) -> Workload:
    """A slice of an elastic job, of which the case tells what it has."""
    sets = [
        PodSetAdmission(one["name"], one["flavors"], one["requests"], one.get("count", 1))
        for one in given["totalRequests"]
    ]
    return Workload("", "old", tuple(PodSet(one.name, one.pods) for one in sets), admission=Admission("", tuple(sets)))


RECLAIMING = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}


@cases_of("flavor", "TestReclaimBeforePriorityPreemption")
def test_reclaim_before_preemption(case: Json) -> None:
    """Three flavors with 10 of each resource; the upstream test's second queue has none."""
    given = case["input"]

    def three(amount: str) -> list[Json]:
        resources = [{"name": name, "nominalQuota": amount} for name in ("compute", "gpu")]
        return [{"name": name, "resources": resources} for name in ("uno", "due", "tre")]

    rules = given.get("flavorFungibility", {"whenCanPreempt": "TryNextFlavor"})
    own = {"name": "test-clusterqueue", "cohort": "cohort", "preemption": RECLAIMING, "flavorFungibility": rules}
    other = {"name": "other-clusterqueue", "cohort": "cohort", "resourceGroups": [three("0")]}
    check_choice(case, [{**own, "resourceGroups": [three("10")]}, other], [], ["uno", "due", "tre"])


@cases_of("flavor", "TestHierarchical")
def test_hierarchical_flavors(case: Json) -> None:
    """The upstream test's cohorts, one in the next, have 4 CPUs each of a flavor of the same name."""
    names = ["one", "two", "three"]

    def quota(name: str, amount: str) -> Json:
        return {"name": name, "resources": [{"name": "cpu", "nominalQuota": amount}]}

    own = {"name": "test-clusterqueue", "cohort": "one", "preemption": RECLAIMING}
    other = {"name": "other-clusterqueue", "cohort": "two", "resourceGroups": [[quota(name, "0") for name in names]]}
    cohorts = [
        {"name": name, "parent": parent, "resourceGroups": [[quota(name, "4")]]}
        for name, parent in (("three", ""), ("two", "three"), ("one", "two"))
    ]
    check_choice(case, [{**own, "resourceGroups": [case["input"]["testClusterQueueFlavors"]]}, other], cohorts, names)


def check_choice(case: Json, queues: list[Json], cohorts: list[Json], names: list[str]) -> None:
    given, expected = case["input"], case["expected"]
    request = flavor_request(given, queues, [given["workloadRequests"]], [{"name": name} for name in names], cohorts)
    request.snapshot.cluster_queues["other-clusterqueue"].add_usage(usage(given.get("otherClusterQueueUsage")))
    request.queue.add_usage(usage(given.get("testClusterQueueUsage")))
    found = assign_flavors(request)
    assert found.representative_mode == MODES[expected["wantMode"]]
    assert {name: one.name for name, one in found.pod_sets[0].flavors.items()} == expected["wantAssigment"]


@cases_of("flavor", "TestIsPreferred")
def test_preferred(case: Json) -> None:
    one, other = (
        GranularMode(REACHES[each["preemptionMode"]], each["borrowingLevel"]) for each in map(case["input"].get, "ab")
    )
    preference = part(case["input"], "config").get("preference", "BorrowingOverPreemption")
    assert is_preferred(one, other, FlavorFungibility(preference=preference)) == case["expected"]["wantPreferred"]


@cases_of("flavor", "TestAssignFlavorsWithAllowedFlavors")
def test_allowed_flavors(case: Json) -> None:
    """The upstream test's queue has 10 CPUs of each flavor, but for the one that is occupied, of which it has 1."""
    amounts = {"f1": "10", "f2": "10", "occupied": "1"}
    queue = {
        "name": "cq",
        "resourceGroups": [
            [{"name": name, "resources": [{"name": "cpu", "nominalQuota": one}]} for name, one in amounts.items()]
        ],
    }
    given, expected = case["input"], case["expected"]
    allowed = None if given.get("allowedFlavors") is None else frozenset(given["allowedFlavors"])
    pods = [{"name": "main", "count": 1, "requests": {"cpu": "2"}}]
    found = assign_flavors(flavor_request(given, [queue], pods, fixture(case["test"]), allowed_flavors=allowed))
    assert found.representative_mode == MODES[expected["wantRepMode"]]
    chosen = {one.name for one in found.pod_sets[0].flavors.values()}
    assert chosen == ({expected["wantFlavor"]} if expected["wantFlavor"] else set())


@cases_of("flavor", "TestIsNoFitDueToCapacityAndLimits")
def test_reason(case: Json) -> None:
    """The upstream test's queue has 2 CPUs of two flavors and may borrow 4; only attempts that were made count."""
    given, expected = case["input"], case["expected"]
    resources = [{"name": "cpu", "nominalQuota": "2", "borrowingLimit": "4"}]
    queue = {"name": "cq", "resourceGroups": [[{"name": f"flavor-{one}", "resources": resources} for one in "ab"]]}
    flavors = list(part(given, "resourceFlavors").values()) or fixture(case["test"])
    allowed = frozenset(given["allowedFlavors"]) if given.get("allowedFlavors") else None
    siblings: list[Json] = given.get("siblingCQs") or []
    request = flavor_request(
        given, [given.get("cq") or queue, *siblings], [given["podSet"]], flavors, allowed_flavors=allowed
    )
    request.queue.add_usage(usage(given.get("cqUsage")))
    for name, used in part(given, "siblingCQUsage").items():
        request.snapshot.cluster_queues[name].add_usage(usage(used))
    if "replaceWl" in given:
        request = replace(request, replace_workload_slice=replaced(given["replaceWl"]))
    found = assign_flavors(request)
    assert found.no_fit_reason == expected["wantNoFitReason"]
    attempts = {one.flavor: one.no_fit_reason for pods in found.pod_sets for one in pods.considered_flavors}
    wanted = part(expected, "wantFlavorAttempts")
    assert {name: why for name, why in attempts.items() if name in wanted} == {
        name: why for name, why in wanted.items() if name in attempts
    }


def replaced(given: Json) -> Workload:
    """The slice as it was admitted."""
    found = workload({**given, "quotaReserved": given["admission"]})
    assert found.admission is not None
    sets = tuple(
        one._replace(usage=spec.requests)
        for one, spec in zip(found.admission.pod_sets, found.total_requests, strict=True)
    )
    return replace(found, admission=found.admission._replace(pod_sets=sets))


@cases_of("flavor", "TestFlavorScanRecordsLastTriedFlavorIdx")
def test_where_the_scan_ended(case: Json) -> None:
    """Two flavors with a topology of hosts, and a sibling that lends."""
    given, expected = case["input"], case["expected"]

    def quotas(amount: str) -> list[list[Json]]:
        resources = [{"name": "cpu", "nominalQuota": amount}]
        return [[{"name": f"flavor-{one}", "resources": resources} for one in "12"]]

    own = {"name": "cq", "cohort": "cohort", "flavorFungibility": given["fungibility"]}
    queues = [{**own, "resourceGroups": quotas(given["nominalPerFlavor"])}]
    queues.append({"name": "sibling", "cohort": "cohort", "resourceGroups": quotas(given["cohortSpare"])})
    host = "kubernetes.io/hostname"
    pods = [{"name": "main", "count": 1, "requests": {"cpu": given["request"]}, "topologyRequest": {"required": host}}]
    flavors = [{"name": f"flavor-{one}", "topologyName": f"topology-{one}"} for one in "12"]
    topologies = [{"name": f"topology-{one}", "levels": [host]} for one in "12"]
    scene: Json = {**given, "topologies": topologies, "room": not given.get("nodeUsage")}
    request = flavor_request(scene, queues, pods, flavors)
    request.queue.add_usage(usage(given.get("clusterQueueUsage")))
    found = assign_flavors(request)
    assert found.representative_mode == MODES[expected["wantMode"]]
    assert found.last_tried_flavor_idx["main"]["cpu"] == expected["wantTriedFlavorIdx"]
    assert (found.pod_sets[0].topology_assignment is not None) == expected["wantPlan"]


@cases_of("flavor", "TestSearch")
def test_fewer_pods(case: Json) -> None:
    given, expected = case["input"], case["expected"]
    limit = given["countLimit"]
    found = search_pod_counts(
        [pod_set(one) for one in given["podSets"]],
        lambda counts: sum(counts) if sum(counts) <= limit else None,
    )
    assert (found is not None, found or 0) == (expected["wantFound"], expected["wantCount"])
