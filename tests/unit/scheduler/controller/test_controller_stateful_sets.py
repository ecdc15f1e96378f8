"""StatefulSets in the live queue: the pods of a set form one job, although they may be created one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import PODS, STATEFUL_SETS, WORKLOADS
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.workload_names import adopted_workload_name

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

NOW = 1_800_000_000.0
GATE = {"name": "kueue.x-k8s.io/admission"}
QUEUE = "kueue.x-k8s.io/queue-name"
PARENT = {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}
ENDING = "2027-01-15T08:00:00Z"


def live_queue(cluster: ModelCluster) -> LiveQueue:
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)


def stateful_set(cluster: ModelCluster, replicas: int, name: str = "web") -> ObjectKey:
    """Create a set with 2 CPUs for each pod."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    metadata = {"labels": {QUEUE: "l"}}
    return cluster.create(
        STATEFUL_SETS, "ns", name, metadata=metadata, spec={"replicas": replicas, "template": template}
    )


def create_pod(cluster: ModelCluster, owner: ObjectKey, index: int, **annotations: Any) -> ObjectKey:
    """Create a pod as the StatefulSet controller does, in the form in which the webhook leaves it."""
    pod = queued_pod("p", group="", cpu="2", **annotations)
    labels = pod["metadata"]["labels"] | {QUEUE: "l", "apps.kubernetes.io/pod-index": str(index)}
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner.name, "controller": True,
                 "uid": cluster.get(owner)["metadata"]["uid"]}  # fmt: skip
    annotated = pod["metadata"].get("annotations", {}) | PARENT
    metadata = {"labels": labels, "annotations": annotated, "ownerReferences": [reference],
                "finalizers": pod["metadata"]["finalizers"]}  # fmt: skip
    return cluster.create(
        PODS, "ns", f"{owner.name}-{index}", metadata=metadata, spec=pod["spec"], status=pod["status"]
    )


def started(cluster: ModelCluster) -> set[str]:
    pods = {key.name: obj for key, obj in cluster.objects.items() if key.resource == PODS}
    return {name for name, obj in pods.items() if GATE not in obj["spec"]["schedulingGates"]}


def workload_keys(cluster: ModelCluster) -> list[ObjectKey]:
    return sorted(key for key in cluster.objects if key.resource == WORKLOADS)


def run(cluster: ModelCluster, pod: ObjectKey) -> None:
    ready = {"type": "Ready", "status": "True"}
    cluster.change(pod, {"spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [ready]}})


def test_the_first_pod_queues_the_whole_set_and_the_others_start_once_they_exist() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    owner = stateful_set(cluster, 3)
    run(cluster, create_pod(cluster, owner, 0))
    queue.settle()
    [workload] = workload_keys(cluster)
    obj = cluster.get(workload)
    assert workload.name.startswith("statefulset-web-")
    assert [(item["name"], item["count"]) for item in obj["spec"]["podSets"]] == [("main", 3)]
    assert obj["spec"]["podSets"][0]["topologyRequest"] == {"podIndexLabel": "apps.kubernetes.io/pod-index"}
    assert obj["metadata"]["ownerReferences"][0]["uid"] == cluster.get(owner)["metadata"]["uid"]
    assert not is_true(obj, "WaitingForReplacementPods"), "the other pods have not existed yet"
    for index in (1, 2):
        assert not is_true(cluster.get(workload), "PodsReady")
        run(cluster, create_pod(cluster, owner, index))
        queue.settle()
    assert started(cluster) == {"web-0", "web-1", "web-2"}
    assert is_true(cluster.get(workload), "PodsReady")


def test_no_pod_starts_before_the_whole_set_fits() -> None:
    cluster = ModelCluster(cpus=5)
    queue = live_queue(cluster)
    create_pod(cluster, stateful_set(cluster, 3), 0)
    queue.settle()
    assert not started(cluster)


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_set_scaled_to_0_returns_its_quota_once_its_pods_have_ended_and_may_come_back_in_any_size(
    replicas: int,
) -> None:
    cluster = ModelCluster(cpus=6)
    queue = live_queue(cluster)
    owner = stateful_set(cluster, 2)
    pods = [create_pod(cluster, owner, index) for index in range(2)]
    queue.settle()
    for pod in pods:
        run(cluster, pod)
    cluster.change(owner, {"spec": {"replicas": 0}})
    for pod in pods:
        cluster.change(pod, {"metadata": {"deletionTimestamp": ENDING}})
    queue.settle()
    assert len(workload_keys(cluster)) == 1, "the pods still run"
    for pod in pods:
        cluster.change(pod, {"status": {"phase": "Succeeded"}})
        queue.settle()
        assert not cluster.get(pod)["metadata"]["finalizers"]
        cluster.delete(pod)
    queue.settle()
    assert not workload_keys(cluster)
    cluster.change(owner, {"spec": {"replicas": replicas}})
    create_pod(cluster, owner, 0)
    queue.settle()
    [workload] = workload_keys(cluster)
    assert cluster.get(workload)["spec"]["podSets"][0]["count"] == replicas
    assert started(cluster) == {"web-0"}


def test_a_waiting_set_that_changes_its_size_is_queued_with_the_new_one() -> None:
    """A scale subresource bypasses the webhook, which would reject the change."""
    cluster = ModelCluster(cpus=5)
    queue = live_queue(cluster)
    owner = stateful_set(cluster, 3)
    create_pod(cluster, owner, 0)
    queue.settle()
    cluster.change(owner, {"spec": {"replicas": 2}})
    queue.settle()
    assert started(cluster) == {"web-0"}


def test_pods_that_are_added_to_a_running_set_wait_and_are_not_deleted() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    owner = stateful_set(cluster, 1)
    run(cluster, create_pod(cluster, owner, 0))
    queue.settle()
    cluster.change(owner, {"spec": {"replicas": 2}})
    added = create_pod(cluster, owner, 1)
    queue.settle()
    assert started(cluster) == {"web-0"}
    assert added in cluster.objects


def test_a_waiting_set_follows_its_queue_although_its_pods_name_the_old_one() -> None:
    """A StatefulSet does not replace a pod that is not ready."""
    cluster = ModelCluster(cpus=1)
    queue = live_queue(cluster)
    owner = stateful_set(cluster, 1)
    create_pod(cluster, owner, 0)
    queue.settle()
    cluster.change(owner, {"metadata": {"labels": {QUEUE: "other"}}})
    queue.settle()
    [workload] = workload_keys(cluster)
    assert cluster.get(workload)["spec"]["queueName"] == "other"


def test_a_set_that_kueue_has_started_continues() -> None:
    """Its pods name a group, and its Workload has Kueue's name and a plain owner reference."""
    cluster = ModelCluster()
    owner = stateful_set(cluster, 2)
    name = adopted_workload_name(STATEFUL_SETS, "web", cluster.get(owner)["metadata"]["uid"])
    group = {"kueue.x-k8s.io/pod-group-name": name, "kueue.x-k8s.io/pod-group-total-count": "2",
             "kueue.x-k8s.io/pod-group-serving": "true", "kueue.x-k8s.io/pod-group-fast-admission": "true"}  # fmt: skip
    pods = [create_pod(cluster, owner, index, **group) for index in range(2)]
    live_queue(cluster).settle()
    [workload] = workload_keys(cluster)
    for pod in pods:
        run(cluster, pod)
    [reference] = cluster.get(workload)["metadata"]["ownerReferences"]
    plain = {field: reference[field] for field in ("apiVersion", "kind", "name", "uid")}
    cluster.change(workload, {"metadata": {"ownerReferences": [plain]}})
    live_queue(cluster).settle()
    assert (workload.name, workload_keys(cluster)) == (name, [workload])
    assert started(cluster) == {"web-0", "web-1"}
    cluster.delete(pods[1])
    recreated = create_pod(cluster, owner, 1)
    cluster.change(recreated, {"metadata": {"labels": {QUEUE: None}}})
    live_queue(cluster).settle()
    assert started(cluster) == {"web-0", "web-1"}, "the recreated pod, which names no group and queue, is of the set"
