"""Scheduling passes: each pod that a filter call rejected is placed once, as soon as a node admits it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from support.extender_caches import KIND, DirectCluster, full_cluster
from support.ledger_kubelets import GPU, SINGLE, node_kind, pod_shape
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.extender.objects.api_objects import PublishedReport, decode_pod
from zonewise_scheduler.extender.placing.joint_plan import MAX_NODES, JointPlanner
from zonewise_scheduler.extender.placing.unit_placer import MAX_PLACED
from zonewise_scheduler.extender.tables.diagnosis import NOT_JUDGED
from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget
from zonewise_scheduler.nodes.filters.constraints import DEFAULT_SCHEDULER, Constraints

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.extender.placing.joint_plan import JointPlan, Slot
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod

HALF, MOST, WHOLE = pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((8, 0))


def create_tried(cluster: DirectCluster, *names: str) -> None:
    """Create pods of a whole zone that their scheduler, which calls the filter, has tried without a filter call."""
    with cluster.cache.state.lock:
        cluster.cache.state.waiting.learn_scheduler(DEFAULT_SCHEDULER)
    for name in names:
        cluster.create(name, WHOLE, unschedulable=True)


def test_a_pod_is_placed_once_the_report_shows_free_zones() -> None:
    """Before the report there is nothing to place; after it, the pod is placed once."""
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


def pool_of(nodes: int) -> DirectCluster:
    """Return nodes of one zone of eight CPUs, each with a running pod that uses the zone."""
    names = [f"n{number}" for number in range(nodes)]
    cluster = DirectCluster(*names, kind=node_kind(SINGLE, zones=1, cpus=8, gpus=0))
    create_tried(cluster, *(f"p{name}" for name in names))
    assert len(cluster.run_pass()) == nodes
    for name in cluster.bound:
        assert cluster.arrive(name)
    for name in names:
        cluster.report(name)
    return cluster


POOL_SIZES = pytest.mark.parametrize("nodes", [1, MAX_NODES + 1], ids=["planned", "by score"])


@POOL_SIZES
def test_a_filter_call_leaves_free_zones_to_preceding_pods(nodes: int) -> None:
    """A call may come after the report and before the pass; an older pod that waits gets the zone nevertheless."""
    cluster = pool_of(nodes)
    for name in ("old", "young"):
        cluster.create(name, WHOLE)
        assert not cluster.filter(name).node
        cluster.clock.advance(1)
    node = cluster.bound["pn0"]
    cluster.end("pn0")
    cluster.report(node)
    assert not cluster.filter("young").node
    assert cluster.run_pass() == {"old": node}


@POOL_SIZES
@pytest.mark.parametrize("first", ["single", "multiple"])
def test_age_counts_whether_or_not_a_plan_determines_the_zone(first: str, nodes: int) -> None:
    """A plan places pods of one container, and scores place those of several: the older pod comes first."""
    shapes = {"single": WHOLE, "multiple": pod_shape((4, 0), (4, 0))}
    cluster = pool_of(nodes)
    for name in (first, *(shapes.keys() - {first})):
        cluster.create(name, shapes[name])
        assert not cluster.filter(name).node
        cluster.clock.advance(1)
    node = cluster.bound["pn0"]
    cluster.end("pn0")
    cluster.report(node)
    assert cluster.run_pass() == {first: node}


def test_only_filtered_pods_are_placed() -> None:
    """A pod that kube-scheduler has not filtered is not placed, because another scheduler may be responsible for it."""
    cluster = DirectCluster("n")
    cluster.create("w", WHOLE)
    assert cluster.run_pass() == {}


def test_priority_before_age() -> None:
    """Of three pods waiting for one zone, the pod of the highest priority is placed, although it is the youngest."""
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
    """Return a Burstable pod with GPUs and without exclusive CPUs."""
    return PodShape((Container("c0", "app", 2000, (), ((GPU, count),)),), "Burstable")


def guaranteed_memory(gib: int) -> PodShape:
    """Return a Guaranteed pod with memory; its node has no exclusive CPUs."""
    return PodShape((Container("c0", "app", 2000, (("memory", gib << 30),)),), "Guaranteed")


@pytest.mark.parametrize(
    ("kind", "high", "low"),
    [
        (node_kind(TWO_ZONES), pod_shape((16, 0)), WHOLE),
        (node_kind(TWO_ZONES, gpus=4), shared_gpus(8), shared_gpus(4)),
        (node_kind(TWO_ZONES, gpus=4), shared_gpus(8), shared_gpus(1)),
        (node_kind(TWO_ZONES._replace(cpu="none"), gib=8), guaranteed_memory(16), guaranteed_memory(8)),
    ],
    ids=["CPUs", "GPUs", "one of the GPUs", "memory"],
)
def test_priority_of_a_pod_that_takes_several_zones(kind: NodeKind, high: PodShape, low: PodShape) -> None:
    """A pod that needs both zones of the node precedes pods of lower priority that need one zone."""
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
    """A pod is placed only on nodes that pass kube-scheduler's filters, here the filter for the node name."""
    cluster = full_cluster()
    cluster.create("w", HALF, constraints=Constraints(node_name="other"))
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {}


def test_requests_of_the_whole_node() -> None:
    """The sum of the node's requests counts too, including those of assumed pods (NodeResourcesFit)."""
    cluster = DirectCluster("n", allocatable=Resource(10_000, 0, 110, 0))
    for name in "ab":
        cluster.create(name, WHOLE)
    assert cluster.filter("a", "n").node == "n"
    result = cluster.filter("b", "n")
    assert result.failed_nodes == {"n": "node(s) where assumed pods leave too little"}
    assert cluster.run_pass() == {}
    cluster.delete("a")
    assert cluster.run_pass() == {"b": "n"}


def test_a_pod_that_is_filtered_during_its_binding_keeps_its_node() -> None:
    """While a pod is being bound, filter calls return its node, regardless of the scores."""
    cluster = full_cluster()
    cluster.create("w", HALF)
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    [placement] = cluster.cache.place_waiting()
    assert cluster.filter("w").node == "n"
    assert cluster.filter("w", "other").failed_nodes == {"other": "the pod is being bound to n"}
    cluster.finish(placement)
    assert cluster.filter("w").node == "n"
    cluster.observe("w")
    assert cluster.run_pass() == {}


def test_a_failed_binding() -> None:
    """A pod whose binding failed is forgotten and left to kube-scheduler until it is filtered again."""
    cluster = full_cluster()
    cluster.create("w", WHOLE)
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    [placement] = cluster.cache.place_waiting()
    cluster.cache.end_binding(placement, "failed")
    assert cluster.run_pass() == {}
    assert [pod.name for pod in cluster.cache.pods_to_requeue()] == ["w"]
    cluster.create("v", WHOLE)
    assert cluster.filter("v").node == "n", "its zone is free again"


def test_a_placed_pod_that_is_deleted() -> None:
    """A placed pod that is deleted frees its zone, whether the event or the response to the binding comes first."""
    for deleted_first in (True, False):
        cluster = full_cluster()
        for name in "wv":
            cluster.create(name, WHOLE)
            cluster.filter(name)
        cluster.end("p")
        cluster.report("n")
        [placement] = cluster.cache.place_waiting()
        if deleted_first:
            cluster.delete("w")
        cluster.cache.end_binding(placement, "bound" if deleted_first else "gone")
        assert cluster.run_pass() == {"v": "n"}


def test_anti_affinity_leaves_a_pod_to_kube_scheduler() -> None:
    """A pod for which kube-scheduler is responsible is requeued instead of placed."""
    cluster = full_cluster()
    cluster.create("w", WHOLE, constraints=Constraints(scheduler_only=("volumes",)))
    cluster.filter("w")
    cluster.end("p")
    cluster.report("n")
    assert cluster.run_pass() == {}
    assert [pod.name for pod in cluster.cache.pods_to_requeue()] == ["w"]


def test_a_pass_is_bounded() -> None:
    """One pass places a limited number of pods; the next pass places the rest."""
    count = MAX_PLACED + 5
    cluster = DirectCluster(*(f"n{number}" for number in range(count)))
    create_tried(cluster, *(f"p{number}" for number in range(count)))
    assert len(cluster.cache.place_waiting()) == MAX_PLACED
    assert len(cluster.cache.place_waiting()) == 5


def test_an_assumption_that_expires() -> None:
    """A pod that kube-scheduler selected a node for, but did not bind, is placed after its assumption has expired."""
    cluster = DirectCluster("n")
    cluster.create("w", WHOLE)
    assert cluster.filter("w").node == "n"
    assert cluster.run_pass() == {}
    cluster.clock.advance(121)
    cluster.cache.tick()
    assert cluster.run_pass() == {"w": "n"}


def test_nodes_that_are_judged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without time to judge a node says so. The node is judged before the next requeueing, and the pod fits."""
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
    """If a report is removed during a pass, the pass continues with the other nodes of its plan."""
    cluster = DirectCluster("a", "b")
    create_tried(cluster, *(f"w{number}" for number in range(4)))
    use = JointPlanner.use

    def remove_report(planner: JointPlanner, plan: JointPlan, pod: WaitingPod, slot: Slot) -> None:
        [other] = {"a", "b"} - {slot.node}
        cluster.cache.update_report(PublishedReport(cluster.kubelets[other].report(), None), None)
        use(planner, plan, pod, slot)

    monkeypatch.setattr(JointPlanner, "use", remove_report)
    placements = cluster.cache.place_waiting()
    assert [placement.pod.name for placement in placements] == ["w0", "w1"]


@pytest.mark.parametrize("cause", ["memory", "anti-affinity"])
def test_a_pod_that_is_too_large_counts_on_its_node(cause: str) -> None:
    """A bound pod of 25 containers is not judged, but its requests and its anti-affinity count."""
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
