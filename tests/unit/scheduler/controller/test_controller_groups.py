"""Groups of pods defined by an object, in the live queue: PodGroups of both APIs, and LeaderWorkerSet replicas."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import (
    IN_TREE_POD_GROUPS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.workload_names import adopted_workload_name

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

NOW = 1_800_000_000.0
GATE = {"name": "kueue.x-k8s.io/admission"}


def live_queue(cluster: ModelCluster) -> LiveQueue:
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)


def create_pod(cluster: ModelCluster, name: str, labels: Json, *, cpu: str = "2", **fields: Any) -> ObjectKey:
    """Create a pod in the form in which the webhook leaves it."""
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


def test_a_replica_without_the_lease_does_not_wake_for_a_terminating_pod() -> None:
    cluster, now = ModelCluster(), [NOW]
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: now[0])
    pod = create_pod(cluster, "a", {})
    queue.settle()
    set_phase(cluster, [pod], "Running")
    cluster.change(pod, {"metadata": {"deletionTimestamp": "2027-01-15T09:00:00Z"}})
    queue.settle()
    assert queue.controller.wake_at < inf
    queue.controller.lead(False)
    cluster.delete(pod)
    now[0] += 3600.0
    queue.step()
    assert queue.controller.wake_at == inf


def test_stopped_pods_are_released_if_their_namespace_is_deleted() -> None:
    """Otherwise, they would wait for replacements that the API server rejects."""
    cluster = ModelCluster()
    queue = live_queue(cluster)
    group = {"kueue.x-k8s.io/pod-group-name": "g"}
    total = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    pods = [create_pod(cluster, name, group, annotations=total) for name in ("a", "b")]
    queue.settle()
    set_phase(cluster, pods, "Failed")
    deleted = {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}
    stopped = {"status": {"conditions": [{"type": "TerminationTarget", "status": "True"}]}}
    for pod in pods:
        cluster.change(pod, deleted | stopped)
    queue.settle()
    assert all(cluster.get(pod)["metadata"]["finalizers"] for pod in pods)
    cluster.change(ObjectKey(NAMESPACES, "", "ns"), deleted)
    cluster.change(pods[0], {"metadata": {"labels": {"changed": "true"}}})
    queue.settle()
    assert not any(cluster.get(pod)["metadata"]["finalizers"] for pod in pods)


# --- PodGroups


def pod_group_pod(cluster: ModelCluster, api: Resource, name: str) -> ObjectKey:
    if api == POD_GROUPS:
        return create_pod(cluster, name, {"scheduling.x-k8s.io/pod-group": "pg"})
    return create_pod(cluster, name, {}, schedulingGroup={"podGroupName": "pg"})


@pytest.mark.parametrize(
    ("api", "spec"),
    [(POD_GROUPS, {"minMember": 2}), (IN_TREE_POD_GROUPS, {"schedulingPolicy": {"gang": {"minCount": 2}}})],
)
def test_the_pods_of_a_pod_group_form_one_workload(api: Resource, spec: Json) -> None:
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


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_workload_names_its_pod_group_in_the_version_that_is_served(*, is_finished: bool) -> None:
    """Kubernetes 1.37 no longer serves v1alpha2: the garbage collector deletes nothing that names this version."""
    cluster = ModelCluster()
    queue = live_queue(cluster)
    alpha = {"apiVersion": "scheduling.k8s.io/v1alpha2"}
    group = cluster.create(
        IN_TREE_POD_GROUPS, "ns", "pg", **alpha, spec={"schedulingPolicy": {"gang": {"minCount": 2}}}
    )
    pods = [pod_group_pod(cluster, IN_TREE_POD_GROUPS, name) for name in ("a", "b")]
    queue.settle()
    [workload] = workload_keys(cluster)
    before = cluster.get(workload)["metadata"]["ownerReferences"]
    assert [owner["apiVersion"] for owner in before] == ["scheduling.k8s.io/v1alpha2"]
    if is_finished:
        set_phase(cluster, pods, "Succeeded")
        queue.settle()
        assert is_true(cluster.get(workload), "Finished")
    cluster.change(group, {"apiVersion": "scheduling.k8s.io/v1beta1"})
    queue.settle()
    assert workload_keys(cluster) == [workload]
    after = cluster.get(workload)["metadata"]["ownerReferences"]
    assert after == [before[0] | {"apiVersion": "scheduling.k8s.io/v1beta1"}]
    assert started(cluster) == {"a", "b"}


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


def test_a_pod_group_that_is_not_a_gang_is_invalid() -> None:
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


def leader_worker_set(
    cluster: ModelCluster, *, replicas: int = 2, size: int = 3, leader: str = "1", name: str = "s"
) -> ObjectKey:
    spec = {"size": size, "leaderTemplate": template(leader), "workerTemplate": template("2")}
    return cluster.create(LEADER_WORKER_SETS, "ns", name, spec={"replicas": replicas, "leaderWorkerTemplate": spec})


def replica_pod(cluster: ModelCluster, replica: int, index: int, *, cpu: str = "2", name: str = "s") -> ObjectKey:
    labels = {"name": name, "group-index": str(replica), "worker-index": str(index)}
    role = "leader" if index == 0 else "worker"
    return create_pod(
        cluster,
        f"{name}-{replica}-{index}" if index else f"{name}-{replica}",
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


def test_an_evicted_replica_keeps_its_workload_and_its_pods_are_deleted() -> None:
    """A StatefulSet creates a pod again under its name, so the old pod must not wait for its replacement."""
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


def test_an_ended_pod_is_released_before_its_replacement_is_created() -> None:
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
def test_the_workload_of_a_removed_replica_is_deleted_after_its_pods(*, restarts: bool) -> None:
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


def test_pods_of_a_deleted_set_are_released_once_they_have_ended() -> None:
    """The object is deleted first; the garbage collector then deletes its Workloads and pods."""
    cluster = ModelCluster()
    queue = live_queue(cluster)
    owner = leader_worker_set(cluster, replicas=1, size=1)
    pod = replica_pod(cluster, 0, 0)
    queue.settle()
    set_phase(cluster, [pod], "Running")
    cluster.delete(owner)
    assert not workload_keys(cluster)
    cluster.change(pod, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
    queue.settle()
    assert cluster.get(pod)["metadata"]["finalizers"], "it still runs"
    cluster.change(pod, {"status": {"phase": "Succeeded"}})
    queue.settle()
    assert not cluster.get(pod)["metadata"]["finalizers"]


def test_pods_of_a_removed_replica_are_released_and_form_no_workload() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    leader_worker_set(cluster, replicas=0)
    pod = replica_pod(cluster, 0, 0)
    cluster.change(pod, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
    queue.settle()
    assert not workload_keys(cluster)
    assert not cluster.get(pod)["metadata"]["finalizers"]


@pytest.mark.parametrize("size", [2, 5])
def test_a_replica_follows_the_priority_class_of_its_set(size: int) -> None:
    """A replica of 5 pods waits, since it needs 9 of 8 CPUs; one of 2 pods runs."""
    cluster = ModelCluster()
    for name, value in (("low", 5), ("high", 50)):
        cluster.create(WORKLOAD_PRIORITY_CLASSES, "", name, value=value)
    queue = live_queue(cluster)
    owner = leader_worker_set(cluster, replicas=1, size=size)
    cluster.change(owner, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "low"}}})
    for index in range(size):
        pod = replica_pod(cluster, 0, index, cpu="1" if index == 0 else "2")
        cluster.change(pod, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "low"}}})
    queue.settle()
    [workload] = workload_keys(cluster)
    assert cluster.get(workload)["spec"]["priority"] == 5
    assert bool(started(cluster)) == (size == 2)
    cluster.change(owner, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}})
    queue.settle()
    assert workload_keys(cluster) == [workload]
    spec = cluster.get(workload)["spec"]
    assert (spec["priority"], spec["priorityClassRef"]["name"]) == (50, "high")


def test_the_workload_of_a_waiting_replica_ends_if_its_set_is_deleted_without_dependents() -> None:
    cluster = ModelCluster(cpus=1)
    queue = live_queue(cluster)
    owner = leader_worker_set(cluster, replicas=1)
    pod = replica_pod(cluster, 0, 0, cpu="1")
    queue.settle()
    [workload] = workload_keys(cluster)
    for dependent in (workload, pod):
        cluster.change(dependent, {"metadata": {"ownerReferences": []}})
    del cluster.objects[owner]
    queue.settle()
    finished = find_condition(cluster.get(workload), "Finished") or {}
    assert finished.get("reason") == "OwnerNotFound"


# --- LeaderWorkerSets that Kueue managed before


def let_kueue_make(cluster: ModelCluster, key: ObjectKey, name: str) -> ObjectKey:
    """Replace a Workload by one in the form that Kueue creates, with a plain owner reference."""
    obj = cluster.get(key)
    cluster.delete(key)
    [owner] = obj["metadata"]["ownerReferences"]
    plain = {field: owner[field] for field in ("apiVersion", "kind", "name", "uid")}
    metadata = {field: obj["metadata"][field] for field in ("labels", "annotations", "creationTimestamp")}
    metadata["ownerReferences"] = [plain]
    return cluster.create(WORKLOADS, "ns", name, metadata=metadata, spec=obj["spec"], status=obj["status"])


def set_of_kueue(cluster: ModelCluster, name: str, *, replicas: int = 1) -> tuple[ObjectKey, list[ObjectKey]]:
    """Create a LeaderWorkerSet whose pods run under Workloads of Kueue, with names of up to 253 characters."""
    owner = leader_worker_set(cluster, replicas=replicas, size=1, leader="2", name=name)
    pods = [replica_pod(cluster, replica, 0, name=name) for replica in range(replicas)]
    live_queue(cluster).settle()
    assert started(cluster) == {f"{name}-{replica}" for replica in range(replicas)}
    set_phase(cluster, pods, "Running")
    uid = cluster.get(owner)["metadata"]["uid"]
    for replica, (key, pod) in enumerate(zip(workload_keys(cluster), pods, strict=True)):
        own_name = adopted_workload_name(LEADER_WORKER_SETS, f"{name}-{replica}", uid)
        let_kueue_make(cluster, key, own_name)
        cluster.change(pod, {"metadata": {"annotations": {"kueue.x-k8s.io/workload": own_name}}})
    return owner, pods


@pytest.mark.parametrize("length", [8, 45])
def test_pods_of_an_adopted_set_continue_however_long_its_name(length: int) -> None:
    cluster = ModelCluster()
    _, [pod] = set_of_kueue(cluster, "s" * length)
    workloads = workload_keys(cluster)
    queue = live_queue(cluster)
    queue.settle()
    assert (queue.purposes, workload_keys(cluster)) == ([], workloads)
    assert pod in cluster.objects


@pytest.mark.parametrize("length", [8, 45])
def test_an_adopted_set_that_is_scaled_down_returns_the_quota_of_the_replica(length: int) -> None:
    cluster = ModelCluster(cpus=4)
    owner, pods = set_of_kueue(cluster, "s" * length, replicas=2)
    queue = live_queue(cluster)
    waiting = cluster.submit("j", 2)
    queue.settle()
    assert cluster.get(waiting)["spec"]["suspend"]
    cluster.change(owner, {"spec": {"replicas": 1}})
    queue.settle()
    assert cluster.get(waiting)["spec"]["suspend"], "the pod is still active"
    cluster.delete(pods[1])
    queue.settle()
    assert not cluster.get(waiting)["spec"]["suspend"]
    assert pods[0] in cluster.objects


@pytest.mark.parametrize("index", [0, 1])
def test_pods_of_templates_from_kueue_start_even_without_a_declared_role(index: int) -> None:
    """Kueue assigns roles to the pods later, and the webhook declares the requirements of the pods."""
    cluster = ModelCluster()
    queue = live_queue(cluster)
    leader_worker_set(cluster, replicas=1, size=2)
    pods = [replica_pod(cluster, 0, each) for each in range(2)]
    cluster.change(pods[index], {"metadata": {"annotations": {"kueue.x-k8s.io/role-hash": "1a2b3c"}}})
    queue.settle()
    assert started(cluster) == {"s-0", "s-0-1"}
    labels = [cluster.get(pod)["metadata"]["labels"]["kueue.x-k8s.io/podset"] for pod in pods]
    assert labels == ["leader", "worker"]


def name_groups(cluster: ModelCluster, workload: ObjectKey, pods: list[ObjectKey]) -> None:
    """Give pods the group names that Kueue gives to those of a replica."""
    annotations = {
        "kueue.x-k8s.io/pod-suspending-parent": "leaderworkerset.x-k8s.io/leaderworkerset",
        "kueue.x-k8s.io/pod-group-name": workload.name,
        "kueue.x-k8s.io/pod-group-total-count": str(len(pods)),
        "kueue.x-k8s.io/pod-group-serving": "true",
    }
    for pod in pods:
        cluster.change(pod, {"metadata": {"annotations": annotations}})


def test_a_workload_still_belongs_to_an_adopted_set_whose_pods_name_it_as_group() -> None:
    """If the Workload belonged to the pods, the garbage collector would delete it when the replica restarts."""
    cluster = ModelCluster()
    owner, pods = set_of_kueue(cluster, "s")
    [workload] = workload_keys(cluster)
    name_groups(cluster, workload, pods)
    live_queue(cluster).settle()
    [reference] = cluster.get(workload)["metadata"]["ownerReferences"]
    assert reference["uid"] == cluster.get(owner)["metadata"]["uid"]


def test_a_replacement_pod_of_an_adopted_set_belongs_to_the_same_replica() -> None:
    """The old pods name a group; the new one does not."""
    cluster = ModelCluster()
    leader_worker_set(cluster, replicas=1, size=2)
    pods = [replica_pod(cluster, 0, index) for index in range(2)]
    live_queue(cluster).settle()
    set_phase(cluster, pods, "Running")
    [workload] = workload_keys(cluster)
    name_groups(cluster, workload, pods)
    queue = live_queue(cluster)
    queue.settle()
    cluster.delete(pods[1])
    queue.settle()
    replacement = replica_pod(cluster, 0, 1)
    queue.settle()
    set_phase(cluster, [replacement], "Running")
    for pod in (pods[0], replacement):
        cluster.change(pod, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    queue.settle()
    assert is_true(cluster.get(workload), "PodsReady")


def test_pods_of_a_deleted_adopted_set_are_released_even_if_some_name_no_group() -> None:
    cluster = ModelCluster()
    owner = leader_worker_set(cluster, replicas=1, size=2)
    pods = [replica_pod(cluster, 0, index) for index in range(2)]
    live_queue(cluster).settle()
    [workload] = workload_keys(cluster)
    name_groups(cluster, workload, pods[:1])
    cluster.delete(owner)
    set_phase(cluster, pods, "Succeeded")
    for pod in pods:
        cluster.change(pod, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
    queue = live_queue(cluster)
    queue.settle()
    assert not any(cluster.get(pod)["metadata"]["finalizers"] for pod in pods)
    assert not queue.controller.invalid
