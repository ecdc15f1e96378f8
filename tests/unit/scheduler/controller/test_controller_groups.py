"""Groups of pods that an object describes, in the live queue: PodGroups by both APIs, replicas of LeaderWorkerSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import IN_TREE_POD_GROUPS, LEADER_WORKER_SETS, POD_GROUPS, PODS, WORKLOADS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

NOW = 1_800_000_000.0
GATE = {"name": "kueue.x-k8s.io/admission"}


def live_queue(cluster: ModelCluster) -> LiveQueue:
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)


def create_pod(cluster: ModelCluster, name: str, labels: Json, *, cpu: str = "2", **fields: Any) -> ObjectKey:
    """Create a pod as the webhook leaves it."""
    pod = queued_pod(name, group="", cpu=cpu, **fields.pop("annotations", {}))
    labels = pod["metadata"]["labels"] | labels | {"kueue.x-k8s.io/queue-name": "l"}
    metadata = {**pod["metadata"], "labels": labels}
    del metadata["uid"], metadata["namespace"], metadata["name"]
    return cluster.create(PODS, "ns", name, metadata=metadata, spec=pod["spec"] | fields, status=pod["status"])


def started(cluster: ModelCluster) -> set[str]:
    pods = {key.name: obj for key, obj in cluster.objects.items() if key.resource == PODS}
    return {name for name, obj in pods.items() if GATE not in obj["spec"]["schedulingGates"]}


def set_phase(cluster: ModelCluster, keys: Iterable[ObjectKey], phase: str) -> None:
    for key in keys:
        cluster.change(key, {"spec": {"nodeName": "n"}, "status": {"phase": phase}})


def workload_keys(cluster: ModelCluster) -> list[ObjectKey]:
    return sorted(key for key in cluster.objects if key.resource == WORKLOADS)


# --- PodGroups


def pod_group_pod(cluster: ModelCluster, api: Resource, name: str) -> ObjectKey:
    if api == POD_GROUPS:
        return create_pod(cluster, name, {"scheduling.x-k8s.io/pod-group": "pg"})
    return create_pod(cluster, name, {}, schedulingGroup={"podGroupName": "pg"})


@pytest.mark.parametrize(
    ("api", "spec"),
    [(POD_GROUPS, {"minMember": 2}), (IN_TREE_POD_GROUPS, {"schedulingPolicy": {"gang": {"minCount": 2}}})],
)
def test_the_pods_of_a_pod_group_are_one_workload(api: Resource, spec: Json) -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    pods = [pod_group_pod(cluster, api, name) for name in ("a", "b")]
    queue.settle()
    assert not workload_keys(cluster), "the PodGroup does not exist yet"
    group = cluster.create(api, "ns", "pg", spec=spec)
    queue.settle()
    [workload] = workload_keys(cluster)
    [owner] = cluster.get(workload)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGroup", "pg", cluster.get(group)["metadata"]["uid"])
    assert started(cluster) == {"a", "b"}
    set_phase(cluster, pods, "Succeeded")
    queue.settle()
    assert {entry["type"]: entry["status"] for entry in cluster.get(workload)["status"]["conditions"]}[
        "Finished"
    ] == "True"
    assert not any(cluster.get(key)["metadata"]["finalizers"] for key in pods)


def test_pods_of_a_pod_group_wait_for_each_other_and_for_quota() -> None:
    cluster = ModelCluster(cpus=3)
    queue = live_queue(cluster)
    cluster.create(POD_GROUPS, "ns", "pg", spec={"minMember": 2})
    pod_group_pod(cluster, POD_GROUPS, "a")
    queue.settle()
    assert not workload_keys(cluster), "one of its pods is missing"
    pod_group_pod(cluster, POD_GROUPS, "b")
    queue.settle()
    assert len(workload_keys(cluster)) == 1
    assert not started(cluster), "4 CPUs do not fit into 3"


def test_a_pod_group_that_is_no_gang_is_told() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    group = cluster.create(IN_TREE_POD_GROUPS, "ns", "pg", spec={"schedulingPolicy": {"basic": {}}})
    pod_group_pod(cluster, IN_TREE_POD_GROUPS, "a")
    queue.settle()
    assert "spec.schedulingPolicy.gang.minCount" in queue.controller.invalid[group]
    cluster.change(group, {"spec": {"schedulingPolicy": {"basic": None, "gang": {"minCount": 1}}}})
    queue.settle()
    assert group not in queue.controller.invalid
    assert started(cluster) == {"a"}


# --- LeaderWorkerSets


def template(cpu: str) -> Json:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


def leader_worker_set(cluster: ModelCluster, *, replicas: int = 2, size: int = 3, leader: str = "1") -> ObjectKey:
    spec = {"size": size, "leaderTemplate": template(leader), "workerTemplate": template("2")}
    return cluster.create(LEADER_WORKER_SETS, "ns", "s", spec={"replicas": replicas, "leaderWorkerTemplate": spec})


def replica_pod(cluster: ModelCluster, replica: int, index: int, *, cpu: str = "2") -> ObjectKey:
    labels = {"name": "s", "group-index": str(replica), "worker-index": str(index)}
    role = "leader" if index == 0 else "worker"
    return create_pod(
        cluster,
        f"s-{replica}-{index}" if index else f"s-{replica}",
        {f"leaderworkerset.sigs.k8s.io/{name}": value for name, value in labels.items()},
        cpu=cpu,
        annotations={"kueue.x-k8s.io/role-hash": role},
    )


def test_each_replica_is_a_workload_of_leader_and_workers() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    owner = leader_worker_set(cluster)
    for replica in range(2):
        replica_pod(cluster, replica, 0, cpu="1")
    queue.settle()
    first, second = workload_keys(cluster)
    assert [key.name.rpartition("-")[0] for key in (first, second)] == ["leaderworkerset-s-0", "leaderworkerset-s-1"]
    uid = cluster.get(owner)["metadata"]["uid"]
    for key in (first, second):
        assert [(item["name"], item["count"]) for item in cluster.get(key)["spec"]["podSets"]] == [
            ("leader", 1),
            ("worker", 2),
        ]
        assert cluster.get(key)["metadata"]["ownerReferences"][0]["uid"] == uid
    assert started(cluster) == {"s-0"}, "the quota of 8 CPUs is enough for one replica of 5"
    for index in (1, 2):
        replica_pod(cluster, 0, index)
        replica_pod(cluster, 1, index)
    queue.settle()
    assert started(cluster) == {"s-0", "s-0-1", "s-0-2"}


def test_a_replica_that_is_evicted_keeps_its_workload_and_its_pods_go() -> None:
    """A StatefulSet makes a pod anew under its name, so the old one must not wait for its replacement."""
    cluster = ModelCluster()
    queue = live_queue(cluster)
    leader_worker_set(cluster, replicas=1)
    pods = [replica_pod(cluster, 0, index) for index in range(3)]
    queue.settle()
    [workload] = workload_keys(cluster)
    set_phase(cluster, pods, "Running")
    cluster.change(workload, {"spec": {"active": False}})
    queue.settle()
    assert not any(key in cluster.objects for key in pods), "each was deleted"
    cluster.change(workload, {"spec": {"active": True}})
    queue.settle()
    assert workload_keys(cluster) == [workload]
    for index in range(3):
        replica_pod(cluster, 0, index)
    queue.settle()
    assert workload_keys(cluster) == [workload]
    assert len(started(cluster)) == 3


def test_a_pod_that_has_ended_is_released_before_its_replacement_comes() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    leader_worker_set(cluster, replicas=1)
    pods = [replica_pod(cluster, 0, index) for index in range(3)]
    queue.settle()
    set_phase(cluster, pods, "Running")
    cluster.change(pods[1], {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}, "status": {"phase": "Failed"}})
    queue.settle()
    assert not cluster.get(pods[1])["metadata"]["finalizers"]
    assert cluster.get(pods[2])["metadata"]["finalizers"]
    cluster.delete(pods[1])
    replica_pod(cluster, 0, 1)
    queue.settle()
    assert len(started(cluster)) == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_the_workload_of_a_replica_that_is_gone_is_deleted_once_its_pods_are(*, restarts: bool) -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    owner = leader_worker_set(cluster, size=1)
    pods = [replica_pod(cluster, replica, 0, cpu="1") for replica in range(2)]
    queue.settle()
    assert started(cluster) == {"s-0", "s-1"}
    cluster.delete(pods[1])
    queue.settle()
    assert len(workload_keys(cluster)) == 2, "the pod is to come again"
    if restarts:
        cluster.change(owner, {"spec": {"replicas": 1}})
        queue = live_queue(cluster)
    else:
        queue.settle()
        cluster.change(owner, {"spec": {"replicas": 1}})
    queue.settle()
    [workload] = workload_keys(cluster)
    assert workload.name.startswith("leaderworkerset-s-0-")


def test_pods_of_a_replica_that_goes_are_released_and_make_no_workload() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    leader_worker_set(cluster, replicas=0)
    pod = replica_pod(cluster, 0, 0)
    cluster.change(pod, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
    queue.settle()
    assert not workload_keys(cluster)
    assert not cluster.get(pod)["metadata"]["finalizers"]
