"""Elastic Indexed Jobs in the live queue: a Job that shrinks returns quota at once; one that grows is queued again."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

NOW = 1_800_000_000.0


def live_queue(cluster: ModelCluster) -> LiveQueue:
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)


def submit(cluster: ModelCluster, name: str, pods: int, at: int = 0) -> ObjectKey:
    """Create an elastic Job whose pods have one CPU each."""
    job = cluster.submit(name, 1, pods=pods, at=at)
    cluster.change(job, {"spec": {"completionMode": "Indexed"}})
    return job


def resize(cluster: ModelCluster, job: ObjectKey, pods: int) -> None:
    cluster.change(job, {"spec": {"parallelism": pods, "completions": pods}})


def runs(cluster: ModelCluster, job: ObjectKey) -> bool:
    return not cluster.get(job)["spec"]["suspend"]


def workload_of(cluster: ModelCluster, job: ObjectKey) -> Json:
    (workload,) = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == job.name]
    return workload


def set_active(cluster: ModelCluster, job: ObjectKey, *, active: bool) -> None:
    """Deactivate the Workload of a Job, or activate it again."""
    name = workload_of(cluster, job)["metadata"]["name"]
    cluster.change(ObjectKey(WORKLOADS, "ns", name), {"spec": {"active": active}})


def used_cpus(queue: LiveQueue) -> int:
    running = queue.controller.feed.state.running.values()
    return sum(sum(dict(item.requests)["cpu"] for item in run.workload.total_requests) for run in running) // 1000


def running_and_waiting(cluster: ModelCluster) -> tuple[LiveQueue, ObjectKey, ObjectKey]:
    """Return the queue, a Job that uses all of its quota, and a Job that waits."""
    queue = live_queue(cluster)
    job = submit(cluster, "job", 8)
    queue.settle(cluster.sync_jobs)
    other = submit(cluster, "other", 5, at=1)
    queue.settle(cluster.sync_jobs)
    return queue, job, other


def test_a_job_that_shrinks_continues_and_its_quota_is_free_at_once() -> None:
    cluster = ModelCluster()
    queue, job, other = running_and_waiting(cluster)
    assert (runs(cluster, job), runs(cluster, other)) == (True, False)
    uid = workload_of(cluster, job)["metadata"]["uid"]
    resize(cluster, job, 3)
    queue.settle(cluster.sync_jobs)
    assert (runs(cluster, job), runs(cluster, other)) == (True, True)
    assert cluster.starts["job"] == 1
    workload = workload_of(cluster, job)
    assert workload["metadata"]["uid"] == uid
    assert workload["status"]["reclaimablePods"] == [{"name": "main", "count": 5}]


def test_a_job_that_grows_is_stopped_and_starts_with_its_new_size() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    job = submit(cluster, "job", 3)
    queue.settle(cluster.sync_jobs)
    resize(cluster, job, 5)
    queue.settle(cluster.sync_jobs)
    assert runs(cluster, job)
    assert cluster.starts["job"] == 2
    assert [entry["count"] for entry in workload_of(cluster, job)["spec"]["podSets"]] == [5]
    resize(cluster, job, 9)
    queue.settle(cluster.sync_jobs)
    assert not runs(cluster, job), "9 CPUs do not fit into 8"


def test_a_job_that_has_returned_quota_needs_new_quota_to_grow_again() -> None:
    cluster = ModelCluster()
    queue, job, other = running_and_waiting(cluster)
    resize(cluster, job, 3)
    queue.settle(cluster.sync_jobs)
    resize(cluster, job, 8)
    queue.settle(cluster.sync_jobs)
    assert (runs(cluster, job), runs(cluster, other)) == (False, True)
    assert cluster.active_cpus() == 5


def test_a_held_job_keeps_its_workload_at_any_size() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    submit(cluster, "first", 8)
    queue.settle(cluster.sync_jobs)
    job = submit(cluster, "job", 4, at=1)
    queue.settle(cluster.sync_jobs)
    uid = workload_of(cluster, job)["metadata"]["uid"]
    for pods in (2, 6):
        resize(cluster, job, pods)
        queue.settle(cluster.sync_jobs)
        workload = workload_of(cluster, job)
        assert [entry["count"] for entry in workload["spec"]["podSets"]] == [pods]
        assert workload["metadata"]["uid"] == uid


def test_a_job_that_shrank_is_requeued_with_its_own_size() -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    job = submit(cluster, "job", 8)
    queue.settle(cluster.sync_jobs)
    uid = workload_of(cluster, job)["metadata"]["uid"]
    resize(cluster, job, 5)
    queue.settle(cluster.sync_jobs)
    set_active(cluster, job, active=False)
    queue.settle(cluster.sync_jobs)
    assert not runs(cluster, job)
    workload = workload_of(cluster, job)
    assert workload["metadata"]["uid"] == uid
    assert [entry["count"] for entry in workload["spec"]["podSets"]] == [5]
    assert not workload["status"].get("reclaimablePods"), "they would be taken off the new size"
    set_active(cluster, job, active=True)
    queue.settle(cluster.sync_jobs)
    assert runs(cluster, job)
    assert used_cpus(queue) == 5


def test_the_nodes_of_removed_pods_are_free_for_other_jobs() -> None:
    cluster = PlacedCluster(nodes=3)
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    job = submit(cluster, "job", 12)
    queue.settle(cluster.sync_jobs)
    other = submit(cluster, "other", 5, at=1)
    resize(cluster, job, 6)
    queue.settle(cluster.sync_jobs)
    assert not runs(cluster, other), "the removed pods still run on two nodes"
    for pod in cluster.pods(job)[6:]:
        cluster.delete(pod)
    queue.settle(cluster.sync_jobs)
    assert runs(cluster, other)
    assert cluster.used_cpus() == {"n0": 4, "n1": 4, "n2": 3}
    restarted = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    last = submit(cluster, "last", 1, at=2)
    restarted.settle(cluster.sync_jobs)
    assert runs(cluster, last)
    assert cluster.used_cpus() == {"n0": 4, "n1": 4, "n2": 4}


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 9), st.booleans()), max_size=6))
def test_pods_never_exceed_the_quota_under_any_changes_of_size(changes: list[tuple[str, int, bool]]) -> None:
    cluster = ModelCluster()
    queue = live_queue(cluster)
    jobs = {name: submit(cluster, name, 4, at=at) for at, name in enumerate("ab")}
    queue.settle(cluster.sync_jobs)
    for name, pods, is_stopped_first in changes:
        if is_stopped_first:
            set_active(cluster, jobs[name], active=False)
            queue.settle(cluster.sync_jobs)
        resize(cluster, jobs[name], pods)
        if is_stopped_first:
            set_active(cluster, jobs[name], active=True)
        queue.settle(cluster.sync_jobs)
        assert cluster.active_cpus() <= 8
        sizes = {key: cluster.get(job)["spec"]["parallelism"] for key, job in jobs.items()}
        started = [key for key, job in jobs.items() if runs(cluster, job)]
        assert used_cpus(queue) == sum(sizes[key] for key in started)
        assert all(key in started or size + sum(sizes[other] for other in started) > 8 for key, size in sizes.items())
