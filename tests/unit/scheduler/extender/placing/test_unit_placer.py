"""Scheduling passes: pods that a filter call rejected are placed as soon as a node admits them, each once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from support.extender_caches import KIND, DirectCluster
from support.ledger_kubelets import GPU, SINGLE, node_kind, pod_shape
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.extender.objects.api_objects import PublishedReport, decode_pod
from zonewise_scheduler.extender.placing.joint_plan import JointPlanner
from zonewise_scheduler.extender.placing.unit_placer import MAX_PLACED
from zonewise_scheduler.extender.tables.diagnosis import NOT_JUDGED
from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget
from zonewise_scheduler.nodes.filters.constraints import Constraints

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.extender.placing.joint_plan import JointPlan, Slot
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod

HALF, MOST, WHOLE = pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((8, 0))


def full_cluster() -> DirectCluster:
    """Return a node whose two zones are held by the running pods p and q."""
    cluster = DirectCluster("n")
    for name in "pq":
        cluster.create(name, WHOLE)
        assert cluster.filter(name).node == "n"
        cluster.bound[name] = "n"
        assert cluster.arrive(name)
    cluster.report("n")
    return cluster


def test_a_pod_is_placed_once_the_report_shows_free_zones() -> None:
    """Before the report there is nothing to place; after it the pod is placed, once."""
    cluster = full_cluster()
    cluster.create("w", WHOLE)
    assert cluster.filter("w").node == ""
    assert cluster.run_pass() == {}
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {"w": "n"}
    assert cluster.run_pass() == {}
    assert cluster.arrive("w")
    assert cluster.run_pass() == {}


def test_only_filtered_pods_are_placed() -> None:
    """A pod that kube-scheduler has not filtered belongs to others."""
    cluster = DirectCluster("n")
    cluster.create("w", WHOLE)
    assert cluster.run_pass() == {}


def test_priority_before_age() -> None:
    """Of three waiting pods for one zone, the one of the highest priority is placed, though it is the youngest."""
    cluster = full_cluster()
    for name, priority in (("old", 0), ("young", 0), ("high", 5)):
        cluster.create(name, WHOLE, priority=priority)
        cluster.filter(name)
        cluster.clock.advance(1)
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {"high": "n"}
    cluster.end("q")
    cluster.report("n")
    assert cluster.run_pass() == {"old": "n"}


TWO_ZONES = SINGLE._replace(topology="restricted")


def shared_gpus(count: int) -> PodShape:
    """Return a Burstable pod with GPUs, and with CPUs that are not its own."""
    return PodShape((Container("c0", "app", 2000, (), ((GPU, count),)),), "Burstable")


def memory_alone(gib: int) -> PodShape:
    """Return a Guaranteed pod with memory of its own."""
    return PodShape((Container("c0", "app", 2000, (("memory", gib << 30),)),), "Guaranteed")


@pytest.mark.parametrize(
    ("kind", "high", "low"),
    [
        (node_kind(TWO_ZONES), pod_shape((16, 0)), WHOLE),
        (node_kind(TWO_ZONES, gpus=4), shared_gpus(8), shared_gpus(4)),
        (node_kind(TWO_ZONES, gpus=4), shared_gpus(8), shared_gpus(1)),
        (node_kind(TWO_ZONES._replace(cpu="none"), gib=8), memory_alone(16), memory_alone(8)),
    ],
    ids=["CPUs", "GPUs", "one of the GPUs", "memory"],
)
def test_priority_of_a_pod_that_takes_several_zones(kind: NodeKind, high: PodShape, low: PodShape) -> None:
    """A pod that needs both zones of the node comes before pods of lower priority that need one."""
    cluster = DirectCluster("n", kind=kind)
    cluster.create("high", high, priority=100)
    cluster.create("low", low)
    for name in ("high", "low"):
        cluster.specs[name] = cluster.specs[name]._replace(unschedulable=True)
        cluster.observe(name)
    cluster.create("first", low)
    cluster.filter("first")
    cluster.delete("first")
    cluster.report("n")
    assert cluster.run_pass() == {"high": "n"}


def test_a_node_that_the_filters_reject() -> None:
    """A pod is placed only where kube-scheduler's filters pass: here, a node by name."""
    cluster = full_cluster()
    cluster.create("w", HALF, constraints=Constraints(node_name="other"))
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {}


def test_requests_of_the_whole_node() -> None:
    """The sum of requests counts too, pods on their way included (NodeResourcesFit)."""
    cluster = DirectCluster("n", allocatable=Resource(10_000, 0, 110, 0))
    for name in "ab":
        cluster.create(name, WHOLE)
    assert cluster.filter("a", "n").node == "n"
    result = cluster.filter("b", "n")
    assert result.failed_nodes == {"n": "node(s) where assumed pods leave too little"}
    assert cluster.run_pass() == {}
    cluster.delete("a")
    assert cluster.run_pass() == {"b": "n"}


def test_a_pod_that_is_filtered_while_it_is_bound_stays() -> None:
    """kube-scheduler gets the node to which the pod is being bound, whatever it would score."""
    cluster = full_cluster()
    cluster.create("w", HALF)
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    [placement] = cluster.cache.place_waiting().placements
    assert cluster.filter("w").node == "n"
    assert cluster.filter("w", "other").failed_nodes == {"other": "the pod is being bound to n"}
    cluster.finish(placement)
    assert cluster.filter("w").node == "n"
    cluster.observe("w")
    assert cluster.run_pass() == {}


def test_a_failed_binding() -> None:
    """A pod that cannot be bound is forgotten and left to kube-scheduler, until that filters it again."""
    cluster = full_cluster()
    cluster.create("w", WHOLE)
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    [placement] = cluster.cache.place_waiting().placements
    cluster.cache.end_binding(placement, "failed")
    assert cluster.run_pass() == {}
    assert [pod.name for pod in cluster.cache.pods_to_requeue()] == ["w"]
    cluster.create("v", WHOLE)
    assert cluster.filter("v").node == "n", "its zone is free again"


def test_a_pod_that_is_gone() -> None:
    """A placed pod that is deleted meanwhile leaves its zone, whichever is known first: the event or the response."""
    for deleted_first in (True, False):
        cluster = full_cluster()
        for name in "wv":
            cluster.create(name, WHOLE)
            cluster.filter(name)
        cluster.end("p")
        cluster.report("n")
        [placement] = cluster.cache.place_waiting().placements
        if deleted_first:
            cluster.delete("w")
        cluster.cache.end_binding(placement, "bound" if deleted_first else "gone")
        assert cluster.run_pass() == {"v": "n"}


def test_anti_affinity_leaves_a_pod_to_kube_scheduler() -> None:
    """While kube-scheduler is responsible for a pod, it is requeued instead of placed."""
    cluster = full_cluster()
    cluster.create("w", WHOLE, constraints=Constraints(scheduler_only=("volumes",)))
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {}
    assert [pod.name for pod in cluster.cache.pods_to_requeue()] == ["w"]


def test_a_pass_is_bounded() -> None:
    """One pass places a bounded number of pods, the next ones the rest."""
    count = MAX_PLACED + 5
    cluster = DirectCluster(*(f"n{number}" for number in range(count)))
    for number in range(count):
        cluster.create(f"p{number}", WHOLE)
        cluster.filter(f"p{number}", "unknown")
    assert len(cluster.cache.place_waiting().placements) == MAX_PLACED
    assert len(cluster.cache.place_waiting().placements) == 5


def test_an_assumption_that_expires() -> None:
    """A pod that kube-scheduler was to bind, and did not, is placed once its assumption has expired."""
    cluster = DirectCluster("n")
    cluster.create("w", WHOLE)
    assert cluster.filter("w").node == "n"
    assert cluster.run_pass() == {}
    cluster.clock.advance(121)
    cluster.cache.tick()
    assert cluster.run_pass() == {"w": "n"}


def test_nodes_that_are_judged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without time for undecided nodes says so; they are judged before the next requeueing, and the pod fits."""
    restricted = replace(KIND, policies=KIND.policies._replace(topology="restricted"))
    cluster = DirectCluster("n", kind=restricted)
    cluster.create("w", pod_shape((12, 0), (2, 0)))

    def spent(_: float = 0.0) -> JudgingBudget:
        return JudgingBudget(0)

    with monkeypatch.context() as patch:
        patch.setattr("zonewise_scheduler.extender.cache.JudgingBudget", spent)
        assert cluster.filter("w").failed_nodes == {"n": NOT_JUDGED}
        patch.setattr("zonewise_scheduler.extender.placing.unit_placer.JudgingBudget", spent)
        assert cluster.run_pass() == {}
        cluster.cache.changed.clear()
        cluster.cache.pods_to_requeue()
        assert cluster.cache.changed.is_set()
        assert cluster.run_pass() == {"w": "n"}


def test_a_planned_node_that_loses_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass goes on without a node of its plan whose report is removed meanwhile."""
    cluster = DirectCluster("a", "b")
    for number in range(4):
        cluster.create(f"w{number}", WHOLE)
        assert not cluster.filter(f"w{number}", "unknown").node
    use = JointPlanner.use

    def remove_report(planner: JointPlanner, plan: JointPlan, pod: WaitingPod, slot: Slot) -> None:
        [other] = {"a", "b"} - {slot.node}
        cluster.cache.update_report(PublishedReport(cluster.kubelets[other].report(), None), None)
        use(planner, plan, pod, slot)

    monkeypatch.setattr(JointPlanner, "use", remove_report)
    placements = cluster.cache.place_waiting().placements
    assert [placement.pod.name for placement in placements] == ["w0", "w1"]


@pytest.mark.parametrize("cause", ["memory", "anti-affinity"])
def test_a_pod_that_is_too_large_counts_on_its_node(cause: str) -> None:
    """A bound pod of 25 containers is not judged, but what it requests and excludes counts."""
    cluster = DirectCluster("n", allocatable=Resource(64_000, 128 << 30, 110, 0))
    limits = {"cpu": "100m", "memory": "4Gi"}
    excluded = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [excluded]}}
    containers = [{"name": f"c{number}", "resources": {"limits": limits}} for number in range(25)]
    spec = {"nodeName": "n", "containers": containers, "affinity": affinity}
    body = {"metadata": {"uid": "large", "name": "large", "namespace": "lab"}, "spec": spec}
    cluster.cache.update_pod(None, decode_pod(msgspec.Raw(msgspec.json.encode(body))))
    for name in ("p", "q"):
        cluster.create(name, WHOLE)
        assert cluster.filter(name).node
        cluster.bound[name] = "n"
        assert cluster.arrive(name)
    cluster.report("n")
    constraints = Constraints(Resource(8000, 64 << 30 if cause == "memory" else 0, 1, 0))
    labels = (("app", "x"),) if cause == "anti-affinity" else ()
    cluster.create("w", WHOLE, constraints=constraints, labels=labels)
    assert not cluster.filter("w").node
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {}
