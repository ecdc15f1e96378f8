"""The recorded cases of Kueue's quota tree, shares and preemption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.kueue_cases import cases_of, cluster_queue, cohort, flat_usage, part, usage, workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.hierarchy.drs import DRS
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.candidate_ordering import satisfies_preemption_policy, sort_candidates
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext
from zonewise_scheduler.quota.preemption.preemption_oracle import get_targets
from zonewise_scheduler.quota.preemption.target_cluster_queue import TargetClusterQueueOrdering

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.preemption.preemption_context import Target


def make_snapshot(scenario: Json) -> Snapshot:
    return Snapshot(map(cluster_queue, scenario["clusterQueues"]), map(cohort, scenario.get("cohorts") or ()))


# --- the tree and shares


@cases_of("drs", "TestAvailable")
def test_available(case: Json) -> None:
    given, expected = case["input"], case["expected"]
    snapshot = make_snapshot(given)
    for name, amounts in given["usage"].items():
        snapshot.cluster_queues[name].add_usage(usage(amounts))
    for name, available in expected["wantAvailable"].items():
        queue = snapshot.cluster_queues[name]
        assert flat_usage({key: max(0, queue.available(key)) for key in usage(available)}) == available
        potential = expected["wantPotentiallyAvailable"][name]
        assert flat_usage({key: queue.potential_available(key) for key in usage(potential)}) == potential


@cases_of("drs", "TestDominantResourceShare")
def test_dominant_resource_share(case: Json) -> None:
    given = case["input"]
    snapshot = make_snapshot(given)
    first = snapshot.cluster_queues[given["clusterQueues"][0]["name"]]
    first.add_usage(usage(given["usageOfFirstClusterQueue"]))
    for expected in case["expected"]:
        nodes = snapshot.cluster_queues if expected["kind"] == "ClusterQueue" else snapshot.cohorts
        node = nodes[expected["name"]]
        share = dominant_resource_share(node, usage(given["extraRequest"]) if node is first else None)
        assert (share.rounded_weighted_share, share.dominant_resource, bool(share.borrowed_frs)) == (
            expected["weightedShareRounded"],
            expected["dominantResource"],
            expected["borrowing"],
        )


@cases_of("drs", "TestIsBorrowingOn")
def test_is_borrowing_on(case: Json) -> None:
    given = case["input"]
    snapshot = make_snapshot(given)
    queue = snapshot.cluster_queues[given["clusterQueues"][0]["name"]]
    queue.add_usage(usage(given["usageOfFirstClusterQueue"]))
    share = dominant_resource_share(queue)
    assert bool(share.borrowed_frs) == case["expected"]["borrowing"]
    assert share.is_borrowing_on(usage(given["requestedFlavorResources"])) == case["expected"]["borrowingOnRequested"]


@cases_of("drs", "TestPreciseWeightedShareSerialized")
def test_precise_share(case: Json) -> None:
    """The expected share is a text, in which "+Inf" is infinity."""
    share = DRS(case["input"]["unweightedRatio"], case["input"]["fairWeight"])
    assert share.precise_weighted_share == float(case["expected"])


# --- preemption


@cases_of("drs", "TestMakeClusterQueueOrdering")
def test_order_of_target_queues(case: Json) -> None:
    """A queue loses one candidate each time that the iterator yields it."""
    given = case["input"]
    snapshot = make_snapshot(given)
    admitted = [workload(obj) for obj in given["admitted"]]
    for running in admitted:
        snapshot.add_workload(running)
    candidates = [running for running in admitted if snapshot.cluster_queue_of(running).name in given["candidateCQs"]]
    ordering = TargetClusterQueueOrdering(
        snapshot.cluster_queues[given["preemptorCQ"]], sort_candidates(candidates, given["preemptorCQ"], {})
    )
    names: list[str] = []
    for queue in ordering.target_cluster_queues():
        names.append(queue.name)
        ordering.pop_workload(queue)
    assert names == (case["expected"]["wantOrder"] or [])


@cases_of("drs", "TestFairPreemptions")
def test_fair_preemption(case: Json) -> None:
    """The incoming workload needs preemption for the CPUs of its flavor."""
    given = case["input"]
    snapshot = snapshot_with_admitted(given, uid_is_name=True)
    incoming = workload({**given["incoming"], "uid": given["incoming"]["name"]})
    name = given.get("assignmentFlavor", "default")
    requests = incoming.total_requests[0].requests
    workload_usage = {FlavorResource(name, resource): amount for resource, amount in requests.items()}
    contested = frozenset([FlavorResource(name, "cpu")])
    context = PreemptionContext(
        snapshot,
        incoming,
        snapshot.cluster_queues[given["targetCQ"]],
        workload_usage,
        contested,
        QuotaSettings(fair_sharing=True),
    )
    assert keys_with_reasons(get_targets(context)) == set(case["expected"].get("wantPreempted") or ())


@cases_of("preemption", "TestPreemption")
def test_classical_preemption(case: Json) -> None:
    check_preemption(case)


@cases_of("preemption", "TestHierarchicalPreemptions")
def test_hierarchical_preemption(case: Json) -> None:
    check_preemption(case)


def check_preemption(case: Json) -> None:
    """Check the victims with the reasons of their condition Preempted, except workloads evicted before the case."""
    given, expected = case["input"], case["expected"]
    snapshot = snapshot_with_admitted(given)
    before = {name: dict(node.usage) for name, node in snapshot.cluster_queues.items()}
    incoming = workload(given["incoming"])
    workload_usage: dict[FlavorResource, int] = {}
    contested: set[FlavorResource] = set()
    for total, pods in zip(incoming.total_requests, given["assignment"]["podSets"], strict=True):
        for resource, amount in total.scaled_to(pods["count"]).requests.items():
            if amount:
                key = FlavorResource(pods["flavors"][resource]["name"], resource)
                workload_usage[key] = workload_usage.get(key, 0) + amount
        contested |= {
            FlavorResource(flavor["name"], resource)
            for resource, flavor in pods["flavors"].items()
            if flavor["mode"] == "Preempt"
        }
    settings = QuotaSettings(fair_sharing=given.get("enableFairSharing", False))
    queue = snapshot.cluster_queues[given["targetCQ"]]
    context = PreemptionContext(snapshot, incoming, queue, workload_usage, frozenset(contested), settings)
    targets = get_targets(context)
    assert len(targets) == expected.get("wantPreempted", 0)
    evicted_before = {
        running.key
        for workloads in snapshot.workloads_by_queue.values()
        for running in workloads.values()
        if running.eviction
    }
    preempted = {
        f"{obj.get('namespace', '')}/{obj['name']}:{condition['reason']}"
        for obj in expected["wantWorkloads"]
        for condition in obj.get("conditions") or ()
        if condition["type"] == "Preempted"
    }
    assert {text for text in keys_with_reasons(targets) if text.partition(":")[0] not in evicted_before} == preempted
    assert {name: dict(node.usage) for name, node in snapshot.cluster_queues.items()} == before


@cases_of("preemption", "TestSatisfiesPreemptionPolicy")
def test_preemption_policy(case: Json) -> None:
    given = case["input"]
    priority_boost = bool(part(given, "featureGates").get("PriorityBoost"))
    preemptor, candidate = (workload(given[name], priority_boost=priority_boost) for name in ("preemptor", "candidate"))
    assert satisfies_preemption_policy(given["policy"], preemptor, candidate) == case["expected"]["want"]


@cases_of("preemption", "TestCandidatesOrdering")
def test_order_of_candidates(case: Json) -> None:
    given = case["input"]
    priority_boost = bool(part(given, "featureGates").get("PriorityBoost"))
    candidates = [workload(obj, priority_boost=priority_boost) for obj in given["candidates"]]
    names = [candidate.name for candidate in sort_candidates(candidates, "preemptor", {})]
    assert names == case["expected"]["wantCandidates"]


def snapshot_with_admitted(scenario: Json, *, uid_is_name: bool = False) -> Snapshot:
    """Return the queues with the admitted workloads."""
    snapshot = make_snapshot(scenario)
    for obj in scenario["admitted"]:
        snapshot.add_workload(workload({**obj, "uid": obj["name"]} if uid_is_name else obj))
    return snapshot


def keys_with_reasons(targets: tuple[Target, ...]) -> set[str]:
    return {f"{target.workload.key}:{target.reason}" for target in targets}
