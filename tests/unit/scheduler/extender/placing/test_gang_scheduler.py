"""Examples of gangs that the extender schedules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.extender_caches import LARGE_NODE
from support.gang_clusters import GangCluster, group_key
from support.ledger_kubelets import SHARED, pod_shape
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.objects.pod_group import PodGroup
from zonewise_scheduler.extender.placing.gang_scheduler import FILTERED_TIMEOUT
from zonewise_scheduler.extender.state.cluster_state import PREBIND_TIMEOUT
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.node.node_info import NodeInfo

HALF, WHOLE = pod_shape((4, 0)), pod_shape((8, 0))
"""Half and all of a zone's CPUs; a node has two zones."""
GPU = (("example.com/gpu", 1),)
VOLUMES, SPREAD = (Constraints(scheduler_only=(name,)) for name in ("volumes", "topology spread"))


def test_a_gang_starts_as_a_whole() -> None:
    """kube-scheduler binds the pod that it filters, and the pass binds the others; the kubelets admit all of them."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 4)
    assert cluster.filter_and_bind(names[1])
    assert cluster.run_pass().keys() == set(names) - {names[1]}
    assert all(cluster.arrive(name) for name in names)
    assert sorted(cluster.bound.values()) == ["m", "m", "n", "n"]


def test_an_incomplete_gang_waits() -> None:
    cluster = GangCluster("n", "m")
    cluster.create_group("train", 3)
    names = cluster.create_members("train", [WHOLE])
    assert cluster.reason(names[0]) == "waits for 2 more pods of PodGroup lab/train"
    assert cluster.run_pass() == {}
    cluster.create_members("train", [WHOLE, WHOLE], first=1)
    assert cluster.run_pass().keys() == {"train-0", "train-1", "train-2"}


def test_a_gang_that_does_not_fit_holds_nothing() -> None:
    """Two gangs need three of four zones each: one starts as a whole, and the other after the first has ended."""
    cluster = GangCluster("n", "m")
    first = cluster.create_gang("a", [WHOLE] * 3)
    cluster.clock.advance(1)
    second = cluster.create_gang("b", [WHOLE] * 3)
    for name in second + first:  # kube-scheduler filters the younger gang first
        cluster.filter_and_bind(name)
    running = cluster.run_pass() | cluster.bound
    assert running.keys() == set(second)
    assert cluster.reason(first[0]).startswith("PodGroup lab/a does not fit: 1 of 3 pods like a-0 fit at once; ")
    assert cluster.cache.view.counters().assumed == 3
    assert all(cluster.arrive(name) for name in second)
    for name in second:
        cluster.end(name)
    for node in "nm":
        cluster.report(node)
    assert cluster.run_pass().keys() == set(first)
    assert all(cluster.arrive(name) for name in first)


def test_min_resources() -> None:
    """A gang waits until all nodes together have its minResources left, even if its pods would fit."""
    cluster = GangCluster("n", "m", allocatable=Resource(16_000, 1 << 40, 100, 0))
    for name, cpus, gpus in (("a", 32_000, ()), ("b", 17_000, ()), ("c", 0, (("nvidia.com/gpu", 1),))):
        cluster.create_group(name, 2, min_resources=Resource(cpus, 0, 0, 0, gpus))
        cluster.create_members(name, [WHOLE, WHOLE])
    assert cluster.reason("c-0").endswith("all nodes together have less nvidia.com/gpu left than its minResources")
    assert cluster.filter_and_bind("a-0")
    assert cluster.run_pass().keys() == {"a-1"}
    assert cluster.reason("b-0").endswith("all nodes together have less cpu left than its minResources")
    assert cluster.arrive("a-0")
    assert cluster.arrive("a-1")
    for name in ("a-0", "a-1"):
        cluster.end(name)
    for node in "nm":
        cluster.report(node)
    assert cluster.run_pass().keys() == {"b-0", "b-1"}


def test_order_of_gangs() -> None:
    """Gangs are ordered by priority, then by the age of the PodGroup."""
    cluster = GangCluster("n", "m")
    blocker = cluster.create_gang("blocker", [WHOLE] * 4)
    cluster.filter_and_bind(blocker[0])
    cluster.run_pass()
    assert all(cluster.arrive(name) for name in blocker)
    for group, priority in (("old", 0), ("young", 0), ("high", 5)):
        names = cluster.create_gang(group, [WHOLE] * 2, priority=priority)
        cluster.filter(names[0])
        cluster.clock.advance(1)
    for expected in ("high", "old", "young"):
        node = cluster.bound[blocker[0]]
        for name in [name for name in blocker if cluster.bound[name] == node]:
            cluster.end(name)
            blocker.remove(name)
        cluster.report(node)
        assert cluster.run_pass().keys() == {f"{expected}-0", f"{expected}-1"}
        blocker = blocker or [f"{expected}-0", f"{expected}-1"]
        for index in range(2):
            assert cluster.arrive(f"{expected}-{index}")


@pytest.mark.parametrize("created", [1, 3])
def test_an_older_pod_does_not_put_younger_ones_before_a_gang(created: int) -> None:
    """The oldest pod fits on no node. The gang comes before a younger pod, and after an older one."""
    cluster = GangCluster("n")
    for name in "ab":
        cluster.create(name, WHOLE)
        assert cluster.filter_and_bind(name)
        assert cluster.arrive(name)
    constraints = Constraints(Resource(8000, 0, 1, 0), selector=(Requirement("label", "Exists", ()),))
    cluster.create("oldest", WHOLE, constraints=constraints, created=0)
    cluster.create_group("train", 2)
    names = cluster.create_members("train", [WHOLE] * 2)
    cluster.cache.update_pod_group(None, PodGroup(group_key("train"), 2, 2))
    cluster.create("single", WHOLE, created=created)
    for name in ("oldest", "single", names[0]):
        assert not cluster.filter(name).node
    for name in "ab":
        cluster.end(name)
    cluster.report("n")
    assert cluster.run_pass().keys() == ({"single"} if created == 1 else set(names))


def test_filter_places_older_gangs_first() -> None:
    """A call for a younger gang does not take nodes that an older waiting gang needs."""
    cluster = GangCluster("n", "m")
    blocker = cluster.create("blocker", WHOLE)
    cluster.filter_and_bind(blocker.name)
    old = cluster.create_gang("old", [WHOLE] * 4)
    cluster.clock.advance(1)
    young = cluster.create_gang("young", [WHOLE] * 4)
    assert cluster.reason(old[0])
    assert cluster.arrive("blocker")
    cluster.end("blocker")
    cluster.report(cluster.bound["blocker"])
    assert cluster.reason(young[0]).startswith("PodGroup lab/young does not fit")
    assert cluster.run_pass().keys() == set(old)


def test_replacement_of_a_member() -> None:
    """The replacement for a lost member is placed as a single pod, before older pods."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 2)
    cluster.filter_and_bind(names[0])
    cluster.run_pass()
    assert all(cluster.arrive(name) for name in names)
    cluster.create("single", WHOLE, priority=9)
    cluster.filter("single")
    cluster.create_members("train", [WHOLE], first=2)
    cluster.filter("train-2")
    cluster.end(names[0])
    cluster.report("n")
    assert cluster.run_pass() == {"train-2": "n"}


def test_more_members_than_required() -> None:
    """If not all members fit, the required number starts; the others follow one by one."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 5, min_member=3)
    assert cluster.filter_and_bind(names[0])
    assert len(cluster.run_pass()) == 3
    [rest] = set(names) - cluster.bound.keys()
    assert not cluster.filter(rest).node
    for name in cluster.bound:
        assert cluster.arrive(name)
    cluster.end(names[0])
    cluster.report(cluster.bound[names[0]])
    assert cluster.run_pass().keys() == {rest}


def test_the_filtered_pod_is_left_out() -> None:
    """If the other members suffice, the filtered pod waits like any other pod."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 3, min_member=2)
    assert cluster.filter(names[2]).node == ""
    assert cluster.run_pass().keys() == {names[0], names[1]}


def test_different_shapes_and_unaligned_members() -> None:
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE, SHARED, HALF, HALF, WHOLE])
    assert cluster.filter_and_bind(names[1])
    assert cluster.run_pass().keys() == set(names) - {names[1]}
    assert all(cluster.arrive(name) for name in names)


def test_order_of_arrival() -> None:
    """5, 5, 3 and 3 CPUs fit on one node only in this order of arrival, so the ledger makes the last pod move."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [pod_shape((cpus, 0)) for cpus in (5, 5, 3, 3)])
    assert cluster.filter_and_bind(names[0])
    assert cluster.run_pass().keys() == set(names[1:])
    assert set(cluster.bound.values()) == {"n", "m"}
    assert all(cluster.arrive(name) for name in reversed(names))


def test_order_of_arrival_on_a_single_node() -> None:
    """There is no second node, so the gang waits, and nothing is assumed."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [pod_shape((cpus, 0)) for cpus in (5, 5, 3, 3)])
    assert cluster.reason(names[0]).endswith("node(s) whose kubelet has yet to report the pods that were sent there")
    assert cluster.cache.view.counters().assumed == 0


def test_missing_group() -> None:
    cluster = GangCluster("n")
    cluster.create_members("train", [WHOLE])
    assert cluster.reason("train-0") == "waits for PodGroup lab/train, which does not exist"
    cluster.create_group("train", 1)
    assert cluster.filter("train-0").node == "n"


def test_a_gang_that_is_filtered_before_it_is_observed() -> None:
    """The conditions of its pods show that kube-scheduler has tried them, so passes place the gang."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 2)
    for name in names:
        cluster.delete(name)
    cluster.cache.update_pod_group(cluster.cache.state.gangs.group(group_key("train")), None)
    for name in names:
        assert not cluster.filter(name).node
    cluster.create_group("train", 2)
    for name in names:
        cluster.observe(name)
    assert cluster.run_pass() == {}
    for name in names:
        cluster.specs[name] = cluster.specs[name]._replace(unschedulable=True)
        cluster.observe(name)
    assert cluster.run_pass().keys() == set(names)


def test_a_gang_that_was_tried_before_the_extender_started() -> None:
    """It is placed as soon as kube-scheduler has called the filter for any pod."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 2, unschedulable=True)
    assert cluster.run_pass() == {}
    cluster.create("other", WHOLE)
    cluster.filter("other", "absent")
    assert cluster.run_pass().keys() == set(names)


def test_a_single_pod_is_requeued_beside_gangs() -> None:
    """Without direct binding, no pass binds the pod, whatever scheduler calls the filter for gangs."""
    cluster = GangCluster("n", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 2)
    assert all(cluster.filter_and_bind(name) and cluster.arrive(name) for name in names)
    cluster.report("n")
    cluster.create("single", WHOLE, unschedulable=True)
    assert not cluster.filter("single").node
    cluster.end(names[0])
    cluster.report("n")
    assert "single" in cluster.requeue()


def test_unobserved_member() -> None:
    """kube-scheduler may filter a pod before the extender's watch has delivered it."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 2)
    cluster.delete(names[0])
    assert cluster.reason(names[0]) == "waits until the extender has observed this pod of PodGroup lab/train"
    cluster.observe(names[0])
    assert cluster.run_pass().keys() == set(names)


def test_gated_members_and_other_schedulers_do_not_count() -> None:
    cluster = GangCluster("n", "m")
    cluster.create_group("train", 3)
    cluster.create_members("train", [WHOLE])
    cluster.create_members("train", [WHOLE], first=1, gated=True)
    cluster.create_members("train", [WHOLE], first=2, scheduler="other")
    assert cluster.reason("train-0") == "waits for 2 more pods of PodGroup lab/train"


def test_kube_scheduler_does_not_bind_the_filtered_pod() -> None:
    """After a while the node of the filtered pod is still held, and the pass binds the pod there."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 2)
    assert cluster.filter(names[0]).node == "n"
    assert cluster.run_pass() == {names[1]: "n"}
    cluster.cache.tick()
    assert cluster.run_pass() == {}
    cluster.clock.advance(FILTERED_TIMEOUT)
    cluster.cache.tick()
    assert cluster.run_pass() == {names[0]: "n"}


def test_kube_scheduler_offers_other_nodes() -> None:
    """The extender's filters are exact for this pod, so the pass still binds it, whichever nodes are offered now."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 4)
    assert cluster.filter(names[0], "elsewhere").failed_nodes["elsewhere"].startswith("the pod is being bound to ")
    assert cluster.run_pass().keys() == set(names)


def test_failed_binding() -> None:
    """The node of a member whose binding failed remains held, and kube-scheduler binds the member there."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 2)
    cluster.filter_and_bind(names[0])
    [placement] = cluster.cache.place_waiting()
    cluster.cache.end_binding(placement, "failed")
    cluster.create("single", WHOLE, priority=9)
    cluster.filter_and_bind("single")
    assert cluster.requeue() == [names[1]]
    assert cluster.filter_and_bind(names[1]) == placement.node
    assert all(cluster.arrive(name) for name in (*names, "single"))


def test_held_nodes_are_forgotten_together() -> None:
    """All nodes of a gang are forgotten together, even if the extender would bind a replacement at that very time."""
    cluster = GangCluster("n", "m")
    cluster.create_group("train", 2, schedule_timeout=2 * FILTERED_TIMEOUT)
    first, second = cluster.create_members("train", [WHOLE] * 2, constraints=SPREAD)
    assert cluster.filter(first).node
    cluster.delete(second)
    cluster.clock.advance(FILTERED_TIMEOUT)
    [replacement] = cluster.create_members("train", [WHOLE], first=2)
    assert cluster.filter(replacement).node
    cluster.clock.advance(FILTERED_TIMEOUT)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0
    assert cluster.run_pass() == {}
    assert sorted(cluster.requeue()) == [first, replacement]


def test_a_member_whose_volumes_are_being_provisioned() -> None:
    """Its node is held until kube-scheduler binds it or gives up. The nodes of members that wait are forgotten."""
    cluster = GangCluster("n")
    cluster.create_group("train", 2, schedule_timeout=20.0)
    first, second = cluster.create_members("train", [WHOLE] * 2, constraints=VOLUMES)
    assert cluster.filter(first).node == "n"
    cluster.clock.advance(PREBIND_TIMEOUT - 1)
    cluster.cache.tick()
    assert [cluster.cache.state.node_of(cluster.pods[name].uid) for name in (first, second)] == ["n", ""]
    cluster.clock.advance(1)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0


def test_deleted_while_bound() -> None:
    """A member deleted during its binding does not stop the others; the gang then waits only for its replacement."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 3)
    cluster.filter_and_bind(names[0])
    first, second = cluster.cache.place_waiting()
    cluster.cache.end_binding(first, "gone")
    cluster.delete(first.pod.name)
    cluster.finish(second)
    assert all(cluster.arrive(name) for name in cluster.bound)
    cluster.create_members("train", [WHOLE], first=3)
    assert cluster.run_pass().keys() == {"train-3"}


@pytest.mark.parametrize("direct", [True, False])
def test_kube_scheduler_binds(*, direct: bool) -> None:
    """Without direct binding, or with a constraint that only kube-scheduler checks, each pod is requeued."""
    cluster = GangCluster("n", "m", direct_binding=direct)
    names = cluster.create_gang("train", [WHOLE] * 4, constraints=VOLUMES if direct else Constraints())
    assert cluster.filter_and_bind(names[0])
    assert cluster.run_pass() == {}
    assert sorted(cluster.requeue()) == names[1:]
    assert cluster.requeue() == []
    cluster.create("single", WHOLE)
    assert not cluster.filter("single").node, "all zones are held"
    for name in names[1:]:
        assert cluster.filter_and_bind(name)
    assert all(cluster.arrive(name) for name in names)


DELEGATED = Constraints(Resource(8_000, 0, 1, 0, GPU))
"""The constraints of a pod with a resource that no node has in its allocatable."""


@pytest.mark.parametrize("direct", [True, False])
def test_a_resource_of_a_device_class(*, direct: bool) -> None:
    """Nodes that kube-scheduler passes provide it, and the other nodes that lack it do not; kube-scheduler binds."""
    cluster = GangCluster("n", "m", "o", direct_binding=direct)
    names = cluster.create_gang("train", [WHOLE] * 3, constraints=DELEGATED)
    assert cluster.filter_and_bind(names[0], "n", "o") in {"n", "o"}
    assert cluster.run_pass() == {}
    assert sorted(cluster.requeue()) == names[1:]
    assert all(cluster.filter_and_bind(name, "n", "o") for name in names[1:])
    assert set(cluster.bound.values()) == {"n", "o"}
    assert all(cluster.arrive(name) for name in names)


def test_a_resource_of_a_device_class_on_too_few_nodes() -> None:
    """The gang waits until kube-scheduler passes enough nodes; minResources do not count the resource."""
    cluster = GangCluster("n", "m")
    cluster.create_group("train", 3, min_resources=Resource(0, 0, 0, 0, (("example.com/gpu", 3),)))
    names = cluster.create_members("train", [WHOLE] * 3, constraints=DELEGATED)
    assert not cluster.filter(names[0], "n").node
    assert not cluster.filter(names[1], "n").node
    assert cluster.filter(names[0]).node


@given(st.lists(st.sets(st.sampled_from("nmo"), min_size=1), min_size=1, max_size=5), st.integers(1, 6))
def test_gangs_get_a_resource_of_a_device_class_only_where_it_is(attempts: list[set[str]], size: int) -> None:
    """All nodes of a gang have been passed by kube-scheduler. It fits if these have zones for all members."""
    cluster = GangCluster("n", "m", "o")
    names = cluster.create_gang("train", [WHOLE] * size, constraints=DELEGATED)

    def assumed() -> set[str]:
        nodes: Any = cluster.cache.view.dump()["nodes"]
        return {node for node in cluster.kubelets if nodes[node]["assumedPods"]}

    passed = set[str]()
    for nodes in attempts:
        passed |= nodes
        cluster.filter(names[0], *nodes)
        assert assumed() <= passed
    cluster.filter(names[0], *passed)
    assert bool(assumed()) == (size <= 2 * len(passed))


def test_a_resource_that_some_nodes_have() -> None:
    """Nodes with a device plugin are filtered by what they have left, the others by what kube-scheduler passes."""
    cluster = GangCluster("n", "m")
    cluster.cache.update_node(None, NodeInfo("n", allocatable=LARGE_NODE._replace(scalar_resources=GPU)))
    names = cluster.create_gang("train", [WHOLE] * 3, constraints=DELEGATED)
    assert all(cluster.filter_and_bind(name) for name in names)
    assert sorted(cluster.bound.values()) == ["m", "m", "n"]


def test_kube_scheduler_excludes_a_node() -> None:
    """If kube-scheduler excludes the node of a member, the gang is placed again, with another node for that member."""
    cluster = GangCluster("n", "m", "o", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 2)
    selected = cluster.filter(names[0]).node
    others = set(cluster.kubelets) - {selected}
    assert cluster.filter(names[0], *others).node in others
    assert cluster.cache.view.counters().assumed == 2


def test_kube_scheduler_excludes_a_node_of_a_gang_that_fills_the_cluster() -> None:
    """The gang is placed again on the nodes that were held for it."""
    cluster = GangCluster("n", "m", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 4)
    selected = cluster.filter(names[0]).node
    [other] = set(cluster.kubelets) - {selected}
    assert cluster.filter(names[0], other).node == other


def test_kube_scheduler_excludes_a_node_while_it_binds_another_member() -> None:
    """The member that it binds keeps its node. Only the rest of the gang is placed again."""
    cluster = GangCluster("n", "m", "o", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 3, constraints=VOLUMES)
    selected = {name: cluster.filter(name).node for name in names[:2]}
    others = set(cluster.kubelets) - {selected[names[1]]}
    assert cluster.filter(names[1], *others).node in others
    for number in range(4):
        cluster.create(f"single-{number}", WHOLE)
        cluster.filter_and_bind(f"single-{number}")
    cluster.bound[names[0]] = selected[names[0]]
    assert all(cluster.arrive(name) for name in reversed(cluster.bound))


def test_held_nodes_are_forgotten() -> None:
    """If kube-scheduler binds nothing for scheduleTimeoutSeconds, the nodes are forgotten, and the pods requeued."""
    cluster = GangCluster("n", direct_binding=False)
    cluster.create_group("train", 2, schedule_timeout=20.0)
    names = cluster.create_members("train", [WHOLE] * 2)
    assert cluster.filter(names[0]).node == "n"
    cluster.clock.advance(20)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0
    assert sorted(cluster.requeue()) == names


def test_held_nodes_outlast_the_assume_timeout() -> None:
    """Held nodes and their reserved requests last for scheduleTimeoutSeconds, although assumed pods expire earlier."""
    timeout = 5 * LedgerTimeouts().assume_timeout
    cluster = GangCluster("n", allocatable=Resource(20_000, 0, 110, 0), direct_binding=False)
    cluster.create_group("train", 2, schedule_timeout=timeout)
    names = cluster.create_members("train", [WHOLE] * 2)
    assert cluster.filter(names[0]).node == "n"
    cluster.clock.advance(timeout - 1)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 2
    unaligned = cluster.create("unaligned", SHARED, constraints=Constraints(Resource(8_000, 0, 1, 0)))
    assert cluster.cache.reserve(unaligned.uid, "n") is not None
    cluster.clock.advance(1)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0
    assert cluster.cache.reserve(unaligned.uid, "n") is None


def test_waiting_gang_without_direct_binding() -> None:
    """The gang is placed as soon as it fits, and its pods are requeued."""
    cluster = GangCluster("n", direct_binding=False)
    cluster.create("blocker", WHOLE)
    cluster.filter_and_bind("blocker")
    assert cluster.arrive("blocker")
    names = cluster.create_gang("train", [WHOLE] * 2)
    assert cluster.reason(names[0]).startswith("PodGroup lab/train does not fit")
    cluster.end("blocker")
    cluster.report("n")
    assert sorted(cluster.requeue()) == names
    assert all(cluster.filter_and_bind(name) for name in names)


def test_repeated_rejections_are_cached() -> None:
    """While nothing changes, the reason remains the same, and no node is judged again."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 3)
    reason = cluster.reason(names[0])
    assert cluster.reason(names[0]) == cluster.reason(names[2]) == reason
    cluster.create("other", SHARED)
    assert cluster.reason(names[0]) == reason


def test_group_is_removed_and_created_again() -> None:
    cluster = GangCluster("n")
    group = cluster.create_group("train", 3)
    names = cluster.create_members("train", [WHOLE] * 2)
    assert cluster.reason(names[0]).startswith("waits for 1 more pod")
    cluster.cache.update_pod_group(group, None)
    cluster.cache.tick()
    assert cluster.reason(names[0]) == "waits for PodGroup lab/train, which does not exist"
    cluster.cache.update_pod_group(None, group._replace(min_member=2))
    assert cluster.run_pass().keys() == set(names)
    assert group.key == group_key("train")
