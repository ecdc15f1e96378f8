"""The recorded cases of Kueue's quotas: the tree, shares and preemption come out as they do there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.kueue_cases import cases_of, cluster_queue, cohort, flat, part, usage, workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.hierarchy.fair_sharing import DRS, dominant_resource_share
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.candidate_ordering import satisfies_preemption_policy, sort_candidates
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext
from zonewise_scheduler.quota.preemption.preemption_oracle import get_targets
from zonewise_scheduler.quota.preemption.target_cluster_queue import TargetClusterQueueOrdering

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.preemption.preemption_context import Target


def snapshot_of(given: Json) -> Snapshot:
    return Snapshot(map(cluster_queue, given["clusterQueues"]), map(cohort, given.get("cohorts") or ()))


# --- the tree and shares


@cases_of("drs", "TestAvailable")
def test_available(case: Json) -> None:
    given, expected = case["input"], case["expected"]
    snapshot = snapshot_of(given)
    for name, used in given["usage"].items():
        snapshot.cluster_queues[name].add_usage(usage(used))
    for name, wanted in expected["wantAvailable"].items():
        queue = snapshot.cluster_queues[name]
        assert {key: max(0, queue.available(one)) for key, one in zip(wanted, usage(wanted), strict=True)} == wanted
        wanted = expected["wantPotentiallyAvailable"][name]
        assert flat({one: queue.potential_available(one) for one in usage(wanted)}) == wanted


@cases_of("drs", "TestDominantResourceShare")
def test_dominant_resource_share(case: Json) -> None:
    given = case["input"]
    snapshot = snapshot_of(given)
    first = snapshot.cluster_queues[given["clusterQueues"][0]["name"]]
    first.add_usage(usage(given["usageOfFirstClusterQueue"]))
    for wanted in case["expected"]:
        nodes = snapshot.cluster_queues if wanted["kind"] == "ClusterQueue" else snapshot.cohorts
        node = nodes[wanted["name"]]
        found = dominant_resource_share(node, usage(given["extraRequest"]) if node is first else None)
        assert (found.rounded_weighted_share, found.dominant_resource, bool(found.borrowed_frs)) == (
            wanted["weightedShareRounded"],
            wanted["dominantResource"],
            wanted["borrowing"],
        )


@cases_of("drs", "TestIsBorrowingOn")
def test_is_borrowing_on(case: Json) -> None:
    given = case["input"]
    snapshot = snapshot_of(given)
    queue = snapshot.cluster_queues[given["clusterQueues"][0]["name"]]
    queue.add_usage(usage(given["usageOfFirstClusterQueue"]))
    found = dominant_resource_share(queue)
    assert bool(found.borrowed_frs) == case["expected"]["borrowing"]
    assert found.is_borrowing_on(usage(given["requestedFlavorResources"])) == case["expected"]["borrowingOnRequested"]


@cases_of("drs", "TestPreciseWeightedShareSerialized")
def test_text_of_a_share(case: Json) -> None:
    assert (
        DRS(case["input"]["unweightedRatio"], case["input"]["fairWeight"]).precise_weighted_share_serialized
        == case["expected"]
    )


# --- preemption


@cases_of("drs", "TestMakeClusterQueueOrdering")
def test_order_of_queues(case: Json) -> None:
    """Each queue gives one candidate each time that it is named."""
    given = case["input"]
    snapshot = snapshot_of(given)
    admitted = [workload(one) for one in given["admitted"]]
    for one in admitted:
        snapshot.add_workload(one)
    candidates = [one for one in admitted if snapshot.cluster_queue_of(one).name in given["candidateCQs"]]
    order = TargetClusterQueueOrdering(
        snapshot.cluster_queues[given["preemptorCQ"]], sort_candidates(candidates, given["preemptorCQ"], {})
    )
    found: list[str] = []
    for queue in order.target_cluster_queues():
        found.append(queue.name)
        order.pop_workload(queue)
    assert found == (case["expected"]["wantOrder"] or [])


@cases_of("drs", "TestFairPreemptions")
def test_fair_preemption(case: Json) -> None:
    """The incoming workload needs preemption for the cpu of its flavor."""
    given = case["input"]
    snapshot = running(given, by_name=True)
    incoming = workload({**given["incoming"], "uid": given["incoming"]["name"]})
    name = given.get("assignmentFlavor", "default")
    used = {FlavorResource(name, one): amount for one, amount in incoming.total_requests[0].requests.items()}
    contested = frozenset([FlavorResource(name, "cpu")])
    ask = PreemptionContext(
        snapshot,
        incoming,
        snapshot.cluster_queues[given["targetCQ"]],
        used,
        contested,
        QuotaSettings(fair_sharing=True),
    )
    assert preempted(get_targets(ask)) == set(case["expected"].get("wantPreempted") or ())


@cases_of("preemption", "TestPreemption")
def test_classical_preemption(case: Json) -> None:
    check_preemption(case)


@cases_of("preemption", "TestHierarchicalPreemptions")
def test_hierarchical_preemption(case: Json) -> None:
    check_preemption(case)


def check_preemption(case: Json) -> None:
    """Evicted are those who were, and the targets; the reasons are those of the condition Preempted."""
    given, expected = case["input"], case["expected"]
    snapshot = running(given)
    before = {name: dict(node.usage) for name, node in snapshot.cluster_queues.items()}
    incoming = workload(given["incoming"])
    used: dict[FlavorResource, int] = {}
    contested: set[FlavorResource] = set()
    for total, pods in zip(incoming.total_requests, given["assignment"]["podSets"], strict=True):
        for resource, amount in total.scaled_to(pods["count"]).requests.items():
            if amount:
                key = FlavorResource(pods["flavors"][resource]["name"], resource)
                used[key] = used.get(key, 0) + amount
        modes = pods["flavors"].items()
        contested |= {FlavorResource(one["name"], resource) for resource, one in modes if one["mode"] == "Preempt"}
    settings = QuotaSettings(fair_sharing=given.get("enableFairSharing", False))
    ask = PreemptionContext(
        snapshot, incoming, snapshot.cluster_queues[given["targetCQ"]], used, frozenset(contested), settings
    )
    found = get_targets(ask)
    assert len(found) == expected.get("wantPreempted", 0)
    already = {
        one.key
        for name in snapshot.workloads_by_queue
        for one in snapshot.workloads_by_queue[name].values()
        if one.eviction
    }
    wanted = {
        f"{one.get('namespace', '')}/{one['name']}:{condition['reason']}"
        for one in expected["wantWorkloads"]
        for condition in one.get("conditions") or ()
        if condition["type"] == "Preempted"
    }
    assert {one for one in preempted(found) if one.partition(":")[0] not in already} == wanted
    assert {name: dict(node.usage) for name, node in snapshot.cluster_queues.items()} == before


@cases_of("preemption", "TestSatisfiesPreemptionPolicy")
def test_policy(case: Json) -> None:
    given = case["input"]
    boosts = bool(part(given, "featureGates").get("PriorityBoost"))
    preemptor, candidate = (workload(given[name], boosts=boosts) for name in ("preemptor", "candidate"))
    assert satisfies_preemption_policy(given["policy"], preemptor, candidate) == case["expected"]["want"]


@cases_of("preemption", "TestCandidatesOrdering")
def test_order_of_candidates(case: Json) -> None:
    given = case["input"]
    boosts = bool(part(given, "featureGates").get("PriorityBoost"))
    candidates = [workload(one, boosts=boosts) for one in given["candidates"]]
    assert [one.name for one in sort_candidates(candidates, "preemptor", {})] == case["expected"]["wantCandidates"]


def running(given: Json, *, by_name: bool = False) -> Snapshot:
    """The queues with what is admitted; `by_name`: UIDs are names."""
    snapshot = snapshot_of(given)
    for one in given["admitted"]:
        snapshot.add_workload(workload({**one, "uid": one["name"]} if by_name else one))
    return snapshot


def preempted(targets: tuple[Target, ...]) -> set[str]:
    return {f"{one.workload.key}:{one.reason}" for one in targets}
