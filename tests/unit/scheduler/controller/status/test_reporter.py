"""What the live queue reports over whole histories: it is correct and needs few writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from support.model_cluster import NAMESPACE, ModelCluster
from support.placed_cluster import PlacedCluster
from support.plain_pods import queued_pod
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import CLUSTER_QUEUES, JOBS, LIMIT_RANGES, LOCAL_QUEUES, PODS, WORKLOADS
from zonewise_scheduler.backfill.forecast.sample_paths import StartSamples
from zonewise_scheduler.client.jobs.unqueued_jobs import NO_WORKLOAD, unqueued_job, with_reason
from zonewise_scheduler.controller.planning.forecaster import SampledForecast
from zonewise_scheduler.controller.status import reporter
from zonewise_scheduler.controller.status.job_events import EXPLAIN_PURPOSE
from zonewise_scheduler.controller.status.queue_status import BUSY_DELAY, DELAY, PURPOSE
from zonewise_scheduler.controller.status.queue_summaries import QueueSummaries, summarize_queues
from zonewise_scheduler.controller.status.reporter import BUDGET, MAX_IN_FLIGHT, PERIOD, StatusReporter
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.state.planner_state import PlannerState

Json = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z, when the jobs are created
QUEUE = ObjectKey(CLUSTER_QUEUES, "", "q")
LOCAL = ObjectKey(LOCAL_QUEUES, NAMESPACE, "l")


def workload_of(cluster: ModelCluster, job: str) -> Json:
    (workload,) = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == job]
    return workload


def test_statuses_follow_changes_and_then_rest() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.cluster.submit("a", 6)
    queue.cluster.submit("b", 6, at=1)
    for _ in range(8):
        queue.tick(1.0)
    for key in (QUEUE, LOCAL):
        status = queue.cluster.get(key)["status"]
        assert (status["admittedWorkloads"], status["pendingWorkloads"]) == (1, 1)
    written = [write for write in queue.writes if write.purpose == PURPOSE]
    assert len(written) == 2
    for _ in range(30):
        queue.tick(1.0)
    assert len([write for write in queue.writes if write.purpose == PURPOSE]) == 2


def test_a_stall_does_not_delay_later_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only CPU time counts. Otherwise, a stall of 5 s would leave all statuses unchanged for 100 s."""
    queue = ReportedQueue(ModelCluster(), NOW)
    stalls = [PERIOD * BUDGET * 4]

    def summarize(state: PlannerState, problems: Mapping[str, Iterable[str]]) -> QueueSummaries:
        if stalls:
            time.sleep(stalls.pop())
        return summarize_queues(state, problems)

    monkeypatch.setattr(reporter, "summarize_queues", summarize)
    reports = StatusReporter(queue.controller, lambda _: None, lambda _: None, queue.metrics)
    reports.step(NOW)
    reports.step(NOW + PERIOD)
    assert (stalls, reports.snapshot.at) == ([], NOW + PERIOD)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_late_response_to_a_status_write_does_not_undo_an_edit_of_the_queue(*, deleted: bool) -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.tick()
    observed = queue.cluster.get(QUEUE)
    body = {"status": {"pendingWorkloads": 1}}
    write = Write(Verb.MERGE_PATCH, QUEUE, PURPOSE, body, "status", observed["metadata"]["uid"])
    outcome = queue.cluster.send(write)
    if deleted:
        queue.cluster.delete(QUEUE)
    else:
        queue.cluster.change(QUEUE, {"spec": {"stopPolicy": "Hold"}})
    queue.queue.observe()
    assert queue.reporter.end_write(write, outcome, NOW)
    job = queue.cluster.submit("a", 2)
    queue.tick()
    assert queue.cluster.get(job)["spec"]["suspend"]


@pytest.mark.parametrize(("in_flight", "delay"), [(MAX_IN_FLIGHT - 1, DELAY), (MAX_IN_FLIGHT, BUSY_DELAY)])
def test_statuses_are_written_rarely_while_many_writes_are_pending(in_flight: int, delay: float) -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    for i in range(in_flight):
        key = ObjectKey(WORKLOADS, NAMESPACE, f"other-{i}")
        assert queue.controller.claim(Write(Verb.MERGE_PATCH, key, "admit"))
    for i in range(60):
        queue.cluster.submit(f"j{i}", 6, at=i)  # the number of pending workloads keeps changing
        queue.tick(0.9)
    written = [write for write in queue.writes if write.purpose == PURPOSE and write.key == QUEUE]
    assert 60 * 0.9 // (delay + 2.0) <= len(written) <= 60 * 0.9 // delay


def test_the_reason_for_a_wait_is_reported_once() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.cluster.submit("a", 6)
    queue.tick()
    queue.cluster.submit("b", 6, at=1)
    for _ in range(90):
        queue.tick(1.0)
    condition = find_condition(workload_of(queue.cluster, "b"), "QuotaReserved")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "WaitingForQuota")
    assert "needs 6 CPUs of flavor f; ClusterQueue q has 2 of its 8 left" in condition["message"]
    assert len([write for write in queue.writes if write.purpose == "explain"]) == 1
    (pending,) = [event for event in queue.events if event["reason"] == "Pending"]
    assert pending["involvedObject"]["name"] == "b"
    assert pending["message"] == condition["message"]


def test_workloads_that_start_soon_get_no_note() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    for i in range(20):
        job = queue.cluster.submit(f"j{i}", 6)
        queue.tick(1.0)
        queue.cluster.complete(job)
        queue.tick(1.0)
    assert not [write for write in queue.writes if write.purpose == "explain"]
    assert [event["reason"] for event in queue.events] == ["Admitted", "FinishedWorkload"] * 20
    assert len(queue.writes) <= 2 * 40 / 5 + 2  # two queues, one write in five seconds


def test_sampled_starts_replace_all_forecasts_of_pending_workloads() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    for i in range(4):
        queue.cluster.submit(f"j{i}", 6, at=i)
    queue.tick(5.0)
    first, second, third = (f"{NAMESPACE}/{workload_of(queue.cluster, f'j{i}')['metadata']['name']}" for i in (1, 2, 3))

    def publish(starts: dict[str, float]) -> dict[str, float]:
        samples = {key: StartSamples("q", (NOW + start,)) for key, start in starts.items()}
        queue.reporter.publish_forecasts(SampledForecast(NOW, samples))
        return {key: forecast.likely - NOW for key, forecast in queue.reporter.forecasts.items()}

    assert publish({first: 60, second: 120}) == pytest.approx({first: 60, second: 120})
    assert publish({second: 90, third: 180, "ns/gone": 60}) == pytest.approx({second: 90, third: 180})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_run_time_of_a_job_is_learned_once_even_if_its_pods_end_first(phase: str) -> None:
    cluster = PlacedCluster()
    queue = ReportedQueue(cluster, NOW)
    job = cluster.submit("a", 2, pods=2)
    queue.tick()
    queue.tick(60.0)
    for pod in cluster.pods(job):
        cluster.change(pod, {"status": {"phase": phase}})
    queue.tick()
    ModelCluster.complete(cluster, job)
    for _ in range(3):
        queue.tick(1.0)
    assert [run.run_time for run in queue.reporter.history.run_times.observed] == [61.0]
    assert [arrival.run_time for arrival in queue.reporter.history.arrivals.newest(9)] == [61.0]


def test_a_learned_run_has_the_default_walltime_of_its_queue() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.cluster.change(QUEUE, {"metadata": {"annotations": {"zonewise.dev/default-run-seconds": "3600"}}})
    job = queue.cluster.submit("a", 6)
    queue.tick()
    queue.cluster.complete(job)
    queue.tick(60.0)
    assert [(run.run_time, run.walltime) for run in queue.reporter.history.run_times.observed] == [(60.0, 3600.0)]


def test_the_run_of_a_stopped_job_is_not_learned() -> None:
    """The job has lost its quota, or it ends while it stops."""
    cluster = ModelCluster(preemption={"withinClusterQueue": "LowerPriority"}, stop_steps=3)
    queue = ReportedQueue(cluster, NOW)
    deactivated, ends = cluster.submit("a", 4), cluster.submit("b", 4)
    queue.tick()
    for name in ("a", "b"):
        key = ObjectKey(WORKLOADS, NAMESPACE, workload_of(cluster, name)["metadata"]["name"])
        eviction = {"type": "Evicted", "status": "True", "reason": "Preempted"}
        conditions = [*cluster.get(key)["status"]["conditions"], eviction]
        if name == "a":
            cluster.change(key, {"spec": {"active": False}})
        else:
            cluster.change(key, {"status": {"conditions": conditions}})
            cluster.complete(ends)
    for _ in range(3):
        queue.tick(1.0)
    cluster.delete(deactivated)
    queue.tick(1.0)
    assert is_true(workload_of(cluster, "b"), "Finished")
    assert not queue.reporter.history.run_times.observed


@pytest.mark.parametrize("deleted", [False, True])
def test_the_run_time_of_a_pod_is_learned_unless_its_user_has_deleted_it(*, deleted: bool) -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    pod = queued_pod("p", group="")
    labels = {**pod["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "l"}
    metadata = {"labels": labels, "finalizers": pod["metadata"]["finalizers"]}
    key = queue.cluster.create(PODS, NAMESPACE, "p", metadata=metadata, spec=pod["spec"], status=pod["status"])
    queue.tick()
    queue.cluster.change(key, {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    queue.tick()
    if deleted:
        queue.cluster.change(key, {"metadata": {"deletionTimestamp": "2026-01-01T00:01:00Z"}})
    queue.cluster.change(key, {"status": {"phase": "Failed"}})
    queue.tick(60.0)
    [workload] = queue.cluster.workloads()
    assert is_true(workload, "Finished")
    assert [run.run_time for run in queue.reporter.history.run_times.observed] == ([] if deleted else [60.0])


def test_a_clock_that_is_set_back_gives_no_negative_run_time() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    job = queue.cluster.submit("a", 6)
    queue.tick(60.0)
    queue.tick(-3600.0)
    queue.cluster.complete(job)
    queue.tick(1.0)
    assert [run.run_time for run in queue.reporter.history.run_times.observed] == [0.0]
    assert [arrival.run_time for arrival in queue.reporter.history.arrivals.newest(9)] == [0.0]


def test_an_invalid_job_gets_an_event_that_is_repeated_before_it_expires() -> None:
    """By default, the API server keeps Events for an hour."""
    queue = ReportedQueue(ModelCluster(), NOW)
    job = queue.cluster.submit("broken", 2)
    queue.cluster.change(job, {"spec": {"parallelism": -1}})
    for _ in range(5):
        queue.tick(1.0)
    (event,) = queue.events
    assert (event["reason"], event["type"], event["involvedObject"]["kind"]) == ("InvalidJob", "Warning", "Job")
    assert "parallelism" in event["message"]
    assert list(queue.reporter.snapshot.invalid) == [f"Job {NAMESPACE}/broken"]
    for _ in range(59):
        queue.tick(60.0)
    assert [each["reason"] for each in queue.events] == ["InvalidJob", "InvalidJob"]


def test_a_job_whose_workload_is_rejected_gets_an_event_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ResourceQuota can limit the number of Workloads in a namespace."""

    def reject(_write: Write) -> Outcome:
        return Outcome("rejected", message="403 Forbidden: exceeded quota")

    cluster = ModelCluster()
    monkeypatch.setattr(cluster, "send", reject)
    queue = ReportedQueue(cluster, NOW)
    cluster.submit("train", 2)
    queue.tick()
    (event,) = queue.events
    involved = event["involvedObject"]
    assert (event["reason"], event["type"], involved["kind"], involved["name"]) == (
        "FailedCreate", "Warning", "Job", "train",
    )  # fmt: skip
    assert event["message"].endswith("cannot be created: 403 Forbidden: exceeded quota")
    facts = with_reason(unqueued_job(queue.cluster.get(ObjectKey(JOBS, NAMESPACE, "train"))), queue.events)
    assert (facts.reason, facts.message) == (NO_WORKLOAD, event["message"])


def test_a_job_that_the_api_server_does_not_start_gets_an_event_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another admission webhook can deny it. The Workload is admitted, so nothing else shows that the job waits."""
    cluster, denies = ModelCluster(), True
    send = cluster.send

    def reject(write: Write) -> Outcome:
        is_denied = denies and write.purpose == "start"
        return Outcome("rejected", message="403 Forbidden: denied") if is_denied else send(write)

    monkeypatch.setattr(cluster, "send", reject)
    queue = ReportedQueue(cluster, NOW)
    cluster.submit("train", 2)
    for _ in range(4):
        queue.tick(60.0)
    [failed] = [event for event in queue.events if event["reason"] == "FailedUpdate"]
    assert (failed["type"], failed["involvedObject"]["name"]) == ("Warning", "train")
    assert failed["message"] == "Job train cannot be changed (start): 403 Forbidden: denied"
    denies = False
    queue.tick(60.0)
    assert not cluster.get(ObjectKey(JOBS, NAMESPACE, "train"))["spec"]["suspend"]


def test_a_job_whose_start_is_delayed_gets_an_event_and_others_still_learn_why_they_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An admission webhook of one namespace hangs, so the outcomes of many starts remain unknown."""
    cluster, delayed = ModelCluster(), [f"delayed-{i}" for i in range(MAX_IN_FLIGHT)]
    queue = ReportedQueue(cluster, NOW)
    cluster.submit("train", 2)
    writes = [Write(Verb.MERGE_PATCH, ObjectKey(JOBS, NAMESPACE, name), "start") for name in ("train", *delayed)]
    queue.tick()
    for write in writes[1:]:
        assert queue.controller.claim(write)
    unknown = Outcome("unknown", message="500 InternalError: failed calling webhook")
    cluster.submit("waits", 60)
    queue.tick(60.0)
    assert not [event for event in queue.events if event["involvedObject"]["name"] == "waits"]
    for write in writes:
        queue.reporter.delay_write(write, unknown, queue.now)
    [failed] = [event for event in queue.events if event["reason"] == "FailedUpdate"]
    assert (failed["type"], failed["involvedObject"]["name"]) == ("Warning", "train")
    assert failed["message"] == "Job train cannot be changed (start): 500 InternalError: failed calling webhook"
    queue.tick(60.0)
    assert [event["reason"] for event in queue.events if event["involvedObject"]["name"] == "waits"] == ["Pending"]


def test_an_invalid_pod_group_gets_an_event_at_one_of_its_pods() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    pods = [queued_pod("b", group="pods", total=2), queued_pod("a", group="pods", total=3)]
    for pod in pods:
        pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "l"
        queue.cluster.create(PODS, NAMESPACE, pod["metadata"]["name"], **pod)
    for _ in range(5):
        queue.tick(1.0)
    (event,) = queue.events
    assert event["reason"] == "InvalidPod"
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Pod", "a")
    assert "pod b has '2', pod a of its group '3'" in event["message"]
    total = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    queue.cluster.change(ObjectKey(PODS, NAMESPACE, "a"), {"metadata": {"annotations": total}})
    queue.tick(1.0)
    assert not queue.reporter.snapshot.invalid


def test_a_pod_group_without_all_of_its_pods_gets_an_event() -> None:
    """Kueue emits ErrWorkloadCompose. No Workload exists whose condition could state it."""
    queue = ReportedQueue(ModelCluster(), NOW)
    for name in ("b", "a"):
        pod = queued_pod(name, group="pods", total=3)
        queue.cluster.create(PODS, NAMESPACE, name, **pod)
    for _ in range(3):
        queue.tick(1.0)
    (event,) = queue.events
    assert (event["reason"], event["type"], event["involvedObject"]["name"]) == ("Pending", "Normal", "a")
    assert event["message"] == "the pod group has 2 of its 3 pods; it is queued once the others exist"
    queue.cluster.create(PODS, NAMESPACE, "c", **queued_pod("c", group="pods", total=3))
    queue.tick(1.0)
    assert not queue.controller.not_queued


@pytest.mark.parametrize("totals", [(2, 3), (3, 3)])
def test_a_deleted_pod_group_leaves_no_problem_behind(totals: tuple[int, int]) -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    for name, total in zip("ab", totals, strict=True):
        queue.cluster.create(PODS, NAMESPACE, name, **queued_pod(name, group="pods", total=total))
    queue.tick(1.0)
    assert queue.controller.invalid or queue.controller.not_queued
    for name in "ab":
        queue.cluster.change(ObjectKey(PODS, NAMESPACE, name), {"metadata": {"finalizers": []}})
        queue.cluster.delete(ObjectKey(PODS, NAMESPACE, name))
    queue.tick(1.0)
    assert not queue.controller.invalid
    assert not queue.controller.not_queued


def test_a_violated_limit_range_replaces_the_reason_for_the_wait() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.cluster.submit("a", 6)
    queue.tick(1.0)
    queue.cluster.submit("b", 4, at=1)
    for _ in range(30):
        queue.tick(1.0)
    before = find_condition(workload_of(queue.cluster, "b"), "QuotaReserved") or {}
    queue.cluster.create(LIMIT_RANGES, NAMESPACE, "r", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
    for _ in range(70):
        queue.tick(1.0)
    told = find_condition(workload_of(queue.cluster, "b"), "QuotaReserved") or {}
    assert (before["reason"], told["reason"]) == ("WaitingForQuota", "Misconfigured")
    assert told["message"].endswith("containers[0]: cpu: requests must not be above the limitRange max")


def test_a_standby_replica_writes_no_events() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.cluster.submit("a", 6)
    queue.controller.lead(False)
    for _ in range(30):
        queue.tick(1.0)
    assert not queue.writes
    assert not queue.events
    assert not queue.reporter.snapshot.leads
    assert queue.reporter.snapshot.at == NOW + 30


def test_metrics_count_the_life_of_workloads() -> None:
    queue = ReportedQueue(ModelCluster(preemption={"withinClusterQueue": "LowerPriority"}), NOW)
    queue.cluster.submit("low", 6, priority="low")
    queue.tick(3.0)
    high = queue.cluster.submit("high", 6, priority="high")
    queue.tick(2.0)
    queue.cluster.complete(high)
    queue.tick(2.0)

    def value(name: str, **labels: str) -> float | None:
        return queue.metrics.registry.get_sample_value(name, labels)

    assert value("kueue_quota_reserved_workloads_total", cluster_queue="q") == 3
    assert value("kueue_admitted_workloads_total", cluster_queue="q") == 3
    preempted = {"cluster_queue": "q", "reason": "Preempted"}
    assert value("kueue_evicted_workloads_total", underlying_cause="", **preempted) == 1
    assert value("kueue_workload_eviction_latency_seconds_count", **preempted) == 1
    assert value("kueue_admitted_until_ready_wait_time_seconds_count", cluster_queue="q") == 3
    assert value("kueue_ready_wait_time_seconds_count", cluster_queue="q") == 3
    assert value("kueue_finished_workloads_total", cluster_queue="q") == 1
    assert value("kueue_admission_wait_time_seconds_count", cluster_queue="q") == 3
    assert value("kueue_quota_reserved_wait_time_seconds_sum", cluster_queue="q") == 3 + 5 + 2
    assert value("kueue_admitted_active_workloads", cluster_queue="q") == 1
    assert value("kueue_pending_workloads", cluster_queue="q", status="active") == 0
    usage = {"cohort": "", "cluster_queue": "q", "flavor": "f", "resource": "cpu"}
    assert value("kueue_cluster_queue_resource_usage", **usage) == 6
    assert value("kueue_cluster_queue_nominal_quota", **usage) == 8
    assert value("kueue_cluster_queue_borrowing_limit", **usage) == float("inf")
    assert value("kueue_cluster_queue_status", cluster_queue="q", status="active") == 1
    assert value("zonewise_leader") == 1


def test_a_deactivation_is_one_reason_with_different_causes() -> None:
    """Dashboards of Kueue group by reason."""
    queue = ReportedQueue(ModelCluster(), NOW)
    job = queue.cluster.submit("j", 2)
    queue.cluster.change(job, {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}})
    queue.tick(1.0)
    queue.tick(90.0)
    labels = {"cluster_queue": "q", "reason": "Deactivated"}
    value = queue.metrics.registry.get_sample_value
    cause = {"underlying_cause": "MaximumExecutionTimeExceeded"}
    assert value("kueue_evicted_workloads_total", labels | cause) == 1
    assert value("kueue_workload_eviction_latency_seconds_count", labels) == 1


def test_metrics_measure_the_wait_for_admission_checks() -> None:
    cluster = ModelCluster(admissionChecksStrategy={"admissionChecks": [{"name": "licence"}]})
    cluster.add_check("licence")
    queue = ReportedQueue(cluster, NOW)
    queue.cluster.submit("j", 2)
    queue.tick(3.0)
    (key,) = [key for key in queue.cluster.objects if key.resource.kind == "Workload"]
    queue.cluster.change(key, {"status": {"admissionChecks": [{"name": "licence", "state": "Ready"}]}})
    queue.tick(40.0)
    labels = {"cluster_queue": "q"}
    metric = "kueue_admission_checks_wait_time_seconds_sum"
    assert queue.metrics.registry.get_sample_value(metric, labels) == 40


@pytest.mark.parametrize("failure", ["stale", "rejected", "not claimed"])
def test_a_reason_whose_write_fails_is_written_later(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    queue.cluster.submit("a", 6)
    queue.tick()
    queue.cluster.submit("b", 6, at=1)
    failed: list[Write] = []
    claim = queue.controller.claim

    def claim_later(write: Write) -> bool:
        if write.purpose == EXPLAIN_PURPOSE and not failed:
            failed.append(write)
            if failure == "not claimed":
                return False
        return claim(write)

    def end_as_failed(write: Write, outcome: Outcome, now: float) -> bool:
        return end_write(write, outcome if write not in failed else Outcome(failure), now)  # pyright: ignore[reportArgumentType]

    def send_later(write: Write) -> Outcome:
        return Outcome("done") if write in failed else send(write)

    end_write, send = queue.reporter.end_write, queue.cluster.send
    monkeypatch.setattr(queue.controller, "claim", claim_later)
    monkeypatch.setattr(queue.cluster, "send", send_later)
    monkeypatch.setattr(queue.reporter, "end_write", end_as_failed)
    for _ in range(600):
        queue.tick(1.0)
    condition = find_condition(workload_of(queue.cluster, "b"), "QuotaReserved")
    assert len(failed) == 1
    assert condition is not None
    assert "needs 6 CPUs" in condition["message"]
