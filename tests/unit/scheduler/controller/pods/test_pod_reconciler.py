"""Writes for pods as they and their Workloads change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.held_pods import assigned_workload, held_pod, managed
from zonewise_scheduler.controller.pods.pod_context import PodContext
from zonewise_scheduler.controller.pods.pod_reconciler import PodReconciler

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write

NODES = {"h1": "node-1"}
WORKLOADS = {"ns/w": assigned_workload({"h1": 1}, indexed=False)}


def observe(reconciler: PodReconciler) -> None:
    reconciler.observe("ns", "a", managed(held_pod("a")))


def failed_write(reconciler: PodReconciler) -> Write:
    [write] = reconciler.writes(PodContext(WORKLOADS, NODES))
    reconciler.end_write(write, done=False)
    return write


def test_a_pod_is_ungated_once() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    [write] = reconciler.writes(PodContext(WORKLOADS, NODES))
    observe(reconciler)
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []
    reconciler.end_write(write, done=True)
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []


def test_a_write_that_has_failed_is_tried_again_once_the_pod_or_its_workload_changes() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    write = failed_write(reconciler)
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []
    observe(reconciler)
    assert failed_write(reconciler) == write
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == []
    reconciler.mark_dirty(["ns/w"])
    assert reconciler.writes(PodContext(WORKLOADS, NODES)) == [write]


def test_the_failure_of_one_pod_does_not_hold_others() -> None:
    reconciler = PodReconciler()
    observe(reconciler)
    failed_write(reconciler)
    reconciler.observe("ns", "a", None)
    reconciler.observe("ns", "b", managed(held_pod("b")))
    assert [write.key.name for write in reconciler.writes(PodContext(WORKLOADS, NODES))] == ["b"]
