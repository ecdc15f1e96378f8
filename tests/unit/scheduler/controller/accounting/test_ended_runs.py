"""Which changes end a run, with the live queue on a model cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.accounting.run_record import PodSetRecord
from zonewise_scheduler.controller.accounting.ended_runs import STANDBY_PERIOD, EndedRuns, ended_run
from zonewise_scheduler.controller.workloads.conditions import Condition, with_conditions
from zonewise_scheduler.controller.workloads.status import MAXIMUM_EXECUTION_TIME_EXCEEDED
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from zonewise_scheduler.accounting.run_record import RunRecord

Json = dict[str, Any]
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z, when the model creates objects


class RecordedQueue:
    """A queue whose records a test takes, on a clock that the test sets."""

    def __init__(self) -> None:
        self.cluster = ModelCluster(preemption={"withinClusterQueue": "LowerPriority"})
        self.now = NOW
        self.queue = LiveQueue(self.cluster.listed, self.cluster.send, now=lambda: self.now)

    def settle(self, now: float) -> list[RunRecord]:
        self.now = NOW + now
        self.queue.settle(self.cluster.sync_jobs)
        return self.queue.controller.take_ended_runs()


def finished(obj: Json, reason: str, message: str = "") -> Json:
    changes = [Condition("Finished", holds=True, reason=reason, message=message)]
    return {**obj, "status": {**obj.get("status", {}), "conditions": with_conditions(obj, changes, NOW + 50)}}


def admitted_workload() -> Json:
    live = RecordedQueue()
    live.cluster.submit("a", 4)
    live.settle(10)
    [obj] = live.cluster.workloads()
    return obj


def test_a_job_that_ends_has_one_record() -> None:
    live = RecordedQueue()
    key = live.cluster.submit("a", 2, pods=3)
    live.cluster.change(key, {"spec": {"activeDeadlineSeconds": 600}})
    assert live.settle(10) == []
    live.cluster.complete(key)
    [record] = live.settle(70)
    assert (record.namespace, record.name, record.kind, record.queue) == (NAMESPACE, "a", "Job", "l")
    assert (record.cluster_queue, record.walltime, record.user) == ("q", 600, None)
    assert record.pod_sets == (PodSetRecord("main", 3, {"cpu": "2"}, {"cpu": "f"}),)
    times = record.created, record.queued, record.admitted, record.started, record.ended
    assert times == (NOW, NOW, NOW + 10, NOW + 10, NOW + 70)
    assert (record.outcome, record.reason, record.evictions) == ("succeeded", "Succeeded", 0)
    live.cluster.delete(key)
    assert live.settle(80) == []


def test_each_run_of_an_evicted_job_has_a_record() -> None:
    live = RecordedQueue()
    low = live.cluster.submit("low", 8, priority="low")
    live.settle(0)
    high = live.cluster.submit("high", 8, priority="high")
    [first] = live.settle(100)
    assert (first.name, first.outcome, first.reason) == ("low", "evicted", "Preempted")
    assert (first.started, first.ended, first.evictions) == (NOW, NOW + 100, 1)
    live.cluster.complete(high)
    assert [each.name for each in live.settle(150)] == ["high"]
    live.cluster.complete(low)
    [second] = live.settle(190)
    assert (second.uid, second.outcome, second.evictions) == (first.uid, "succeeded", 1)
    assert (second.queued, second.started, second.ended) == (NOW + 100, NOW + 150, NOW + 190)
    assert second.identity != first.identity


def test_a_deleted_job_is_cancelled_pending_or_running() -> None:
    live = RecordedQueue()
    running = live.cluster.submit("running", 8)
    live.settle(0)
    pending = live.cluster.submit("pending", 8)
    live.settle(1)
    live.cluster.delete(pending)
    [waited] = live.settle(5)
    assert (waited.name, waited.outcome, waited.started) == ("pending", "cancelled", None)
    live.cluster.delete(running)
    [ran] = live.settle(9)
    assert (ran.name, ran.outcome, ran.run_time) == ("running", "cancelled", 9.0)


def test_a_new_leader_records_what_ended_before() -> None:
    live = RecordedQueue()
    key = live.cluster.submit("a", 4)
    live.settle(0)
    live.cluster.complete(key)
    [record] = live.settle(30)
    live.queue = LiveQueue(live.cluster.listed, live.cluster.send, now=lambda: live.now)
    assert live.settle(500) == [record]


def test_a_standby_passes_on_what_ended_just_before_it_leads() -> None:
    obj = admitted_workload()
    runs = EndedRuns()
    runs.observe({**obj, "metadata": {**obj["metadata"], "uid": "old"}}, None, NOW)
    runs.observe(obj, None, NOW + STANDBY_PERIOD + 1)
    assert runs.take() == []
    runs.lead(leads=True, workloads=[], now=NOW + STANDBY_PERIOD + 2)
    assert [each.uid for each in runs.take()] == [obj["metadata"]["uid"]]


def test_outcomes_follow_from_the_reason_of_the_end() -> None:
    obj = admitted_workload()
    cases = {
        ("Failed", "BackoffLimitExceeded"): "failed",
        ("Failed", "Job was active longer than specified deadline"): "timeout",
        ("OwnerNotFound", ""): "cancelled",
        ("WorkloadSliceReplaced", ""): "replaced",
        ("FailedToStart", ""): "failed",
    }
    for (reason, message), outcome in cases.items():
        record = ended_run(obj, finished(obj, reason, message), NOW + 99)
        assert record is not None
        assert (record.outcome, record.ended) == (outcome, NOW + 50)


def test_an_eviction_after_the_execution_time_is_a_timeout() -> None:
    obj = admitted_workload()
    reason = f"DeactivatedDueTo{MAXIMUM_EXECUTION_TIME_EXCEEDED}"
    changes = [Condition("QuotaReserved", holds=False, reason=reason), Condition("Evicted", holds=True, reason=reason)]
    stopped = {**obj, "status": {"conditions": with_conditions(obj, changes, NOW + 50)}}
    record = ended_run(obj, stopped, NOW + 51)
    assert record is not None
    assert (record.outcome, record.ended) == ("timeout", NOW + 50)


def test_the_user_is_read_from_the_annotation() -> None:
    live = RecordedQueue()
    live.cluster.submit("a", 4)
    live.settle(0)
    [key] = [key for key in live.cluster.objects if key.resource == WORKLOADS]
    live.cluster.change(key, {"metadata": {"annotations": {SUBMITTED_BY_ANNOTATION: "ada"}}})
    live.settle(1)
    live.cluster.delete(key)
    assert [each.user for each in live.settle(2)] == ["ada"]
