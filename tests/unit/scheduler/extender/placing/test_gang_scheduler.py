"""Gangs start as a whole or not at all: which members count, and which gangs wait."""

from __future__ import annotations

from support.gang_clusters import GangCluster, group_key
from support.ledger_kubelets import SHARED, pod_shape
from zonewise_scheduler.admission.node import Resource

HALF, WHOLE = pod_shape((4, 0)), pod_shape((8, 0))
"""Half and all of a zone's CPUs; a node has two zones."""


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
