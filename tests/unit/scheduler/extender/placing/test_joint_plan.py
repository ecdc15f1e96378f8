"""Joint plans: bursts fill nodes, slots are held until their zone is certain, and no fitting pod is left waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.extender_caches import LARGE_NODE, DirectCluster
from support.ledger_kubelets import SINGLE, node_kind, pod_shape
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.extender.placing.joint_plan import HOLD, MAX_NODES
from zonewise_scheduler.extender.placing.placer import HELD
from zonewise_scheduler.nodes.assumed.types import PendingPod
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.node.node_info import NodeInfo
from zonewise_scheduler.nodes.packing.bin_packing import pack

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from zonewise_scheduler.nodes.packing.bin_packing import PackBin, PackItem

KIND = node_kind(SINGLE, cpus=15, gpus=0)
"""A kind of node with two zones of 15 CPUs each."""


def cluster_with(sizes: Sequence[int], nodes: int = 1, **spec: int) -> DirectCluster:
    """Return a cluster with waiting pods p0, p1, ... of the given numbers of CPUs."""
    cluster = DirectCluster(*(f"n{number}" for number in range(nodes)), kind=KIND)
    for number, size in enumerate(sizes):
        cluster.create(f"p{number}", pod_shape((size, 0)), **spec)
    return cluster


def settle(cluster: DirectCluster, rng: random.Random | None = None) -> None:
    """Place pods, let kubelets decide in any order, and publish reports until nothing changes."""
    for _ in range(100):
        cluster.run_pass()
        arriving = [name for name in cluster.bound if name not in cluster.arrived]
        if not arriving:
            cluster.clock.advance(1)
            cluster.cache.tick()
            if not cluster.run_pass():
                return
            continue
        if rng is not None:
            rng.shuffle(arriving)
        for name in arriving:
            assert cluster.arrive(name), "a kubelet rejected a pod"
        for name in cluster.kubelets:
            cluster.report(name)
        cluster.clock.advance(0.1)
    raise AssertionError("it goes on and on")


def bind_filtered(cluster: DirectCluster, name: str) -> str:
    """Let kube-scheduler filter a pod and bind it if it passes; return its node."""
    node = cluster.filter(name).node
    if node:
        cluster.bound[name] = node
        cluster.observe(name)
    return node


def run(cluster: DirectCluster, name: str) -> None:
    """Let a pod run on n0, and publish the report."""
    assert bind_filtered(cluster, name) == "n0"
    assert cluster.arrive(name)
    cluster.report("n0")


def test_a_burst_fills_a_node() -> None:
    """Pods of 6, 6, 9, 9 CPUs fill two zones of 15, in any order; by score only, 6 and 6 would share one."""
    for sizes in ([6, 6, 9, 9], [9, 6, 9, 6], [6, 9, 6, 9]):
        cluster = cluster_with(sizes)
        for name in list(cluster.pods):
            bind_filtered(cluster, name)
        settle(cluster)
        assert len(cluster.bound) == 4
        assert cluster.kubelets["n0"].state.free_cpus == 0


def test_a_pod_that_a_better_set_displaces() -> None:
    """While pods that together use more CPUs are expected, a pod that fits is rejected, but only for a while."""
    cluster = cluster_with([10, 6, 9, 6, 9])
    result = cluster.filter("p0")
    assert result.node == ""
    assert result.failed_nodes == {"n0": HELD}
    cluster.clock.advance(2)
    cluster.cache.tick()
    assert cluster.run_pass() == {"p0": "n0"}, "kube-scheduler has not filtered the others"


def test_priority_wins_over_packing() -> None:
    """A pod of higher priority is placed, although the others would use more of the zone."""
    cluster = DirectCluster("n0", kind=node_kind(SINGLE, zones=1, cpus=15, gpus=0))
    for name, size, priority in (("six", 6, 0), ("nine", 9, 0), ("ten", 10, 1)):
        cluster.create(name, pod_shape((size, 0)), priority=priority)
    assert [cluster.filter(name).node for name in ("six", "nine", "ten")] == ["", "", "n0"]


def test_one_plan_serves_all_priorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single plan has the slots of lower priorities too, and remains valid while its own slots are used."""
    packed: list[int] = []

    def counted(bins: Sequence[PackBin], items: Sequence[PackItem]) -> list[tuple[int, ...]]:
        packed.append(len(items))
        return pack(bins, items)

    cluster = cluster_with([15, 15])
    for name in ("p0", "p1"):
        assert bind_filtered(cluster, name) == "n0"
        cluster.arrive(name)
    for name, size, priority in (("a", 9, 4), ("b", 9, 3), ("c", 8, 2), ("d", 6, 1)):
        cluster.create(name, pod_shape((size, 0)), priority=priority)
        cluster.filter(name)
    cluster.clock.advance(2)
    cluster.end("p0")
    cluster.report("n0")
    monkeypatch.setattr("zonewise_scheduler.extender.placing.joint_plan.pack", counted)
    assert cluster.run_pass() == {"a": "n0", "d": "n0"}, "the others fit nowhere"
    assert packed == [1, 1], "each priority once, if a pod of it may still fit"


@pytest.mark.parametrize(
    ("older", "younger", "placed"),
    [
        (59.0, 1.0, {"six", "nine"}),
        (61.0, 1.0, {"ten"}),
        (239.0, 61.0, {"six", "nine"}),
        (241.0, 61.0, {"ten"}),
        (3841.0, 3839.0, {"ten"}),
    ],
)
def test_pods_that_have_waited_for_longer_come_first(older: float, younger: float, placed: set[str]) -> None:
    """After a minute, age takes precedence over packing among pods of one priority.

    The same applies each time that a wait has grown fourfold.
    """
    cluster = DirectCluster("n0", kind=node_kind(SINGLE, zones=1, cpus=15, gpus=0))
    cluster.create("blocker", pod_shape((15, 0)))
    assert bind_filtered(cluster, "blocker") == "n0"
    cluster.arrive("blocker")
    cluster.create("ten", pod_shape((10, 0)))
    cluster.filter("ten")
    cluster.clock.advance(older - younger)
    for name, size in (("six", 6), ("nine", 9)):
        cluster.create(name, pod_shape((size, 0)))
        cluster.filter(name)
    cluster.clock.advance(younger)
    cluster.end("blocker")
    cluster.report("n0")
    assert cluster.run_pass() == dict.fromkeys(placed, "n0")


def test_a_held_slot_is_opened_without_a_report() -> None:
    """If no report arrives, the ledger decides on its own after a while, so no slot is held for ever."""
    cluster = cluster_with([6, 9, 7, 7])
    for name in list(cluster.pods):
        bind_filtered(cluster, name)
    cluster.clock.advance(0.5)
    assert cluster.run_pass() == {}
    bound = len(cluster.bound)
    assert 0 < bound < 4
    cluster.clock.advance(HOLD)
    assert cluster.run_pass() != {}


def uneven_cluster() -> DirectCluster:
    """Return a cluster with 15 free CPUs in zone 0 of its node, and 6 in zone 1."""
    cluster = cluster_with([15, 9])
    for name in ("p0", "p1"):
        run(cluster, name)
    cluster.end("p0")
    cluster.report("n0")
    return cluster


def test_a_slot_that_no_wait_makes_certain_is_not_held() -> None:
    """Two pods of 3 CPUs fill zone 1 exactly, but the kubelet takes zone 0 for them, now and later."""
    cluster = uneven_cluster()
    for name in ("a", "b"):
        cluster.create(name, pod_shape((3, 0)))
    assert [bind_filtered(cluster, name) for name in ("a", "b")] == ["n0", "n0"]


def test_a_slot_is_held_for_pods_of_the_plan_that_take_lower_zones() -> None:
    """Once the pod of 13 CPUs is in zone 0, the pods of 3 CPUs go to zone 1. Before, one of them could displace it."""
    cluster = uneven_cluster()
    for name, size in (("a", 3), ("b", 3), ("large", 13)):
        cluster.create(name, pod_shape((size, 0)))
    assert [bind_filtered(cluster, name) for name in ("a", "b", "large")] == ["", "", "n0"]
    settle(cluster)
    assert cluster.bound.keys() == cluster.pods.keys()
    assert cluster.kubelets["n0"].state.free_cpus.bit_count() == 2


def test_a_held_slot_is_not_taken_by_a_younger_pod_without_a_slot() -> None:
    """A younger pod of two containers, which has no slot, does not take a node with a slot that is held."""
    cluster = cluster_with([6, 9, 7, 7])
    for name in list(cluster.pods):
        bind_filtered(cluster, name)
    cluster.clock.advance(1)
    cluster.create("young", pod_shape((1, 0), (1, 0)), unschedulable=True)
    assert cluster.run_pass() == {}
    settle(cluster)
    assert cluster.bound.keys() == cluster.pods.keys() - {"young"}


@pytest.mark.parametrize("change", ["cordon", "stale reports"])
def test_a_node_that_changes_while_its_slots_are_held(change: str) -> None:
    """A pass binds no pod to a node that has been cordoned meanwhile, or whose report has become stale."""
    cluster = cluster_with([6, 9, 7, 7])
    for name in list(cluster.pods):
        bind_filtered(cluster, name)
    cluster.clock.advance(0.5)
    assert cluster.run_pass() == {}
    if change == "cordon":
        cluster.cache.update_node(None, NodeInfo("n0", unschedulable=True, allocatable=LARGE_NODE))
    else:
        cluster.cache.set_view_age(100.0)
    cluster.clock.advance(HOLD)
    assert cluster.run_pass() == {}


def test_the_plan_respects_the_filters() -> None:
    """A pod with a node name is planned only on that node."""
    cluster = cluster_with([9, 9], nodes=2)
    requests = cluster.specs["p0"].constraints.requests
    cluster.create("named", pod_shape((9, 0)), constraints=Constraints(requests, node_name="n1"))
    cluster.clock.advance(1)
    for name in list(cluster.pods):
        bind_filtered(cluster, name)
    settle(cluster)
    assert cluster.bound["named"] == "n1"
    assert len(cluster.bound) == 3


def test_many_nodes_need_no_plan() -> None:
    """With many nodes, the first filter call of a pod does not wait for the rest of its burst."""
    for nodes, waits in ((2, True), (MAX_NODES + 1, False)):
        cluster = cluster_with([6], nodes=nodes)
        assert (cluster.cache.burst_delay(cluster.pods["p0"]) > 0) == waits


@pytest.mark.parametrize(
    ("cpus", "nodes", "waits"), [(6, 2, True), (6, MAX_NODES + 1, False), (200, 2, False)], ids=["few", "many", "none"]
)
def test_a_pod_that_is_not_yet_observed_waits_like_others(cpus: int, nodes: int, waits: bool) -> None:
    """kube-scheduler may know a pod first. Its call waits only if few nodes, but at least one, may admit it."""
    cluster = cluster_with([], nodes=nodes)
    delay = cluster.cache.burst_delay(PendingPod("uid-new", "lab", "new", pod_shape((cpus, 0))))
    assert (delay > 0) == waits


def test_a_burst_is_awaited_for_a_short_time() -> None:
    """A call waits until no pod has arrived for a while, but never longer than a fixed time."""
    cluster = cluster_with([6])
    waited = 0.0
    for number in range(1, 100):
        delay = cluster.cache.burst_delay(cluster.pods["p0"])
        if delay <= 0:
            break
        step = min(delay, 0.03)
        cluster.clock.advance(step)
        waited += step
        cluster.create(f"q{number}", pod_shape((6, 0)))
    assert waited == pytest.approx(0.25)
    assert cluster.cache.burst_delay(cluster.pods["q1"]) <= 0.05 + 1e-9


@settings(max_examples=50)
@given(st.integers(0, 15), st.integers(0, 15), st.integers(1, 7), st.integers(1, 4))
def test_equal_pods_on_a_reported_node_never_wait(low: int, high: int, size: int, count: int) -> None:
    """While only pods of one kind wait, and the report covers all others, a filter call finds the node if it fits.

    `low` and `high` are the CPUs in use of zones 0 and 1.
    """
    cluster = cluster_with([15, *([high] if high else [])])
    for name in list(cluster.pods):
        run(cluster, name)
    cluster.end("p0")
    cluster.report("n0")
    if low:
        cluster.create("low", pod_shape((low, 0)))
        run(cluster, "low")
    shape = pod_shape((size, 0))
    for number in range(count):
        cluster.create(f"equal-{number}", shape)
    assert bool(bind_filtered(cluster, "equal-0")) == admit(cluster.kubelets["n0"].state, shape).admitted


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 15), st.integers(0, 1)), min_size=1, max_size=12),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_work_conservation(pods: list[tuple[int, int]], nodes: int, rng: random.Random) -> None:
    """At rest, no waiting pod fits on any kubelet, no kubelet has rejected a pod, and no pod was bound twice."""
    cluster = DirectCluster(*(f"n{number}" for number in range(nodes)), kind=KIND)
    for number, (size, priority) in enumerate(pods):
        cluster.create(f"p{number}", pod_shape((size, 0)), priority=priority)
        if rng.random() < 0.5:
            bind_filtered(cluster, f"p{number}")
        if rng.random() < 0.3:
            cluster.clock.advance(0.3)
            cluster.run_pass()
    for name in list(cluster.pods):
        if name not in cluster.bound:
            bind_filtered(cluster, name)
    settle(cluster, rng)
    for name in rng.sample(sorted(cluster.bound), len(cluster.bound) // 2):
        cluster.end(name)
    for name in cluster.kubelets:
        cluster.report(name)
    settle(cluster, rng)
    assert cluster.rejected == []
    waiting = [name for name in cluster.pods if name not in cluster.bound]
    for name in waiting:
        for kubelet in cluster.kubelets.values():
            assert not admit(kubelet.state, cluster.pods[name].shape).admitted, f"{name} fits on {kubelet.node}"
