"""Events on jobs: each action is reported, once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from support.elastic_cluster import ElasticCluster
from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from zonewise_common.kube.resources import JOBS, PODS, WORKLOADS
from zonewise_scheduler.controller.admissionchecks.provisioning import CHECK_UPDATED
from zonewise_scheduler.controller.admissionchecks.provisioning_request import POD_TEMPLATES, PROVISIONING_REQUESTS
from zonewise_scheduler.controller.status.job_events import (
    REPEAT,
    EventLog,
    JobEvent,
    creation_event,
    failed_change_event,
    involved_object,
    workload_event,
)
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

NOW = 1_800_000_000.0
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "namespace": "ns"}


def reported_events(cluster: ModelCluster, *acts: Callable[[], object]) -> list[tuple[str, str, str]]:
    """Return the Events of a history with 10 s between its actions, as (name of the job, reason, message)."""
    now = NOW
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: now)
    for act in acts:
        now += 10.0
        act()
        queue.settle(cluster.sync_jobs)
    result: list[tuple[str, str, str]] = []
    for write, outcome in zip(queue.writes, queue.outcomes, strict=True):
        event = workload_event(write, outcome)
        if event is not None and outcome.obj is not None:
            assert not event.is_warning
            result.append((involved_object(write.key, outcome.obj)["name"], event.reason, event.message))
    return result


def test_a_job_is_admitted_and_ends() -> None:
    cluster = ModelCluster()
    (job, reason, message), end = reported_events(
        cluster, lambda: cluster.submit("j", 2), lambda: cluster.complete(next(iter(cluster.jobs)))
    )
    assert (job, reason) == ("j", "Admitted")
    assert message.startswith("by ClusterQueue q, with flavor f; waited for ")
    assert end == ("j", "FinishedWorkload", "done")


def test_a_job_that_grows_and_shrinks_has_not_ended() -> None:
    cluster = ElasticCluster()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    job = cluster.submit_elastic("j", 2)
    for size in (2, 4, 9, 4):
        cluster.resize(job, size)
        queue.settle(cluster.sync_jobs)
    cluster.complete(job)
    queue.settle(cluster.sync_jobs)
    outcomes = zip(queue.writes, queue.outcomes, strict=True)
    reasons = [event.reason for event in itertools.starmap(workload_event, outcomes) if event is not None]
    assert reasons == ["Admitted", "Admitted", "WorkloadSliceReplaced", "OutOfSync", "FinishedWorkload"]


def test_a_preemption_is_reported_to_its_victim() -> None:
    cluster = ModelCluster(preemption={"withinClusterQueue": "LowerPriority"})
    events = reported_events(
        cluster,
        lambda: cluster.submit("low", 6, priority="low"),
        lambda: cluster.submit("high", 6, priority="high", at=5),
    )
    (message,) = [message for job, reason, message in events if (job, reason) == ("low", "Preempted")]
    assert "prioritization in the ClusterQueue" in message
    assert ("high", "Admitted") in [event[:2] for event in events]


def test_the_reason_for_a_drain_is_reported() -> None:
    cluster = ModelCluster()
    (queue,) = [key for key in cluster.objects if key.resource.kind == "ClusterQueue"]
    events = reported_events(
        cluster, lambda: cluster.submit("j", 6), lambda: cluster.change(queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    )
    assert [reason for _, reason, _ in events] == ["Admitted", "EvictedDueToClusterQueueStopped"]


def test_a_failed_write_has_no_event() -> None:
    cluster = ModelCluster()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    cluster.submit("j", 2)
    queue.settle()
    assert all(workload_event(write, Outcome("stale")) is None for write in queue.writes)


def test_the_same_event_is_not_repeated_soon() -> None:
    log, event = EventLog(), JobEvent("Pending", "waits")
    first = log.write(JOB, event, NOW)
    assert first is not None
    assert log.write(JOB, event, NOW + REPEAT - 1) is None
    assert log.write(JOB, event, NOW + REPEAT + 1) is not None
    assert log.write(JOB, JobEvent("Admitted", "starts"), NOW + REPEAT + 2) is not None
    assert log.write(JOB, event, NOW + REPEAT + 3) is not None


def test_simultaneous_events_have_different_names() -> None:
    log = EventLog()
    writes = [log.write(JOB | {"uid": uid}, JobEvent("Pending", "waits"), NOW) for uid in ("a", "b")]
    names = {write.key.name for write in writes if write is not None}
    assert len(names) == 2
    assert all(name.startswith("j.") for name in names)


def test_a_rejected_check_is_a_warning_and_an_eviction_is_reported_once() -> None:
    cluster = ModelCluster(admissionChecksStrategy={"admissionChecks": [{"name": "licence"}]})
    cluster.add_check("licence")
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    cluster.submit("j", 2)
    queue.settle(cluster.sync_jobs)
    (key,) = [key for key in cluster.objects if key.resource.kind == "Workload"]
    checks = [{"name": "licence", "state": "Rejected", "message": "expired"}]
    cluster.change(key, {"status": {"admissionChecks": checks}})
    queue.settle(cluster.sync_jobs)
    events = [workload_event(write, outcome) for write, outcome in zip(queue.writes, queue.outcomes, strict=True)]
    reasons = [(event.reason, event.is_warning) for event in events if event is not None]
    assert reasons == [
        ("QuotaReserved", False),
        ("AdmissionCheckRejected", True),
        ("EvictedDueToDeactivatedDueToAdmissionCheck", False),
    ]


def test_a_limit_that_deactivates_is_one_eviction() -> None:
    cluster = ModelCluster()
    now = NOW
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: now)
    job = cluster.submit("j", 2)
    cluster.change(job, {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}})
    queue.settle(cluster.sync_jobs)
    now += 61.0
    queue.settle(cluster.sync_jobs)
    events = [workload_event(write, outcome) for write, outcome in zip(queue.writes, queue.outcomes, strict=True)]
    evictions = [event.reason for event in events if event is not None and event.reason.startswith("Evicted")]
    assert evictions == ["EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded"]


def test_a_request_for_nodes_is_reported_and_a_rejected_one_is_a_warning() -> None:
    key = ObjectKey(PROVISIONING_REQUESTS, "ns", "r")
    write = Write(Verb.CREATE, key, "create the ProvisioningRequest", {})
    assert creation_event(write, Outcome("done", {})) == JobEvent("ProvisioningRequestCreated", "ProvisioningRequest r")
    rejected = creation_event(write, Outcome("rejected", message="no such kind"))
    assert rejected == JobEvent("FailedCreate", "ProvisioningRequest r cannot be created: no such kind", True)
    assert creation_event(write, Outcome("stale")) is None
    template = write._replace(key=ObjectKey(POD_TEMPLATES, "ns", "t"))
    assert creation_event(template, Outcome("done", {})) is None


def test_a_rejected_change_is_reported() -> None:
    write = Write(Verb.MERGE_PATCH, ObjectKey(JOBS, "ns", "j"), "stop", {})
    denied = Outcome("rejected", message="denied")
    message = "Job j cannot be changed (stop): denied"
    assert failed_change_event(write, denied) == JobEvent("FailedUpdate", message, True)
    unreported = (write._replace(purpose="explain"), write._replace(needs=WORKLOADS), write._replace(verb=Verb.CREATE))
    assert [failed_change_event(other, denied) for other in unreported] == [None] * 3
    assert failed_change_event(write, Outcome("stale")) is None


def test_the_pods_of_a_job_fail_with_the_same_event() -> None:
    denied = Outcome("rejected", message="denied")
    writes = [Write(Verb.JSON_PATCH, ObjectKey(PODS, "ns", name), "ungate", []) for name in ("p-0", "p-1")]
    event = JobEvent("FailedUpdate", "a pod cannot be changed (ungate): denied", True)
    assert [failed_change_event(write, denied) for write in writes] == [event] * 2


def test_a_changed_check_is_reported_together_with_all_others() -> None:
    checks = [{"name": "capacity", "state": "Ready", "message": "nodes are there"}, {"name": "b", "state": "Pending"}]
    write = Write(Verb.MERGE_PATCH, ObjectKey(WORKLOADS, "ns", "w"), CHECK_UPDATED)
    told_of = workload_event(write, Outcome("done", {"status": {"admissionChecks": checks}}))
    assert told_of == JobEvent("AdmissionCheckUpdated", "capacity: Ready (nodes are there); b: Pending")
