"""A Job that depends on others has no Workload until these have ended."""

from __future__ import annotations

from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION, FULFILLED_ANNOTATION

NOW = 1_767_225_600.0


def queue_with_dependency(text: str) -> tuple[ReportedQueue, ObjectKey, ObjectKey]:
    """Return a queue, a Job that runs, and one that depends on it."""
    queue = ReportedQueue(ModelCluster(), NOW)
    first = queue.cluster.submit("first", 1)
    queue.tick(1.0)
    second = ObjectKey(JOBS, NAMESPACE, "second")
    queue.cluster.submit("second", 1)
    queue.cluster.change(second, {"metadata": {"annotations": {DEPENDENCY_ANNOTATION: text}}})
    queue.tick(1.0)
    return queue, first, second


def owners(queue: ReportedQueue) -> list[str]:
    return sorted(entry["metadata"]["ownerReferences"][0]["name"] for entry in queue.cluster.workloads())


def events_of(queue: ReportedQueue, job: str) -> list[tuple[str, str]]:
    events = [event for event in queue.events if event["involvedObject"]["name"] == job]
    return [(event["reason"], event["message"]) for event in events]


def test_a_dependent_job_is_queued_once_its_dependency_has_succeeded() -> None:
    queue, first, second = queue_with_dependency("afterok:first")
    assert owners(queue) == ["first"]
    assert queue.cluster.get(second)["spec"]["suspend"]
    queue.cluster.complete(first)
    queue.tick(1.0)
    assert owners(queue) == ["first", "second"]
    assert not queue.cluster.get(second)["spec"]["suspend"]
    assert not queue.controller.not_queued


def test_a_dependent_job_never_starts_if_its_dependency_ends_otherwise() -> None:
    queue, first, _ = queue_with_dependency("afternotok:first")
    queue.cluster.complete(first)
    queue.tick(1.0)
    assert owners(queue) == ["first"]


def test_an_event_states_why_a_dependent_job_waits() -> None:
    """The Job has no Workload whose condition could state it. A new reason is a new Event."""
    queue, first, _ = queue_with_dependency("afternotok:first")
    for _ in range(3):
        queue.tick(2.0)
    assert events_of(queue, "second") == [("Pending", "waits for Job first to fail")]
    queue.cluster.complete(first)
    for _ in range(3):
        queue.tick(2.0)
    never = "Job first has succeeded, so it never starts: `zonewise cancel` removes it"
    assert events_of(queue, "second") == [("Pending", "waits for Job first to fail"), ("Pending", never)]


def test_a_dependent_job_is_queued_once_its_user_removes_the_dependency() -> None:
    queue, _, second = queue_with_dependency("afterok:missing")
    assert owners(queue) == ["first"]
    queue.cluster.change(second, {"metadata": {"annotations": {DEPENDENCY_ANNOTATION: None}}})
    queue.tick(1.0)
    assert owners(queue) == ["first", "second"]


def test_a_fulfilled_dependency_stays_fulfilled_if_its_job_is_deleted() -> None:
    """Its ttlSecondsAfterFinished may delete it while the other dependencies are not fulfilled yet."""
    queue, first, second = queue_with_dependency("afterok:first:third")
    queue.cluster.complete(first)
    queue.tick(1.0)
    assert queue.cluster.get(second)["metadata"]["annotations"][FULFILLED_ANNOTATION].endswith(" afterok:first")
    queue.cluster.delete(first)
    third = queue.cluster.submit("third", 1)
    queue.tick(1.0)
    assert owners(queue) == ["third"]
    restarted = ReportedQueue(queue.cluster, NOW + 60)
    queue.cluster.complete(third)
    restarted.tick(1.0)
    assert owners(restarted) == ["second", "third"]


def test_a_dependent_job_that_loses_its_workload_is_queued_again() -> None:
    queue, first, second = queue_with_dependency("afterok:first")
    queue.cluster.complete(first)
    queue.tick(1.0)
    queue.cluster.delete(first)
    [workload] = queue.cluster.workloads()
    queue.cluster.delete(ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"]))
    for _ in range(5):
        queue.tick(1.0)
    assert owners(queue) == ["second"]
    assert not queue.cluster.get(second)["spec"]["suspend"]


def test_an_invalid_dependency_is_reported() -> None:
    queue, _, _ = queue_with_dependency("soon")
    queue.tick(2.0)
    [message] = queue.controller.invalid.values()
    assert "metadata.annotations.zonewise.dev/dependency: 'soon' is not a dependency" in message
    assert owners(queue) == ["first"]
