"""Pods that wait for a node on which they can no longer run."""

from __future__ import annotations

from typing import Any

import pytest

from support.held_pods import assigned_workload, held_pod, managed, pinned
from zonewise_scheduler.controller.pods.stray_pods import end_stray_pod, find_stray_pods, waiting_pods

Json = dict[str, Any]

NAMES = {"h1": "node-1", "h2": "node-2"}
WORKLOAD = assigned_workload({"h1": 1, "h2": 1})


def strays(*pods: Json, workload: Json = WORKLOAD, names: dict[str, str] = NAMES) -> list[str]:
    waiting = waiting_pods(workload, [managed(pod) for pod in pods])
    return [pod.name for pod in find_stray_pods(workload, waiting, names)]


def with_status(**status: Any) -> Json:
    return {**WORKLOAD, "status": {**WORKLOAD["status"], **status}}


def test_a_pod_is_stray_if_its_node_is_no_longer_assigned() -> None:
    assert strays(pinned(held_pod("a"), "node-1"), pinned(held_pod("b"), "node-3")) == ["b"]


def test_a_pod_is_stray_if_its_node_has_failed() -> None:
    pods = [pinned(held_pod(name), node) for name, node in (("a", "node-1"), ("b", "node-2"))]
    assert strays(*pods) == []
    assert strays(*pods, workload=with_status(unhealthyNodes=[{"name": "h2"}])) == ["b"]
    assert strays(*pods, names={"h1": "node-1"}) == ["b"]


@pytest.mark.parametrize(
    "pod",
    [
        held_pod("held"),
        pinned(held_pod("bound", nodeName="node-3"), "node-3"),
        {**pinned(held_pod("ended"), "node-3"), "status": {"phase": "Failed"}},
        pinned(held_pod("unpinned"), ""),
        pinned(held_pod("other", "without-placement"), "node-3"),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_other_pods_are_not_stray(pod: Json) -> None:
    assert strays(pod) == []


def test_a_deleted_pod_is_not_stray() -> None:
    pod = pinned(held_pod("a"), "node-3")
    assert strays({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}) == []


def test_a_pod_of_a_workload_that_is_stopped_is_not_stray() -> None:
    evicted = {"type": "Evicted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [*WORKLOAD["status"]["conditions"], evicted]
    assert strays(pinned(held_pod("a"), "node-3"), workload=with_status(conditions=conditions)) == []


def test_a_domain_above_nodes_makes_no_pod_stray() -> None:
    """Its pods have no pin to a node, unless their template names one."""
    assert strays(pinned(held_pod("a"), "node-3"), workload=assigned_workload({"r1": 1}, level="rack")) == []


def test_a_stray_pod_fails_with_a_condition_that_failure_policies_may_ignore() -> None:
    write = end_stray_pod(managed(pinned(held_pod("a"), "node-3")), 0.0)
    assert isinstance(write.body, dict)
    status = write.body["status"]
    assert (write.subresource, write.uid, write.workload) == ("status", "u-a", "ns/w")
    assert (status["phase"], status["message"]) == ("Failed", "node node-3 failed before the pod was bound to it")
    assert [entry["type"] for entry in status["conditions"]] == ["DisruptionTarget"]
