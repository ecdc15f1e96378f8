"""Jobs that depend on others have no Workload until these have ended."""

from __future__ import annotations

from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION

NOW = 1_767_225_600.0


def queue_with_dependency(text: str) -> tuple[ReportedQueue, ObjectKey, ObjectKey]:
    """A Job that runs, and one that depends on it."""
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


def test_it_is_queued_once_the_other_has_succeeded() -> None:
    queue, first, second = queue_with_dependency("afterok:first")
    assert owners(queue) == ["first"]
    assert queue.cluster.get(second)["spec"]["suspend"]
    queue.cluster.complete(first)
    queue.tick(1.0)
    assert owners(queue) == ["first", "second"]
    assert not queue.cluster.get(second)["spec"]["suspend"]


def test_it_never_starts_where_the_other_ends_otherwise() -> None:
    queue, first, _ = queue_with_dependency("afternotok:first")
    queue.cluster.complete(first)
    queue.tick(1.0)
    assert owners(queue) == ["first"]


def test_it_is_queued_once_its_user_removes_the_dependency() -> None:
    queue, _, second = queue_with_dependency("afterok:missing")
    assert owners(queue) == ["first"]
    queue.cluster.change(second, {"metadata": {"annotations": {DEPENDENCY_ANNOTATION: None}}})
    queue.tick(1.0)
    assert owners(queue) == ["first", "second"]


def test_an_invalid_dependency_is_reported() -> None:
    queue, _, _ = queue_with_dependency("soon")
    queue.tick(2.0)
    [message] = queue.controller.invalid.values()
    assert "metadata.annotations.zonewise.dev/dependency: 'soon' is not a dependency" in message
    assert owners(queue) == ["first"]
