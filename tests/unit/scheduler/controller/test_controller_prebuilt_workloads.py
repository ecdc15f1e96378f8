"""A job that names its Workload runs with that one, so its quota is counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.prebuilt import PREBUILT_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

NOW = 1_767_225_600.0
PREBUILT = ObjectKey(WORKLOADS, NAMESPACE, "ready-made")
JOB = ObjectKey(JOBS, NAMESPACE, "job")


@pytest.fixture
def queue() -> ReportedQueue:
    """Return a queue with 8 CPUs."""
    return ReportedQueue(ModelCluster(), NOW)


def submit(queue: ReportedQueue, name: str = "job", cpus: int = 6, *, field: str = "annotations") -> ObjectKey:
    """Create a Job that names the Workload `ready-made`."""
    key = queue.cluster.submit(name, cpus)
    queue.cluster.change(key, {"metadata": {field: {PREBUILT_WORKLOAD: PREBUILT.name}}})
    return key


def create_workload(queue: ReportedQueue, cpus: int = 6) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "l", "podSets": [{"name": "main", "count": 1, "template": template}]}
    queue.cluster.create(WORKLOADS, NAMESPACE, PREBUILT.name, spec=spec)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_job_runs_with_the_workload_that_it_names(queue: ReportedQueue, field: str) -> None:
    create_workload(queue)
    job = submit(queue, field=field)
    queue.tick(1.0)
    [workload] = queue.cluster.workloads()
    assert workload["metadata"]["name"] == PREBUILT.name
    [owner] = workload["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("job", queue.cluster.get(job)["metadata"]["uid"])
    assert workload["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": owner["uid"]}
    assert not queue.cluster.get(job)["spec"]["suspend"]
    queue.cluster.complete(job)
    queue.tick(1.0)
    assert is_true(queue.cluster.get(PREBUILT), "Finished")


def test_a_job_waits_for_the_workload_that_it_names(queue: ReportedQueue) -> None:
    job = submit(queue)
    queue.tick(1.0)
    assert not queue.cluster.workloads()
    assert queue.controller.invalid[job] == f"{PREBUILT_WORKLOAD}: Workload ns/ready-made does not exist"
    create_workload(queue)
    queue.tick(1.0)
    assert not queue.cluster.get(job)["spec"]["suspend"]
    assert not queue.controller.invalid


def test_a_workload_that_does_not_match_its_job_ends(queue: ReportedQueue) -> None:
    create_workload(queue, cpus=2)
    job = submit(queue)
    queue.tick(1.0)
    assert (find_condition(queue.cluster.get(PREBUILT), "Finished") or {})["reason"] == "OutOfSync"
    assert queue.cluster.get(job)["spec"]["suspend"]


def test_two_jobs_do_not_run_with_one_workload(queue: ReportedQueue) -> None:
    create_workload(queue, cpus=2)
    first = submit(queue, "first", 2)
    queue.tick(1.0)
    second = submit(queue, "second", 2)
    queue.tick(1.0)
    assert not queue.cluster.get(first)["spec"]["suspend"]
    assert queue.cluster.get(second)["spec"]["suspend"]
    assert queue.controller.invalid[second].endswith("belongs to another job")
    assert len(queue.cluster.workloads()) == 1


def lose(queue: ReportedQueue) -> None:
    queue.cluster.delete(PREBUILT)


def resize(queue: ReportedQueue) -> None:
    queue.cluster.change(JOB, {"spec": {"parallelism": 3, "completions": 3}})


@pytest.mark.parametrize("edit", [lose, resize])
def test_a_running_job_stops_as_submitted_once_its_workload_is_gone_or_differs(
    queue: ReportedQueue, edit: Callable[[ReportedQueue], None]
) -> None:
    create_workload(queue, cpus=2)
    job = submit(queue, cpus=2)
    queue.tick(1.0)
    assert queue.cluster.get(job)["spec"]["template"]["spec"]["nodeSelector"] == {"flavor": "f"}
    edit(queue)
    queue.tick(1.0)
    assert queue.cluster.get(job)["spec"]["suspend"]
    assert "nodeSelector" not in queue.cluster.get(job)["spec"]["template"]["spec"]
    assert [workload["metadata"]["name"] for workload in queue.cluster.workloads()] in ([], [PREBUILT.name])
    probe = queue.cluster.submit("probe", 8, at=9)
    queue.tick(1.0)
    assert not queue.cluster.get(probe)["spec"]["suspend"], "quota has leaked"


def test_a_pending_job_that_names_a_workload_gives_up_its_own(queue: ReportedQueue) -> None:
    running = queue.cluster.submit("running", 8)
    queue.tick(1.0)
    job = queue.cluster.submit("job", 6, at=1)
    queue.tick(1.0)
    create_workload(queue)
    queue.cluster.change(job, {"metadata": {"annotations": {PREBUILT_WORKLOAD: PREBUILT.name}}})
    queue.tick(1.0)
    assert sorted(obj["metadata"]["ownerReferences"][0]["name"] for obj in queue.cluster.workloads()) == [
        "job",
        "running",
    ]
    queue.cluster.complete(running)
    queue.tick(1.0)
    assert not queue.cluster.get(job)["spec"]["suspend"]
    assert is_true(queue.cluster.get(PREBUILT), "Admitted")
