"""Jobs and pods that other controllers hold by admission gates."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from support.controller_stories import ControllerStory
from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import POD_GROUPS, PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

NOW = 1_800_000_000.0
GATES = "kueue.x-k8s.io/admission-gated-by"
QUEUE = "kueue.x-k8s.io/queue-name"
GATE = {"name": "kueue.x-k8s.io/admission"}


def gates(text: str | None) -> Json:
    """Return a patch of the gates; None removes them."""
    return {"metadata": {"annotations": {GATES: text}}}


def test_a_job_starts_once_its_last_gate_is_removed() -> None:
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 2)
    story.cluster.change(job, gates("a.b/c,a.b/d"))
    for text in ("a.b/c,a.b/d", "a.b/d"):
        story.cluster.change(job, gates(text))
        story.settle()
        [workload] = story.cluster.workloads()
        assert workload["metadata"]["annotations"][GATES] == text
        assert story.cluster.get(job)["spec"]["suspend"]
    story.cluster.change(job, gates(None))
    story.settle()
    assert not story.cluster.get(job)["spec"]["suspend"]
    [workload] = story.cluster.workloads()
    assert GATES not in workload["metadata"]["annotations"]


def test_a_gated_job_does_not_hold_up_others_and_a_gate_does_not_stop_a_job() -> None:
    story = ControllerStory(ModelCluster())
    gated, other = story.cluster.submit("gated", 8), story.cluster.submit("other", 8, at=1)
    story.cluster.change(gated, gates("a.b/c"))
    story.settle()
    story.cluster.change(other, gates("a.b/c"))
    story.settle()
    assert [story.cluster.get(key)["spec"]["suspend"] for key in (gated, other)] == [True, False]


def is_started(cluster: ModelCluster, key: ObjectKey) -> bool:
    return GATE not in cluster.get(key)["spec"]["schedulingGates"]


def gated_pod(cluster: ModelCluster, pod: Json, labels: Mapping[str, str] = MappingProxyType({})) -> ObjectKey:
    """Create a queued pod with more labels and a gate; return its key."""
    metadata = {name: pod["metadata"][name] for name in ("annotations", "finalizers")}
    metadata["labels"] = pod["metadata"]["labels"] | {QUEUE: "l"} | dict(labels)
    key = cluster.create(PODS, NAMESPACE, "p", metadata=metadata, spec=pod["spec"], status=pod["status"])
    cluster.change(key, gates("a.b/c"))
    return key


@pytest.mark.parametrize("group", ["", "g"])
def test_pods_start_once_their_gates_are_removed(group: str) -> None:
    cluster = ModelCluster()
    key = gated_pod(cluster, queued_pod("p", group=group, total=1))
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle()
    assert cluster.workloads()
    assert not is_started(cluster, key)
    cluster.change(key, gates(None))
    queue.settle()
    assert is_started(cluster, key)


def test_the_pods_of_a_pod_group_are_held_by_their_own_gates() -> None:
    cluster = ModelCluster()
    cluster.create(POD_GROUPS, NAMESPACE, "pg", spec={"minMember": 1})
    key = gated_pod(cluster, queued_pod("p", group=""), {"scheduling.x-k8s.io/pod-group": "pg"})
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle()
    assert [obj["metadata"]["annotations"][GATES] for obj in cluster.workloads()] == ["a.b/c"]
    assert not is_started(cluster, key)
    cluster.change(key, gates(None))
    queue.settle()
    assert is_started(cluster, key)


def test_the_pods_of_a_stateful_set_follow_the_gates_of_the_set() -> None:
    """Not their own ones, which the set cannot remove from existing pods."""
    cluster = ModelCluster()
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    metadata: Json = {"labels": {QUEUE: "l"}, **gates("a.b/c")["metadata"]}
    owner = cluster.create(
        STATEFUL_SETS, NAMESPACE, "web", metadata=metadata, spec={"replicas": 1, "template": template}
    )
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True,
                 "uid": cluster.get(owner)["metadata"]["uid"]}  # fmt: skip
    pod = queued_pod("p", group="")
    metadata = {
        "annotations": {"kueue.x-k8s.io/pod-suspending-parent": "statefulset", GATES: "a.b/own"},
        "finalizers": pod["metadata"]["finalizers"],
    }
    metadata |= {"labels": pod["metadata"]["labels"] | {QUEUE: "l"}, "ownerReferences": [reference]}
    key = cluster.create(PODS, NAMESPACE, "web-0", metadata=metadata, spec=pod["spec"], status=pod["status"])
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle()
    assert [obj["metadata"]["annotations"][GATES] for obj in cluster.workloads()] == ["a.b/c"]
    assert not is_started(cluster, key)
    cluster.change(owner, gates(None))
    queue.settle()
    assert is_started(cluster, key)
