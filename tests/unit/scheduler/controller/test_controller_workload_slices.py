"""Elastic Jobs with workload slices in the live queue: a Job that grows runs on, and its new pods wait for quota."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.elastic_cluster import ElasticCluster, state_of
from support.job_api import JobApi
from support.live_queue import Killed, LiveQueue
from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

NOW = 1_800_000_000.0
CPUS = 8
KUEUE_OBJECTS = Path(__file__).parents[3] / "fixtures" / "kueue_slices.json"
PLACED = pytest.mark.parametrize("is_placed", [False, True])
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"


def live_queue(cluster: ElasticCluster, writes_left: int | None = None) -> LiveQueue:
    nodes = cluster.node_feed()
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=nodes, writes_left=writes_left)


def started(cluster: ElasticCluster, *sizes: int) -> tuple[LiveQueue, list[ObjectKey]]:
    """Return the queue, and elastic Jobs of these sizes that run."""
    queue = live_queue(cluster)
    jobs = [cluster.submit_elastic(f"job{i}", size, at=i) for i, size in enumerate(sizes)]
    queue.settle(cluster.sync_jobs)
    return queue, jobs


@PLACED
def test_a_job_that_grows_runs_on_and_gets_a_second_workload(is_placed: bool) -> None:
    cluster = ElasticCluster(is_placed=is_placed)
    queue, [job] = started(cluster, 3)
    assert (cluster.ungated(job), cluster.slices(job)) == (3, [(3, "Admitted")])
    nodes = cluster.nodes_of(job)
    cluster.resize(job, 5)
    queue.settle(cluster.sync_jobs)
    assert (cluster.ungated(job), cluster.slices(job)) == (5, [(5, "Admitted")])
    assert (cluster.starts["job0"], cluster.stops) == (1, [])
    assert cluster.nodes_of(job)[:3] == nodes
    old, new = cluster.workloads_of(job)
    assert new["metadata"]["annotations"] == {
        "kueue.x-k8s.io/elastic-job": "true",
        REPLACES: f"ns/{old['metadata']['name']}",
        SLICE_NAME: old["metadata"]["name"],
    }
    (finished,) = [item for item in old["status"]["conditions"] if item["type"] == "Finished"]
    assert finished["reason"] == "WorkloadSliceReplaced"
    uids = f"UID: {new['metadata']['uid']}, JobUID: {cluster.get(job)['metadata']['uid']}"
    assert finished["message"] == f"Replaced to accommodate a workload ({uids}) due to workload slice aggregation"
    assert new["spec"]["podSets"][0]["template"] == old["spec"]["podSets"][0]["template"]


@PLACED
def test_new_pods_wait_behind_their_gate_until_there_is_quota(is_placed: bool) -> None:
    cluster = ElasticCluster(is_placed=is_placed)
    queue, [job, other] = started(cluster, 3, 4)
    cluster.resize(job, 6)
    queue.settle(cluster.sync_jobs)
    assert (cluster.ungated(job), cluster.slices(job)) == (3, [(3, "Admitted"), (6, "Pending")])
    cluster.resize(job, 7)
    queue.settle(cluster.sync_jobs)
    assert (cluster.ungated(job), cluster.slices(job)) == (3, [(3, "Admitted"), (7, "Pending")])
    cluster.complete(other)
    queue.settle(cluster.sync_jobs)
    assert (cluster.ungated(job), cluster.slices(job), cluster.stops) == (7, [(7, "Admitted")], [])


@PLACED
def test_a_job_that_shrinks_keeps_its_workload_and_returns_quota(is_placed: bool) -> None:
    cluster = ElasticCluster(is_placed=is_placed)
    queue, [job] = started(cluster, 8)
    other = cluster.submit_elastic("other", 5, at=1)
    queue.settle(cluster.sync_jobs)
    assert not cluster.runs(other)
    cluster.resize(job, 3)
    queue.settle(cluster.sync_jobs)
    assert (cluster.slices(job), cluster.slices(other)) == ([(3, "Admitted")], [(5, "Admitted")])
    assert (cluster.ungated(job), cluster.ungated(other), cluster.stops) == (3, 5, [])


def test_a_job_that_no_longer_grows_ends_its_pending_slice() -> None:
    cluster = ElasticCluster()
    queue, [job, _] = started(cluster, 3, 4)
    cluster.resize(job, 6)
    queue.settle(cluster.sync_jobs)
    cluster.resize(job, 2)
    queue.settle(cluster.sync_jobs)
    assert cluster.slices(job) == [(2, "Admitted")]
    (ended,) = [each for each in cluster.workloads_of(job) if state_of(each) == "Finished"]
    assert ended["status"]["conditions"][-1]["reason"] == "OutOfSync"
    cluster.resize(job, 4)
    queue.settle(cluster.sync_jobs)
    assert (cluster.ungated(job), cluster.slices(job)) == (4, [(4, "Admitted")])


def test_a_job_that_waits_has_one_workload_of_any_size() -> None:
    cluster = ElasticCluster()
    queue, _ = started(cluster, 8)
    job = cluster.submit_elastic("job", 2, at=1)
    for size in (4, 3, 8):
        cluster.resize(job, size)
        queue.settle(cluster.sync_jobs)
        assert cluster.slices(job) == [(size, "Pending")]
    assert len(cluster.workloads_of(job)) == 1


def test_a_job_ends_with_all_of_its_slices() -> None:
    cluster = ElasticCluster()
    queue, [job, other] = started(cluster, 3, 4)
    cluster.resize(job, 8)
    queue.settle(cluster.sync_jobs)
    cluster.complete(job)
    queue.settle(cluster.sync_jobs)
    assert cluster.slices(job) == []
    cluster.resize(other, 8)
    queue.settle(cluster.sync_jobs)
    assert cluster.ungated(other) == 8


def test_an_evicted_job_stops_and_starts_with_its_new_size() -> None:
    """The quota of its first slice is held until its pods have ended. Then the pending slice starts it."""
    cluster = ElasticCluster()
    queue, [job] = started(cluster, 6)
    other = cluster.submit("other", 1, pods=8, at=1)
    cluster.resize(job, 8)
    name = cluster.unfinished(job)[0]["metadata"]["name"]
    cluster.change(ObjectKey(WORKLOADS, "ns", name), {"spec": {"active": False}})
    queue.settle(cluster.sync_jobs)
    assert cluster.stops == ["job0"]
    running = [key for key in (job, other) if cluster.runs(key)]
    assert len(running) == 1
    cluster.complete(running[0])
    queue.settle(cluster.sync_jobs)
    assert cluster.runs(other)


def test_the_first_slice_of_a_job_may_be_deleted() -> None:
    """The pods still name it, but belong to the slice that has replaced it."""
    cluster = ElasticCluster()
    queue, [job] = started(cluster, 3)
    cluster.resize(job, 4)
    queue.settle(cluster.sync_jobs)
    cluster.delete(ObjectKey(WORKLOADS, "ns", cluster.workloads_of(job)[0]["metadata"]["name"]))
    restarted = live_queue(cluster)
    for each, size in ((queue, 6), (restarted, 8)):
        cluster.resize(job, size)
        each.settle(cluster.sync_jobs)
        assert (cluster.ungated(job), cluster.slices(job), cluster.stops) == (size, [(size, "Admitted")], [])
    assert used_cpus(restarted) == 8


def used_cpus(queue: LiveQueue) -> int:
    running = queue.controller.feed.state.running.values()
    return sum(sum(dict(item.requests)["cpu"] for item in run.workload.total_requests) for run in running) // 1000


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 2), st.integers(1, CPUS)),
        st.tuples(st.just("resize"), st.integers(0, 2), st.integers(1, CPUS)),
        st.tuples(st.just("resize"), st.integers(0, 2), st.integers(1, CPUS)),
        st.tuples(st.just("complete"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("evict"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("lose"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("kill"), st.integers(0, 4), st.just(0)),
    ),
    max_size=12,
)


class Story:
    """Jobs that change while the controller is killed and started again."""

    def __init__(self, *, is_placed: bool) -> None:
        self.cluster = ElasticCluster(is_placed=is_placed)
        self.queue = live_queue(self.cluster)
        self.writes_left: int | None = None

    def job(self, number: int) -> ObjectKey | None:
        return next((key for key in self.cluster.jobs if key.name == f"job{number}"), None)

    def act(self, action: str, number: int, value: int) -> None:
        cluster, job = self.cluster, self.job(number)
        if action == "kill":
            self.queue = live_queue(cluster, writes_left=number)
        elif action == "submit" and job is None:
            cluster.submit_elastic(f"job{number}", value, at=len(cluster.objects))
        elif job is None or cluster.is_finished(job):
            return
        elif action == "resize":
            cluster.resize(job, value)
        elif action == "complete" and cluster.runs(job):
            cluster.complete(job)
        elif action == "delete":
            for key in (job, *cluster.pods(job)):
                cluster.delete(key)
        elif (workloads := cluster.unfinished(job)) and action in {"evict", "lose"}:
            key = ObjectKey(WORKLOADS, "ns", workloads[value % len(workloads)]["metadata"]["name"])
            (cluster.delete if action == "lose" else self.evict)(key)

    def evict(self, workload: ObjectKey) -> None:
        """Deactivate a Workload, and activate it again once its pods have ended."""
        self.cluster.change(workload, {"spec": {"active": False}})
        self.settle()
        if workload in self.cluster.objects:
            self.cluster.change(workload, {"spec": {"active": True}})

    def settle(self) -> None:
        try:
            self.queue.settle(self.cluster.sync_jobs)
        except Killed:
            self.queue = live_queue(self.cluster)
            self.queue.settle(self.cluster.sync_jobs)

    def check(self) -> None:
        """Check the invariants of a settled cluster."""
        cluster = self.cluster
        jobs = [job for job in cluster.jobs if not cluster.is_finished(job)]
        with_quota = {job: [size for size, state in cluster.slices(job) if state == "Admitted"] for job in jobs}
        assert used_cpus(self.queue) == sum(map(sum, with_quota.values())) <= CPUS
        for job in jobs:
            size = cluster.get(job)["spec"]["parallelism"]
            assert len(with_quota[job]) <= 1, "one slice covers a job"
            covered = sum(with_quota[job])
            assert cluster.ungated(job) == (min(size, covered) if cluster.runs(job) else 0), "no pod runs without quota"
            assert cluster.runs(job) == bool(covered)
            assert cluster.slices(job)[-1][0] == size, "a slice asks for all pods"

    def check_growth(self) -> None:
        """Check that a job gets its size once there is room: delete the other ones."""
        jobs = [number for number in range(3) if (job := self.job(number)) and not self.cluster.is_finished(job)]
        for number in jobs[1:]:
            self.act("delete", number, 0)
        self.settle()
        for job in map(self.job, jobs[:1]):
            assert job is not None
            size = self.cluster.get(job)["spec"]["parallelism"]
            assert (self.cluster.slices(job), self.cluster.ungated(job)) == ([(size, "Admitted")], size)


@PLACED
@given(actions=ACTIONS)
@settings(deadline=None)
def test_pods_run_exactly_within_the_quota_of_their_slices(
    actions: list[tuple[str, int, int]], is_placed: bool
) -> None:
    """Invariant: whatever happens in whatever order, the quota in use is that of the admitted slices.

    No pod runs without quota, and none is held although a slice covers it. A job that only changes its size never
    stops. Once there is room, a job gets its size.
    """
    story = Story(is_placed=is_placed)
    for action, number, value in actions:
        story.act(action, number, value)
        stops = len(story.cluster.stops)
        story.settle()
        assert action not in {"resize", "kill", "submit"} or len(story.cluster.stops) == stops
        story.check()
    story.check_growth()


def cluster_of_kueue() -> tuple[ElasticCluster, ObjectKey, ObjectKey]:
    """Return a cluster with the objects that Kueue left while a Job waited to grow from 5 to 7 pods, and its Jobs.

    Kueue 0.20 wrote them on a real API server. Its queue has 8 CPUs, and the other Job uses 3 of them.
    """
    cluster = ElasticCluster()
    cluster.objects.clear()
    kinds = {each.kind: each for each in (JOBS, PODS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS)}
    for kind, objects in json.loads(KUEUE_OBJECTS.read_text()).items():
        for obj in objects:
            key = ObjectKey(kinds[kind], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            cluster.objects[key] = obj
            if key.resource == JOBS:
                cluster.jobs[key] = JobApi(obj, clears_start_time=True)
    job, other = cluster.jobs
    return cluster, job, other


def test_slices_of_kueue_are_adopted() -> None:
    """The running pods continue, and the new ones start once the other Job has ended. Kueue's names remain."""
    cluster, job, other = cluster_of_kueue()
    queue = live_queue(cluster)
    queue.settle()
    assert cluster.slices(job) == [(5, "Admitted"), (7, "Pending")]
    assert (cluster.ungated(job), used_cpus(queue)) == (5, 8)
    cluster.jobs[other].job["status"]["conditions"] = [{"type": "Complete", "status": "True", "message": "done"}]
    cluster.change(other, {"status": cluster.jobs[other].job["status"]})
    for pod in cluster.pods(other):
        cluster.change(pod, {"status": {"phase": "Succeeded"}})
    queue.settle()
    assert cluster.slices(job) == [(7, "Admitted")]
    assert (cluster.ungated(job), cluster.stops, used_cpus(queue)) == (7, [], 7)


def test_a_job_adopted_from_kueue_starts_again_after_an_eviction() -> None:
    """The template of its slice names an earlier slice, since Kueue builds slices from started Jobs."""
    cluster, job, _ = cluster_of_kueue()
    queue = live_queue(cluster)
    queue.settle()
    key = ObjectKey(WORKLOADS, job.namespace, cluster.unfinished(job)[0]["metadata"]["name"])
    cluster.change(key, {"spec": {"active": False}})
    queue.settle()
    for pod in cluster.pods(job):
        cluster.delete(pod)
    cluster.jobs[job].sync()
    cluster.jobs[job].sync()
    cluster.change(job, {"status": cluster.jobs[job].job["status"]})
    queue.settle()
    assert cluster.slices(job) == [(7, "Pending")]
    cluster.resize(job, 4)
    cluster.change(key, {"spec": {"active": True}})
    queue.settle()
    assert (cluster.slices(job), cluster.runs(job)) == ([(4, "Admitted")], True)


def set_check(cluster: ElasticCluster, workload: Json, state: str) -> None:
    """Set the state of the only admission check of a Workload, as its controller does."""
    checks = [{**check, "state": state} for check in workload["status"]["admissionChecks"]]
    key = ObjectKey(WORKLOADS, "ns", workload["metadata"]["name"])
    cluster.change(key, {"status": {"admissionChecks": checks}})


@pytest.mark.parametrize(("state", "stops"), [("Ready", []), ("Rejected", ["job0"])])
def test_a_job_runs_on_while_the_checks_of_its_slice_are_pending(state: str, stops: list[str]) -> None:
    """Its new pods start once the check has passed. If it fails, the job stops, since it has no other quota."""
    cluster = ElasticCluster(admissionChecksStrategy={"admissionChecks": [{"name": "licence"}]})
    cluster.add_check("licence")
    queue, [job] = started(cluster, 3)
    set_check(cluster, cluster.unfinished(job)[0], "Ready")
    queue.settle(cluster.sync_jobs)
    cluster.resize(job, 5)
    queue.settle(cluster.sync_jobs)
    queue = live_queue(cluster)
    queue.settle(cluster.sync_jobs)
    assert (cluster.slices(job), cluster.ungated(job), cluster.stops) == ([(5, "QuotaReserved")], 3, [])
    set_check(cluster, cluster.unfinished(job)[0], state)
    queue.settle(cluster.sync_jobs)
    assert (cluster.stops, cluster.ungated(job)) == (stops, 0 if stops else 5)


def test_both_slices_follow_the_priority_class_of_their_job() -> None:
    cluster = ElasticCluster()
    queue = live_queue(cluster)
    job = cluster.submit_elastic("job", 5, priority="low")
    queue.settle(cluster.sync_jobs)
    cluster.resize(job, 9)
    queue.settle(cluster.sync_jobs)
    cluster.change(job, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}})
    queue.settle(cluster.sync_jobs)
    assert [each["spec"]["priority"] for each in cluster.unfinished(job)] == [9, 9]


def test_a_preempted_job_stops_and_its_pending_slice_starts_it_again() -> None:
    cluster, now = ElasticCluster(preemption={"withinClusterQueue": "LowerPriority"}), [NOW]
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: now[0], policy=policy_named("greedy"))
    job, other = (cluster.submit_elastic(name, size, priority="low") for name, size in (("job", 5), ("other", 3)))
    queue.settle(cluster.sync_jobs)
    cluster.resize(job, 8)
    queue.settle(cluster.sync_jobs)
    assert cluster.slices(job) == [(5, "Admitted"), (8, "Pending")]
    now[0] += 3600
    urgent = cluster.submit_elastic("urgent", 8, priority="high")
    queue.settle(cluster.sync_jobs)
    assert (cluster.slices(urgent), cluster.stops) == ([(8, "Admitted")], ["job", "other"])
    assert (cluster.slices(job), cluster.ungated(job)) == ([(8, "Pending")], 0)
    for ended in (urgent, other):
        cluster.delete(ended)
        for pod in cluster.pods(ended):
            cluster.delete(pod)
    queue.settle(cluster.sync_jobs)
    assert cluster.ungated(job) == 8


def test_a_job_whose_pods_wait_for_a_slice_is_ready() -> None:
    """Pods behind the gate can never become ready, and the limit of readiness must not end the others."""
    cluster = ElasticCluster()
    queue, [job, _] = started(cluster, 3, 4)
    cluster.resize(job, 8)
    queue.settle(cluster.sync_jobs)
    cluster.jobs[job].job["status"]["ready"] = 3
    cluster.change(job, {"status": cluster.jobs[job].job["status"]})
    queue.settle()
    current = cluster.unfinished(job)[0]
    (ready,) = [item["status"] for item in current["status"]["conditions"] if item["type"] == "PodsReady"]
    assert ready == "True"


def test_a_workload_cannot_take_the_quota_of_a_job_to_which_it_does_not_belong() -> None:
    """It names a running slice. Both count, so it waits until the job has ended."""
    cluster = ElasticCluster()
    queue, [job] = started(cluster, 6)
    victim = cluster.unfinished(job)[0]
    metadata = {"annotations": {REPLACES: f"ns/{victim['metadata']['name']}"}}
    spec = {"queueName": "l", "podSets": victim["spec"]["podSets"]}
    thief = cluster.create(WORKLOADS, "ns", "thief", metadata=metadata, spec=spec)
    for each in (queue, live_queue(cluster)):
        each.settle(cluster.sync_jobs)
        assert (state_of(cluster.get(thief)), cluster.slices(job)) == ("Pending", [(6, "Admitted")])
        assert used_cpus(each) == 6
    cluster.complete(job)
    queue.settle(cluster.sync_jobs)
    assert state_of(cluster.get(thief)) == "Admitted"


def test_a_job_that_was_started_without_the_gate_has_no_slices() -> None:
    """An earlier version started it. Its new pods would run at once, so it is stopped if it grows."""
    cluster = ElasticCluster()
    queue = live_queue(cluster)
    job = cluster.submit("job", 1, pods=3)
    cluster.change(job, {"spec": {"completionMode": "Indexed"}})
    queue.settle(cluster.sync_jobs)
    cluster.change(job, {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}})
    queue.settle(cluster.sync_jobs)
    assert (cluster.slices(job), cluster.stops) == ([(3, "Admitted")], [])
    cluster.resize(job, 5)
    queue.settle(cluster.sync_jobs)
    assert (cluster.stops, cluster.slices(job), cluster.ungated(job)) == (["job"], [(5, "Admitted")], 5)
    cluster.resize(job, 6)
    queue.settle(cluster.sync_jobs)
    assert (cluster.stops, cluster.slices(job), cluster.ungated(job)) == (["job"], [(6, "Admitted")], 6)
