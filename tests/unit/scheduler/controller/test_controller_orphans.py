"""A Job that is deleted without its dependents leaves its pods and its Workload.

The API server does this by default (kubernetes pkg/registry/batch/job/strategy.go DefaultGarbageCollectionPolicy).
"""

from __future__ import annotations

from typing import Any

import pytest

from support.controller_stories import ControllerStory
from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import PODS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition
from zonewise_scheduler.controller.workloads.manifest import is_orphaned

Json = dict[str, Any]

NOW = 1_800_000_000.0
GATE = {"name": "kueue.x-k8s.io/topology"}


def orphan(cluster: ModelCluster, job: ObjectKey) -> ObjectKey:
    """Delete a Job as the API server and the garbage collector do; return the key of its Workload."""
    [workload] = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == job.name]
    key = ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"])
    for dependent in (key, *(other for other in cluster.objects if other.resource == PODS)):
        cluster.change(dependent, {"metadata": {"ownerReferences": []}})
    del cluster.objects[job]
    cluster.jobs.pop(job, None)
    return key


def reason(cluster: ModelCluster, workload: ObjectKey) -> str:
    """Return the reason for which a Workload has finished; "": it has not."""
    return str((find_condition(cluster.get(workload), "Finished") or {}).get("reason", ""))


def test_a_pending_workload_without_its_job_ends() -> None:
    story = ControllerStory(ModelCluster())
    running = story.cluster.submit("running", 8)
    story.settle()
    waiting, last = story.cluster.submit("waiting", 8, at=1), story.cluster.submit("last", 8, at=2)
    story.settle()
    workload = orphan(story.cluster, waiting)
    story.settle()
    assert reason(story.cluster, workload) == "OwnerNotFound"
    story.cluster.complete(running)
    story.settle()
    assert not story.cluster.get(last)["spec"]["suspend"]


def test_a_workload_without_its_job_holds_its_quota_until_its_pods_have_ended() -> None:
    cluster = PlacedCluster()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    job = cluster.submit("job", 4, pods=2)
    queue.settle(cluster.sync_jobs)
    last = cluster.submit("last", 4, pods=2, at=1)
    queue.settle(cluster.sync_jobs)
    pods = [key for key in cluster.objects if key.resource == PODS]
    workload = orphan(cluster, job)
    queue.settle(cluster.sync_jobs)
    assert len(pods) == 2
    assert reason(cluster, workload) == ""
    assert cluster.get(last)["spec"]["suspend"]
    for pod in pods:
        cluster.change(pod, {"status": {"phase": "Succeeded"}})
    queue.settle(cluster.sync_jobs)
    assert reason(cluster, workload) == "OwnerNotFound"
    assert not cluster.get(last)["spec"]["suspend"]


@pytest.mark.parametrize("created", [1, 2])
def test_pods_that_are_held_when_their_job_is_deleted_neither_start_nor_hold_quota(created: int) -> None:
    """The other pods of the gang may never be created."""
    cluster = PlacedCluster()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    job = cluster.submit("job", 4, pods=2)
    while cluster.get(job)["spec"]["suspend"]:
        queue.step()
    cluster.sync_jobs()
    pods = cluster.pods(job)
    for pod in pods[created:]:
        cluster.delete(pod)
    workload = orphan(cluster, job)
    queue.settle()
    assert reason(cluster, workload) == "OwnerNotFound"
    assert [cluster.get(pod)["spec"]["schedulingGates"] for pod in pods[:created]] == [[GATE]] * created
    last = cluster.submit("last", 4, pods=2, at=1)
    for restarted in (queue, LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())):
        restarted.settle(cluster.sync_jobs)
        assert not cluster.get(last)["spec"]["suspend"]
        assert cluster.nodes_of(last) == ["n0", "n1"]


@pytest.mark.parametrize(
    ("fields", "orphaned"),
    [
        ({}, True),
        ({"ownerReferences": [{"uid": "1"}]}, False),
        ({"labels": {}}, False),
        ({"deletionTimestamp": "2027-01-15T08:00:00Z"}, False),
    ],
)
def test_only_a_workload_that_had_a_job_and_remains_is_an_orphan(fields: Json, orphaned: bool) -> None:
    """A Workload without the label has yet to get its job: a user has created it (prebuilt.py)."""
    metadata = {"name": "w", "labels": {"kueue.x-k8s.io/job-uid": "1"}, **fields}
    assert is_orphaned({"metadata": metadata}) == orphaned
