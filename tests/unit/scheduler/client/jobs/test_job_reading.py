"""The list of jobs: queued jobs, jobs that are not queued, and jobs that wait for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from zonewise_common.kube.resources import EVENTS, JOBS, WORKLOADS
from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable
from zonewise_scheduler.client.jobs.job_facts import read_job
from zonewise_scheduler.client.jobs.job_reading import NamedJobs, read_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.session import Session

Json = dict[str, Any]


class FakeSession:
    """A session with Jobs, Workloads and an Event, but without a read API."""

    scope = namespace = "ns"
    all_namespaces = False

    def __init__(self, jobs: list[Json], workloads: list[Json]) -> None:
        involved = {"kind": "Job", "name": "invalid", "uid": "u-invalid"}
        invalid: Json = {"reason": "InvalidJob", "message": "metadata: bad", "involvedObject": involved}
        self.objects = {JOBS: jobs, WORKLOADS: workloads, EVENTS: [invalid]}
        self.read_api = self

    def list(self, resource: Resource, *, scope: str) -> list[Json]:
        assert scope == "ns"
        return self.objects[resource]

    def read(self, resource: Resource, read: Callable[[Json], object], *, scope: str) -> list[object]:
        return [value for value in map(read, self.list(resource, scope=scope)) if value is not None]

    def find(self, resource: Resource, name: str, *, namespace: str) -> Json | None:
        assert namespace == "ns"
        return next((obj for obj in self.objects[resource] if obj["metadata"]["name"] == name), None)

    def workloads(self, _: str) -> None:
        raise ReadApiUnavailable("it is down")


def job(name: str, dependency: str = "", queue: str = "", owner: str = "", **status: Any) -> Json:
    metadata: Json = {"namespace": "ns", "name": name, "uid": f"u-{name}"}
    metadata["annotations"] = {"zonewise.dev/dependency": dependency} if dependency else {}
    metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    metadata["ownerReferences"] = [{"kind": owner, "name": "owner", "controller": True}] if owner else []
    return {"metadata": metadata, "spec": {"suspend": True, "parallelism": 2}, "status": status}


def workload(name: str) -> Json:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": name, "uid": f"u-{name}"}
    return {"metadata": {"namespace": "ns", "name": f"w-{name}", "ownerReferences": [owner]}}


def listed(jobs: list[Json], workloads: list[Json]) -> dict[str, str]:
    """Return the reasons of the listed jobs by name."""
    facts, notes = read_jobs(cast("Session", FakeSession(jobs, workloads)))
    assert "it is down" in notes[0]
    assert len({each.name for each in facts}) == len(facts)
    return {each.name: each.reason for each in facts}


def test_jobs_that_wait_for_others_are_listed() -> None:
    failed = job("failed", conditions=[{"type": "Failed", "status": "True"}])
    jobs = [failed, job("plain"), job("waits", "afterany:plain"), job("never", "afterok:failed")]
    assert listed(jobs, []) == {"waits": "Dependency", "never": "DependencyNeverSatisfied"}


def test_jobs_that_are_not_queued_are_listed_with_the_reason() -> None:
    """Jobs that have ended, have no queue, or belong to another object of a queue, are not listed."""
    ended = job("ended", queue="lq", conditions=[{"type": "Complete", "status": "True"}])
    jobs = [ended, job("other"), job("part", queue="lq", owner="JobSet"), job("new", queue="lq")]
    facts, _ = read_jobs(cast("Session", FakeSession([*jobs, job("invalid", queue="lq")], [])))
    assert [(each.name, each.local_queue, each.pods, each.reason, each.message) for each in facts] == [
        ("invalid", "lq", 2, "InvalidJob", "the controller does not queue it: metadata: bad"),
        ("new", "lq", 2, "NoWorkload", "names LocalQueue lq, and has no Workload yet: does `zonewise controller` run?"),
    ]


def test_a_queued_job_is_listed_once() -> None:
    """The Job that it depends on may have been deleted by then."""
    assert listed([job("a", "afterok:deleted")], [workload("a")]) == {"a": ""}


def test_earlier_admissions_are_subtracted_from_the_walltime() -> None:
    spent = {"spec": {"maximumExecutionTimeSeconds": 600}, "status": {"accumulatedPastExecutionTimeSeconds": 240}}
    assert read_job({"metadata": {"name": "w"}, **spent}).walltime == 360
    assert read_job({"metadata": {"name": "w"}}).walltime is None


@pytest.mark.parametrize(
    ("uid", "conditions", "workload_name"),
    [
        ("u-2", [], None),
        ("u-1", [], "w-1"),
        ("u-2", [{"type": "Complete", "status": "True"}], "w-1"),
    ],
)
def test_a_finished_job_does_not_hide_one_without_a_workload(
    uid: str, conditions: list[Json], workload_name: str | None
) -> None:
    """A finished Workload of another kind or earlier Job is used only if it is the Job's own, or the Job has ended."""
    owner = {"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2", "name": "train", "uid": "u-1"}
    finished = {
        "metadata": {"namespace": "ns", "name": "w-1", "ownerReferences": [owner]},
        "status": {"conditions": [{"type": "Finished", "status": "True"}]},
    }
    unqueued = job("train", conditions=conditions)
    unqueued["metadata"]["uid"] = uid
    named = NamedJobs(cast("Session", FakeSession([unqueued], [finished]))).find("train")
    assert (named and named.workload) == workload_name
