"""The extender's cache: requeueing of unschedulable pods."""

from __future__ import annotations

import pytest

from support.cache_harness import WHOLE, CacheHarness, pod
from support.extender_caches import DirectCluster, candidates, full_cluster
from support.ledger_kubelets import pod_shape
from support.preemption_clusters import SIX, fragmented
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.state.nominations import SETTLE
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, LedgerTimeouts
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.preemption.types import Preemptor


def test_pods_are_requeued_for_free_zones() -> None:
    """An unschedulable pod is requeued once when a report shows free zones, and not again immediately."""
    harness = CacheHarness("a")
    harness.bind(pod("p", WHOLE), "a")
    harness.bind(pod("q", WHOLE), "a")
    harness.report("a")
    assert harness.select(pod("r")).node == ""
    assert harness.cluster.pods_to_requeue() == []
    harness.kubelets["a"].end_pod(pod("p").uid)
    harness.observe(pod("p", WHOLE), "a", phase="Succeeded")
    assert harness.cluster.pods_to_requeue() == [], "the report has it yet"
    harness.report("a")
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["r"]
    assert harness.cluster.pods_to_requeue() == []
    assert harness.select(pod("r")).node == "a"
    harness.clock.advance(100)
    assert harness.cluster.pods_to_requeue() == []


@pytest.mark.parametrize("event", ["bound", "deleted", "forgotten"])
def test_bound_and_deleted_pods_are_not_requeued(event: str) -> None:
    """A pod that was bound elsewhere or deleted is not requeued."""
    harness = CacheHarness("a")
    harness.observe(pod("p", WHOLE), "a")
    harness.observe(pod("q", WHOLE), "a")
    harness.select(pod("r"))
    if event == "bound":
        harness.observe(pod("r"), "elsewhere")
    elif event == "deleted":
        harness.delete(pod("r"))
    else:
        harness.cluster.drop_pod(pod("r").uid)
    harness.delete(pod("p", WHOLE))
    harness.clock.advance(100)
    harness.cluster.tick()
    assert harness.cluster.pods_to_requeue() == []


def blocked_harness() -> CacheHarness:
    """Return a node with three assumed pods that admits a fourth, but not in every order of arrival."""
    harness = CacheHarness("a")
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        assert harness.select(pod(name, pod_shape((cpus, 0)))).node == "a"
    assert harness.select(pod("s", pod_shape((3, 0)))).failed_nodes == {
        "a": diagnosis.LEDGER_REASONS[BLOCKED_BY_ASSUMED]
    }
    return harness


def test_assumed_pods_arrive() -> None:
    """When the pods arrive as predicted, the state does not change, but the fourth pod is requeued and assumed."""
    harness = blocked_harness()
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        assert harness.bind(pod(name, pod_shape((cpus, 0))), "a")
    assert harness.cluster.pods_to_requeue() == []
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "", "nothing was reported yet"
    harness.report("a")
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["s"]
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "a"


def test_assumed_pods_are_deleted() -> None:
    """A pod that assumed pods block is assumed as soon as they are deleted."""
    harness = blocked_harness()
    harness.delete(pod("r"))
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "a"


def test_assumed_pods_count_as_reported_after_the_lag() -> None:
    """After a while, a report without fingerprints counts as covering the pods; then the blocked pod is requeued."""
    harness = CacheHarness("a", timeouts=LedgerTimeouts(report_lag=10))
    harness.kubelets["a"].methods = ()
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        harness.select(pending := pod(name, pod_shape((cpus, 0))))
        harness.bind(pending, "a")
        harness.observe(pending, "a", started=harness.clock())
    harness.select(pod("s", pod_shape((3, 0))))
    harness.clock.advance(1)
    harness.report("a")
    harness.cluster.pods_to_requeue()
    harness.clock.advance(60)
    harness.cluster.tick()
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["s"]
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "a"


def test_a_node_in_backoff_is_tried_again() -> None:
    """A pod whose only node is in backoff is requeued when the backoff ends."""
    harness = CacheHarness("a", timeouts=LedgerTimeouts(initial_backoff=10))
    harness.select(pod("p"), "a")
    harness.observe(pod("p"), "a")
    harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    assert harness.select(pod("q"), "a").node == ""
    requeued: list[int] = []
    for second in range(1, 40):
        harness.clock.advance(1)
        harness.cluster.tick()
        if harness.cluster.pods_to_requeue():
            requeued.append(second)
            if harness.select(pod("q")).node:
                break
    assert len(requeued) < 8
    assert 10 <= requeued[-1] < 30


@pytest.mark.parametrize("event", ["expired", "deleted"])
def test_a_nomination_ends(event: str) -> None:
    """A pod whose only node is held for a nominated pod is requeued when the nomination ends without that pod."""
    cluster = fragmented()
    constraints = Constraints(scheduler_only=("volumes",))
    high = Preemptor(*cluster.create("high", SIX, priority=10, constraints=constraints), 10)
    victims = cluster.planner.plan(high, ["n", "m"]).victims
    assert victims is not None
    with cluster.cache.state.lock:
        uids = [victim.uid for victim in victims.pods]
        cluster.cache.state.nominated.nominations.begin(high, victims.node, uids, cluster.clock())
    for victim in victims.pods:
        cluster.end(victim.name)
    low = cluster.create("low", SIX, priority=0, constraints=constraints)
    assert cluster.filter("low", victims.node).node == ""
    cluster.cache.tick()
    assert low not in cluster.cache.pods_to_requeue(), "the nomination has not ended"
    if event == "deleted":
        cluster.delete("high")
    else:
        cluster.clock.advance(SETTLE)
    cluster.cache.tick()
    assert low in cluster.cache.pods_to_requeue()
    assert cluster.cache.select_and_assume(low, candidates([victims.node])).node == victims.node


@pytest.mark.parametrize("direct_binding", [True, False])
def test_pods_that_were_tried_before_the_start(direct_binding: bool) -> None:
    """One pod of each scheduler is requeued once. If its scheduler filters it, passes place the other ones."""
    cluster = DirectCluster("n", direct_binding=direct_binding)
    for name, scheduler in (("a", "ours"), ("b", "ours"), ("c", "foreign")):
        cluster.create(name, pod_shape((4, 0)), unschedulable=True, scheduler=scheduler)
        cluster.clock.advance(1)
    cluster.cache.resume()
    assert cluster.run_pass() == {}
    requeued = [pending.name for pending in cluster.cache.pods_to_requeue()]
    assert requeued == (["b", "c"] if direct_binding else [])
    assert cluster.cache.pods_to_requeue() == []
    assert cluster.filter("b").node == "n"
    assert cluster.run_pass() == ({"a": "n"} if direct_binding else {})


def test_a_pod_whose_device_comes_from_a_device_class() -> None:
    """kube-scheduler passes nodes that lack the resource. The extender requeues the pod, which no pass can bind."""
    cluster = full_cluster()
    gpu = Constraints(Resource(8_000, 0, 1, 0, (("example.com/gpu", 1),)))
    cluster.create("r", pod_shape((8, 0)), constraints=gpu)
    assert cluster.filter("r").node == ""
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {}
    assert [pending.name for pending in cluster.cache.pods_to_requeue()] == ["r"]
    assert cluster.filter("r").node == "n"
