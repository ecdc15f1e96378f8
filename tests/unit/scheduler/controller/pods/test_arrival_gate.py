"""Pods that are held because others must arrive at their node first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.held_pods import assigned_workload, held_pod, managed, pinned
from zonewise_scheduler.controller.pods.arrival_gate import HELD_LIMIT, PERIOD, SETTLED
from zonewise_scheduler.controller.pods.pod_context import PodContext
from zonewise_scheduler.controller.pods.pod_reconciler import PodReconciler
from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES = {"h1": "node-1"}
WORKLOADS = {"ns/w": assigned_workload({"h1": 2}, indexed=False)}
KEY = ("ns/w", "main")


class Kubelet:
    """A stand-in for the planner: its verdicts, and a record of the queries."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[tuple[str, int, int]] = []

    def admits_next(self, key: tuple[str, str], node: str, sent: Mapping[tuple[str, str], SentPods]) -> bool:
        count, settled = sent.get(key, SentPods(0))
        self.asked.append((node, count, settled))
        return count - settled < self.most

    def context(self, now: float) -> PodContext:
        return PodContext(WORKLOADS, NODES, admits_next=self.admits_next, now=now)


def reconciler_of(*names: str) -> PodReconciler:
    reconciler = PodReconciler()
    for name in names:
        reconciler.observe("ns", name, managed(held_pod(name)))
    return reconciler


def ungated(reconciler: PodReconciler, context: PodContext) -> list[str]:
    return [write.key.name for write in reconciler.writes(context)]


def test_a_pod_that_was_just_sent_counts() -> None:
    reconciler, kubelet = reconciler_of("a", "b"), Kubelet(1)
    assert ungated(reconciler, kubelet.context(0.0)) == ["a"]
    assert kubelet.asked == [("node-1", 0, 0), ("node-1", 1, 0)]


def test_a_held_pod_is_checked_again_once_its_node_changes() -> None:
    reconciler, kubelet = reconciler_of("a", "b"), Kubelet(1)
    ungated(reconciler, kubelet.context(0.0))
    kubelet.most = 2
    assert ungated(reconciler, kubelet.context(0.1)) == []
    reconciler.mark_nodes(["node-2"], 0.0)
    reconciler.mark_nodes(["node-1"], 0.1)
    assert ungated(reconciler, kubelet.context(0.1)) == ["b"]


def test_a_pod_counts_as_arrived_some_time_after_its_admission() -> None:
    reconciler, kubelet = reconciler_of("a", "b"), Kubelet(1)
    ungated(reconciler, kubelet.context(0.0))
    started = pinned(held_pod("a"), "node-1")
    started["status"] = {"phase": "Pending", "startTime": "1970-01-01T00:00:10Z"}
    reconciler.observe("ns", "a", managed(started))
    assert ungated(reconciler, kubelet.context(10.0)) == []
    reconciler.mark_nodes([], 10.0 + SETTLED + PERIOD)
    assert ungated(reconciler, kubelet.context(10.0 + SETTLED + PERIOD)) == ["b"]


def test_a_pod_that_has_ended_no_longer_counts() -> None:
    reconciler, kubelet = reconciler_of("a", "b"), Kubelet(1)
    ungated(reconciler, kubelet.context(0.0))
    ended = pinned(held_pod("a"), "node-1")
    ended["metadata"] = {**ended["metadata"], "creationTimestamp": "2026-01-02T00:00:00Z"}  # later than the admission
    ended["status"] = {"phase": "Failed"}
    reconciler.observe("ns", "a", managed(ended))
    assert ungated(reconciler, kubelet.context(0.1)) == ["b"]


def test_a_pod_is_held_for_a_limited_time() -> None:
    reconciler, kubelet = reconciler_of("a", "b"), Kubelet(0)
    assert ungated(reconciler, kubelet.context(5.0)) == []
    reconciler.mark_nodes([], HELD_LIMIT)
    assert ungated(reconciler, kubelet.context(HELD_LIMIT)) == []
    reconciler.mark_nodes([], 5.0 + HELD_LIMIT)
    assert ungated(reconciler, kubelet.context(5.0 + HELD_LIMIT)) == ["a", "b"]
