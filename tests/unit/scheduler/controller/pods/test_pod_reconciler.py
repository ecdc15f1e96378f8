"""Writes for pods, as they and their Workloads change."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from support.held_pods import assigned_workload, held_pod, managed, pinned
from zonewise_scheduler.controller.pods.pod_context import PodContext
from zonewise_scheduler.controller.pods.pod_reconciler import PAUSE, PodReconciler
from zonewise_scheduler.controller.pods.stray_pods import END_STRAY
from zonewise_scheduler.controller.pods.ungate import UNGATE

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write

Json = dict[str, Any]

NODES = {"h1": "node-1"}
WORKLOADS = {"ns/w": assigned_workload({"h1": 1}, indexed=False)}


def observe(reconciler: PodReconciler) -> None:
    reconciler.observe("ns", "a", managed(held_pod("a")))


def failed_write(reconciler: PodReconciler) -> Write:
    [write] = reconciler.writes(PodContext(WORKLOADS, NODES))
    reconciler.end_write(write, 0.0, done=False)
    return write


def test_a_pod_is_ungated_once() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    [write] = reconciler.writes(PodContext(WORKLOADS, NODES))
    observe(reconciler)
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []
    reconciler.end_write(write, 0.0, done=True)
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []


def test_a_failed_write_is_repeated_once_the_pod_or_its_workload_changes() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    write = failed_write(reconciler)
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []
    observe(reconciler)
    assert failed_write(reconciler) == write
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []
    reconciler.mark_dirty(["ns/w"])
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == [write]


def test_a_failed_write_is_repeated_after_a_pause_even_if_nothing_changes() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    write = failed_write(reconciler)
    assert reconciler.retry_at == PAUSE
    assert reconciler.writes(PodContext(WORKLOADS, NODES, now=PAUSE - 1)) == []
    assert reconciler.writes(PodContext(WORKLOADS, NODES, now=PAUSE)) == [write]
    assert reconciler.retry_at == inf


def test_the_failure_of_one_pod_does_not_affect_others() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    failed_write(reconciler)
    reconciler.observe("ns", "a", None)
    reconciler.observe("ns", "b", managed(held_pod("b")))
    assert [write.key.name for write in reconciler.writes(PodContext(WORKLOADS, NODES))] == ["b"]


def test_a_failure_with_one_node_loses_no_patch_of_a_pod_counted_as_ungated() -> None:
    reconciler = PodReconciler()
    gang = {"ns/w": assigned_workload({"h1": 1, "h2": 1})}
    for i, name in enumerate("ab"):
        reconciler.observe("ns", name, managed(held_pod(name, index=i)))

    def admits_next(_key: tuple[str, str], node: str, _sent: object) -> bool:
        if node == "node-2":
            raise ZeroDivisionError
        return True

    context = PodContext(gang, {"h1": "node-1", "h2": "node-2"}, admits_next=admits_next)
    assert [write.key.name for write in reconciler.writes(context)] == ["a"]


# --- nodes that the gang avoids


def avoiding(*nodes: str) -> PodContext:
    """Return the context of a gang of three pods, two of them on node-1, that avoids the given nodes."""
    gang = {"ns/w": assigned_workload({"h1": 2, "h2": 1})}
    names = {"h1": "node-1", "h2": "node-2"}

    def avoids(workload: str, pod_set: str, node: str) -> bool:
        assert (workload, pod_set) == ("ns/w", "main")
        return node in nodes

    return PodContext(gang, names, avoids=avoids)


def add_pods(reconciler: PodReconciler, *pods: Json) -> None:
    for pod in pods:
        reconciler.observe("ns", pod["metadata"]["name"], managed(pod))


def ungated(reconciler: PodReconciler, context: PodContext) -> set[str]:
    return {write.key.name for write in reconciler.writes(context)}


def test_no_pod_starts_on_a_node_that_its_gang_avoids() -> None:
    """The pods of that node are held until the condition ends; the others start."""
    reconciler = PodReconciler()
    add_pods(reconciler, *(held_pod(name, index=i) for i, name in enumerate("abc")))
    assert ungated(reconciler, avoiding("node-1")) == {"c"}
    assert reconciler.take_avoided() == {("ns/w", "node-1")}
    assert reconciler.take_avoided() == set()
    assert ungated(reconciler, avoiding("node-1")) == set()
    assert reconciler.take_avoided() == {("ns/w", "node-1")}
    assert ungated(reconciler, avoiding()) == {"a", "b"}
    assert reconciler.take_avoided() == set()


@pytest.mark.parametrize(("phase", "starts"), [("Running", {"b"}), ("Pending", {"b"}), ("Failed", set[str]())])
def test_a_pod_follows_its_gang_to_a_node_that_it_avoids(phase: str, starts: set[str]) -> None:
    """A pod of the gang already runs there or will be bound there; only a node as a whole can be replaced."""
    reconciler = PodReconciler()
    first = pinned(held_pod("a", index=0), "node-1")
    other = pinned(held_pod("c", index=2), "node-2")
    add_pods(reconciler, {**first, "status": {"phase": phase}}, held_pod("b", index=1), other)
    assert ungated(reconciler, avoiding("node-1")) == starts
    assert reconciler.take_avoided() == (set() if starts else {("ns/w", "node-1")})


# --- closed nodes


def closed_context(*nodes: str) -> PodContext:
    """Return the context of a gang of three pods, two of them on node-1, to which the given nodes are closed."""

    def is_closed(workload: str, pod_set: str, node: str) -> bool:
        assert (workload, pod_set) == ("ns/w", "main")
        return node in nodes

    return avoiding()._replace(is_closed=is_closed)


def test_pods_of_a_closed_node_are_held_until_it_is_replaced_or_open_again() -> None:
    reconciler = PodReconciler()
    add_pods(reconciler, *(held_pod(name, index=i) for i, name in enumerate("abc")))
    assert ungated(reconciler, closed_context("node-1")) == {"c"}
    assert reconciler.take_avoided() == {("ns/w", "node-1")}
    assert ungated(reconciler, closed_context("node-1")) == set()
    assert reconciler.take_avoided() == {("ns/w", "node-1")}
    assert ungated(reconciler, closed_context()) == {"a", "b"}
    assert reconciler.take_avoided() == set()


@pytest.mark.parametrize(
    ("pod", "is_replaced"),
    [
        (pinned(held_pod("a", index=0, nodeName="node-1"), "node-1"), False),
        (pinned(held_pod("a", index=0), "node-1"), True),
    ],
    ids=["bound", "waits"],
)
def test_a_closed_node_is_not_replaced_while_a_pod_runs_there(pod: Json, is_replaced: bool) -> None:
    """A drain ends the pods of a node one after the other. No scheduler binds a replacement to that node."""
    reconciler = PodReconciler()
    add_pods(reconciler, pod, held_pod("b", index=1), pinned(held_pod("c", index=2), "node-2"))
    assert ungated(reconciler, closed_context("node-1")) == set()
    assert reconciler.take_avoided() == ({("ns/w", "node-1")} if is_replaced else set())
    deleted = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    add_pods(reconciler, {**pod, "metadata": deleted})
    assert ungated(reconciler, closed_context("node-1")) == set()
    assert reconciler.take_avoided() == {("ns/w", "node-1")}


def test_a_node_that_closes_before_its_pods_are_bound_is_replaced() -> None:
    """No pod is held any more. The change of the node is enough to check the pods that wait for it."""
    reconciler = PodReconciler()
    add_pods(reconciler, *(pinned(held_pod(name, index=i), f"node-{i + 1}") for i, name in enumerate("ab")))
    assert ungated(reconciler, closed_context()) == set()
    reconciler.mark_nodes(["node-1"], 0.0)
    assert ungated(reconciler, closed_context("node-1")) == set()
    assert reconciler.take_avoided() == {("ns/w", "node-1")}
    add_pods(reconciler, pinned(held_pod("a", index=0, nodeName="node-1"), "node-1"))
    reconciler.mark_nodes(["node-1"], 0.0)
    assert ungated(reconciler, closed_context("node-1")) == set()
    assert reconciler.take_avoided() == set()


# --- pods that wait for a failed node


def stray_context(**nodes: int) -> PodContext:
    """Return the context of a workload that is assigned to these nodes."""
    return PodContext({"ns/w": assigned_workload(nodes, indexed=False)}, {"h1": "node-1", "h2": "node-2"})


def test_a_pod_whose_node_is_replaced_is_ended_once() -> None:
    """Its patch may be observed before or after the new assignment."""
    reconciler = PodReconciler()
    add_pods(reconciler, pinned(held_pod("a"), "node-1"))
    assert reconciler.writes(stray_context(h1=1)) == []
    reconciler.mark_dirty(["ns/w"])
    [write] = reconciler.writes(stray_context(h2=1))
    assert (write.purpose, write.key.name) == (END_STRAY, "a")
    reconciler.mark_dirty(["ns/w"])
    assert reconciler.writes(stray_context(h2=1)) == []
    reconciler.end_write(write, 0.0, done=False)
    assert reconciler.writes(stray_context(h2=1)) == []
    reconciler.mark_dirty(["ns/w"])
    assert reconciler.writes(stray_context(h2=1)) == [write]


def test_a_pod_that_is_ungated_while_its_node_is_replaced_is_ended() -> None:
    reconciler = PodReconciler()
    add_pods(reconciler, held_pod("a"))
    [ungating] = reconciler.writes(stray_context(h1=1))
    reconciler.mark_dirty(["ns/w"])
    assert reconciler.writes(stray_context(h2=1)) == []
    reconciler.end_write(ungating, 0.0, done=True)
    add_pods(reconciler, pinned(held_pod("a"), "node-1"))
    assert [write.purpose for write in reconciler.writes(stray_context(h2=1))] == [END_STRAY]


def test_the_replacement_of_an_ended_pod_gets_the_new_node() -> None:
    reconciler = PodReconciler()
    add_pods(reconciler, pinned(held_pod("a"), "node-1"), held_pod("b"))
    context = stray_context(h2=1)
    writes = reconciler.writes(context)
    assert {write.key.name: write.purpose for write in writes} == {"a": END_STRAY, "b": UNGATE}
