"""Bad input: an invalid, absurd or missing object causes a clear condition or Event; everything else continues."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import job as reviewed_job
from support.admission_reviews import problems_of
from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.placed_cluster import PlacedCluster
from support.queue_objects import cluster_queue_spec
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
)
from zonewise_scheduler.controller.status.queue_summaries import summarize_queues
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true

Json = dict[str, Any]
NOW = 1_800_000_000.0
MEGABYTE = "x" * (1 << 20)


def reported(cluster: ModelCluster) -> ReportedQueue:
    """Return the queue after everything that follows from the objects, including statuses and notes."""
    queue = ReportedQueue(cluster, NOW)
    for _ in range(4):
        queue.tick(10.0)
    return queue


def condition(cluster: ModelCluster, key: ObjectKey, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    found = find_condition(cluster.get(key), kind) or {}
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


def add_queue(cluster: ModelCluster, name: str, **fields: Any) -> ObjectKey:
    """Add a ClusterQueue and a LocalQueue of the same name."""
    cluster.create(LOCAL_QUEUES, NAMESPACE, name, spec={"clusterQueue": name})
    return cluster.create(CLUSTER_QUEUES, "", name, spec={**cluster_queue_spec({"cpu": "8"}), **fields})


def runs(cluster: ModelCluster, job: ObjectKey) -> bool:
    return not cluster.get(job)["spec"]["suspend"]


def workload_of(cluster: ModelCluster, job: ObjectKey) -> Json:
    """Return the Workload of a Job."""
    uid = cluster.get(job)["metadata"]["uid"]
    [found] = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["uid"] == uid]
    return found


@pytest.mark.parametrize("cpus", [9, 10**9])
def test_a_job_above_every_quota_waits_and_the_reason_is_reported(cpus: int) -> None:
    cluster = ModelCluster()
    large, good = cluster.submit("large", cpus), cluster.submit("good", 2, at=1)
    reported(cluster)
    reserved = find_condition(workload_of(cluster, large), "QuotaReserved") or {}
    assert reserved["status"] == "False"
    assert "needs" in reserved["message"]
    assert not runs(cluster, large)
    assert runs(cluster, good)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"zonewise.dev/max-run-seconds": "-5"}}},
        {"metadata": {"annotations": {"zonewise.dev/max-run-seconds": "9" * 30 + "d"}}},
        {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "0"}}},
        {"spec": {"activeDeadlineSeconds": -1}},
        {"spec": {"activeDeadlineSeconds": "soon"}},
    ],
    ids=str,
)
def test_an_absurd_duration_of_a_job_is_reported_as_an_event(change: Json) -> None:
    cluster = ModelCluster()
    bad, good = cluster.submit("bad", 2), cluster.submit("good", 2, at=1)
    cluster.change(bad, change)
    queue = reported(cluster)
    [event] = [event for event in queue.events if event["reason"] == "InvalidJob"]
    assert event["involvedObject"]["name"] == "bad"
    assert any(name in event["message"] for name in ("max-run-seconds", "max-exec-time", "activeDeadlineSeconds"))
    assert not runs(cluster, bad)
    assert runs(cluster, good)


def test_a_job_that_multikueue_manages_is_reported_and_holds_no_quota() -> None:
    """Its own controller ignores it, so it would never start a pod."""
    cluster = ModelCluster()
    remote, good = cluster.submit("remote", 8), cluster.submit("good", 8, at=1)
    cluster.change(remote, {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}})
    queue = reported(cluster)
    [event] = [event for event in queue.events if event["reason"] == "InvalidJob"]
    assert event["message"].startswith("spec.managedBy: MultiKueue is not supported")
    assert len(cluster.workloads()) == 1
    assert runs(cluster, good)


def test_an_absurd_default_duration_is_reported_and_the_queue_remains_active() -> None:
    cluster = ModelCluster()
    key = ObjectKey(CLUSTER_QUEUES, "", "q")
    cluster.change(key, {"metadata": {"annotations": {"zonewise.dev/default-run-seconds": "-1h"}}})
    good = cluster.submit("good", 2)
    reported(cluster)
    status, _, message = condition(cluster, key, "Active")
    assert status == "True"
    assert "default-run-seconds" in message
    assert runs(cluster, good)


def test_a_cycle_of_cohorts_stops_only_its_own_queues() -> None:
    cluster = ModelCluster()
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        cluster.create(COHORTS, "", name, spec={"parentName": parent})
    queues = [add_queue(cluster, f"in-{name}", cohortName=name) for name in ("a", "b")]
    good = cluster.submit("good", 2)
    reported(cluster)
    for key in queues:
        status, _, message = condition(cluster, key, "Active")
        assert status == "False"
        assert "cycle" in message.lower()
    assert runs(cluster, good)


def test_a_queue_with_a_missing_flavor_is_inactive_until_the_flavor_exists() -> None:
    cluster = ModelCluster()
    key = add_queue(cluster, "x", resourceGroups=cluster_queue_spec({"cpu": "8"}, "gone")["resourceGroups"])
    waits, good = cluster.submit("waits", 2), cluster.submit("good", 2, at=1)
    cluster.change(waits, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}})
    queue = reported(cluster)
    status, reason, message = condition(cluster, key, "Active")
    assert (status, reason) == ("False", "FlavorNotFound")
    assert "gone" in message
    assert not runs(cluster, waits)
    assert runs(cluster, good)
    cluster.create(RESOURCE_FLAVORS, "", "gone", spec={})
    for _ in range(4):
        queue.tick(10.0)
    assert condition(cluster, key, "Active")[0] == "True"
    assert runs(cluster, waits)


def test_an_annotation_of_a_megabyte_is_not_copied() -> None:
    """The API server rejects it for kinds with such a limit; on other jobs nothing copies it."""
    cluster = ModelCluster()
    bad, good = cluster.submit("bad", 2), cluster.submit("good", 2, at=1)
    cluster.change(bad, {"metadata": {"annotations": {"note": MEGABYTE}}})
    queue = reported(cluster)
    assert runs(cluster, bad)
    assert runs(cluster, good)
    for write in [*queue.writes, *queue.queue.writes]:
        assert len(str(write.body)) < 1 << 16
    assert "annotations: " in problems_of(reviewed_job("q", {"note": MEGABYTE}))
    assert "annotations: " in problems_of(reviewed_job("q", template={"note": MEGABYTE}))


@pytest.mark.parametrize("name", ["zonewise.dev/max-run-seconds", "kueue.x-k8s.io/job-min-parallelism"])
def test_a_zonewise_annotation_of_a_megabyte_is_truncated_in_the_message(name: str) -> None:
    cluster = ModelCluster()
    bad, good = cluster.submit("bad", 2), cluster.submit("good", 2, at=1)
    cluster.change(bad, {"metadata": {"annotations": {name: MEGABYTE}}})
    queue = reported(cluster)
    [event] = [event for event in queue.events if event["reason"] == "InvalidJob"]
    assert name.partition("/")[2] in event["message"]
    assert len(event["message"]) < 1024
    assert runs(cluster, good)


@pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_jobs_at_once_get_one_workload_each(number: int) -> None:
    """Each Job has one Workload; as many start as fit the quota, and the others wait. No write is repeated."""
    cluster = ModelCluster()
    jobs = [cluster.submit(f"j{i}", 2) for i in range(number)]
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle()
    assert len(cluster.workloads()) == len(jobs)
    assert [runs(cluster, job) for job in jobs].count(True) == 4
    creations = [write for write in queue.writes if write.purpose == "create the Workload"]
    assert len(creations) == len(jobs)
    assert len(queue.writes) == len(jobs) + 3 * 4


def test_a_topology_deleted_under_running_gangs_stops_none_of_them() -> None:
    """The queue reports the missing Topology and starts nothing on that flavor until the Topology exists again."""
    cluster = PlacedCluster()
    gang = cluster.submit("gang", 2, pods=3)
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    queue.settle(cluster.sync_jobs)
    nodes = cluster.nodes_of(gang)
    assert all(nodes)
    topology = ObjectKey(TOPOLOGIES, "", "t")
    spec = cluster.get(topology)["spec"]
    cluster.delete(topology)
    later = cluster.submit("later", 2, at=1)
    queue.settle(cluster.sync_jobs)
    assert (cluster.nodes_of(gang), runs(cluster, gang)) == (nodes, True)
    assert not is_true(workload_of(cluster, gang), "Evicted")
    assert not runs(cluster, later)
    feed = queue.controller.feed
    activity = summarize_queues(feed.state, feed.problems).cluster_queues["q"].activity
    assert (activity.is_active, activity.reason) == (False, "TopologyNotFound")
    assert activity.message == "Can't admit new workloads: there is no Topology t for ResourceFlavor f"
    cluster.create(TOPOLOGIES, "", "t", spec=spec)
    queue.settle(cluster.sync_jobs)
    assert summarize_queues(feed.state, feed.problems).cluster_queues["q"].activity.is_active
    assert runs(cluster, later)
    assert cluster.nodes_of(gang) == nodes


ANNOTATIONS = [
    *("zonewise.dev/" + name for name in ("injected", "admission", "dependency", "max-run-seconds",
      "submitted-active-deadline-seconds", "enforce-walltime", "bind-pods", "default-run-seconds")),
    *("kueue.x-k8s.io/" + name for name in ("workload", "stopping", "role-hash", "priority-boost", "podset",
      "queue-name", "priority-class", "podset-unconstrained-topology", "podset-slice-size", "podset-group-name",
      "podset-slice-required-topology-constraints", "podset-slice-required-topology", "podset-required-topology",
      "podset-preferred-topology", "pod-index-offset", "pod-group-total-count", "pod-group-name",
      "pod-group-serving", "pod-group-fast-admission", "max-exec-time-seconds", "job-min-parallelism",
      "job-completions-equal-parallelism", "elastic-job", "managed", "local-queue-name", "cluster-queue-name")),
]  # fmt: skip
"""The annotations and labels that the controller reads from jobs, from their templates and from pods."""
TEXTS = ["", "0", "-1", "true", "l", "x" * 5000, "9" * 5000, f"{1:012}{0:05000}", "1e999", "[" * 100_000, "[{}]",
         '{"main":{"annotations":{"kueue.x-k8s.io/workload":"w","zonewise.dev/admission":"{}"},"count":-1}}',
         '{"clusterQueue":"q","flavors":{"cpu":"f"},"count":1e999}',
         "afterok:any:" + ":any" * 2000, "\x00\ud7ff"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]))
def test_no_label_or_annotation_of_a_job_prevents_the_start_of_another(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each Job and each pod has one of them; as labels, the API server would reject some of these values."""
    cluster = ModelCluster()
    for i, name in enumerate(ANNOTATIONS):
        for place in ("labels", "annotations", "template"):
            own = {} if place == "template" else {place: {name: text}}
            metadata = {**own, "labels": {"kueue.x-k8s.io/queue-name": "l", **own.get("labels", {})}}
            inner = {"annotations": {name: text}} if place == "template" else {}
            template: Json = {"metadata": inner, "spec": {"containers": [{"name": "c"}]}}
            spec = {"suspend": i % 2 == 0, "parallelism": 1, "completions": 1, "template": template}
            cluster.create(JOBS, NAMESPACE, f"j{i}-{place}", metadata=metadata, spec=spec)
            pod = {"metadata": metadata | inner, "spec": {**template["spec"], "nodeName": "n"}}
            cluster.create(PODS, NAMESPACE, f"j{i}-{place}", **pod, status={"phase": "Running"})
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    good = cluster.submit("good", 1, at=1)
    for _ in range(8):
        queue.step()
        cluster.sync_jobs()
    assert runs(cluster, good)
    assert not [record for record in caplog.records if record.exc_info]
