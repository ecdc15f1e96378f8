"""Lost nodes that a pod set no longer needs."""

from __future__ import annotations

from dataclasses import replace

from zonewise_scheduler.controller.nodes.idle_nodes import IdleNodes
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload

NODES = frozenset("abc")
RUNNING = Workload("ns", "w", (PodSet(pods=4),), admission=Admission("q", (PodSetAdmission("main", {}, {}, 4),)))


def needs(pods: int) -> Workload:
    """Return a workload of four pods, of which so many are still needed."""
    return replace(RUNNING, reclaimable_pods={"main": 4 - pods})


def test_an_idle_node_remains_idle_while_a_pod_is_replaced() -> None:
    pods = [("main", "b"), ("main", "b"), ("main", "c")]
    idle = IdleNodes(lambda _workload: pods)
    assert idle.needed(needs(3), "main", {"a"}, NODES) == set()
    pods.pop()
    assert idle.needed(needs(3), "main", {"a"}, NODES) == set()
    assert idle.needed(needs(3), "main", {"a", "c"}, NODES) == {"c"}
    assert idle.needed(needs(2), "main", {"a"}, NODES) == set()
    assert idle.needed(needs(4), "main", {"a"}, NODES) == {"a"}, "the pods that have succeeded are to run again"
    assert idle.needed(needs(3), "main", {"a"}, NODES) == {"a"}


def test_a_node_with_a_pod_is_needed() -> None:
    pods = [("main", "a"), ("main", "b")]
    idle = IdleNodes(lambda _workload: pods)
    assert idle.needed(needs(2), "main", {"a"}, NODES) == {"a"}
    del pods[0]
    assert idle.needed(needs(2), "main", {"a"}, NODES) == {"a"}


def test_a_node_that_was_back_is_not_idle() -> None:
    pods = [("main", "b")]
    idle = IdleNodes(lambda _workload: pods)
    assert idle.needed(needs(1), "main", {"a"}, NODES) == set()
    assert idle.needed(needs(1), "main", set(), NODES) == set()
    pods.clear()
    assert idle.needed(needs(1), "main", {"a"}, NODES) == {"a"}


def test_a_workload_without_quota_is_forgotten() -> None:
    pods = [("main", "b")]
    idle = IdleNodes(lambda _workload: pods)
    idle.needed(needs(1), "main", {"a"}, NODES)
    idle.forget("ns/w", {"main"})
    pods.clear()
    assert idle.needed(needs(1), "main", {"a"}, NODES) == {"a"}


def test_a_pod_whose_node_has_a_new_hostname_leaves_its_node_needed() -> None:
    """Its replacement is to go to the former hostname."""
    pods = [("main", "renamed"), ("main", "b")]
    idle = IdleNodes(lambda _workload: pods)
    assert idle.needed(needs(2), "main", {"a"}, NODES) == {"a"}
