"""Overruns are reported once, to the job and to the jobs that wait for it."""

from __future__ import annotations

from typing import Any

from support.model_cluster import ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_scheduler.controller.status.overruns import GRACE

Json = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z, when the jobs are created
RUN = 3600.0


def reported_events(queue: ReportedQueue, reason: str) -> list[tuple[str, str]]:
    return [(each["involvedObject"]["name"], each["message"]) for each in queue.events if each["reason"] == reason]


def overrunning(queue: ReportedQueue, *others: str) -> None:
    """Run a job that declares RUN and others that wait for it, until the moment before the overrun is reported."""
    job = queue.cluster.submit("long", 6)
    queue.cluster.change(job, {"metadata": {"annotations": {"zonewise.dev/max-run-seconds": str(int(RUN))}}})
    queue.tick()
    for at, name in enumerate(others, 1):
        queue.cluster.submit(name, 6, at=at)
    for _ in range(30):
        queue.tick(1.0)
    queue.tick(RUN - 30.0)
    queue.tick(GRACE - 1.0)
    assert not reported_events(queue, "RunTimeExceeded"), "its pods still end"


def test_an_overrun_is_reported_once_to_the_job_and_those_that_wait_for_it() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    overrunning(queue, "a", "b")
    for _ in range(200):
        queue.tick(1.0)
    assert reported_events(queue, "RunTimeExceeded") == [
        ("long", "runs longer than the 1 h that it declares; 2 workloads wait for it")
    ]
    delayed = reported_events(queue, "StartDelayed")
    assert [name for name, _ in delayed] == ["a", "b"]
    assert "runs longer than the 1 h that it declares" in delayed[0][1]
    assert "long" in delayed[0][1]


def test_an_overrun_for_which_no_job_waits_is_reported_only_to_the_job() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    overrunning(queue)
    queue.tick(1.0)
    assert reported_events(queue, "RunTimeExceeded") == [("long", "runs longer than the 1 h that it declares")]
    assert not reported_events(queue, "StartDelayed")


def test_no_overrun_is_reported_for_a_job_that_ends_in_time() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    overrunning(queue, "a")
    job = next(key for key in queue.cluster.jobs if key.name == "long")
    queue.cluster.complete(job)
    for _ in range(60):
        queue.tick(1.0)
    assert not reported_events(queue, "RunTimeExceeded")


def test_the_overrun_of_each_run_is_reported() -> None:
    queue = ReportedQueue(ModelCluster(), NOW)
    overrunning(queue)
    queue.tick(1.0)
    (workload,) = [key for key in queue.cluster.objects if key.resource.kind == "Workload"]
    queue.cluster.change(workload, {"spec": {"active": False}})
    queue.tick(1.0)
    queue.cluster.change(workload, {"spec": {"active": True}})
    queue.tick(1.0)
    queue.tick(RUN)
    assert len(reported_events(queue, "RunTimeExceeded")) == 1
    queue.tick(GRACE + 600.0)
    assert len(reported_events(queue, "RunTimeExceeded")) == 2
