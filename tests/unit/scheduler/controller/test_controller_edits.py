"""A user changes a Job or its Workload before every single write of a scenario.

After any edit the queue settles, and no Job of the queue is lost. Its own starts never exceed the quota, and all quota
is free in the end. Pods take three steps to terminate; for as long, nothing else uses their quota.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from support.controller_stories import ControllerStory
from support.live_queue import LiveQueue
from support.model_cluster import CREATED, NAMESPACE, QUEUE_LABEL, ModelCluster
from support.profiles import share
from support.queue_stories import PREEMPTING
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import is_true

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.types import Write

Json = dict[str, Any]

LOW = ObjectKey(JOBS, NAMESPACE, "low")


class NoEdit(Exception):
    """The object already has the values of the edit, so the scenario would be that without an edit."""


def suspend(story: ControllerStory) -> None:
    story.cluster.change(LOW, {"spec": {"suspend": True}})


def resume(story: ControllerStory) -> None:
    story.may_exceed_quota = True
    story.cluster.change(LOW, {"spec": {"suspend": False}})


def delete(story: ControllerStory) -> None:
    story.cluster.delete(LOW)


def submit_anew(story: ControllerStory) -> None:
    """Delete the Job and create another one of the same name that needs less."""
    story.cluster.delete(LOW)
    story.cluster.starts.pop("low", None)
    story.cluster.submit("low", 1, priority="low", at=7)


def run_fewer_pods(story: ControllerStory) -> None:
    story.cluster.change(LOW, {"spec": {"parallelism": 1}})


def run_more_pods(story: ControllerStory) -> None:
    story.may_exceed_quota = True
    story.cluster.change(LOW, {"spec": {"parallelism": 3, "completions": 3}})


def leave_the_queue(story: ControllerStory) -> None:
    story.cluster.change(LOW, {"metadata": {"labels": {QUEUE_LABEL: None}}})


def name_no_queue(story: ControllerStory) -> None:
    story.cluster.change(LOW, {"metadata": {"labels": {QUEUE_LABEL: "missing"}}})


def status_of(story: ControllerStory, key: ObjectKey) -> Json:
    return story.cluster.get(key).get("status") or {}


def each_workload(story: ControllerStory, change: Callable[[ObjectKey], None]) -> None:
    for obj in story.cluster.workloads():
        if obj["metadata"]["ownerReferences"][0]["name"] == "low":
            change(ObjectKey(WORKLOADS, NAMESPACE, obj["metadata"]["name"]))


def delete_workload(story: ControllerStory) -> None:
    each_workload(story, story.cluster.delete)


def deactivate(story: ControllerStory) -> None:
    each_workload(story, lambda key: story.cluster.change(key, {"spec": {"active": False}}))


def remove_admission(story: ControllerStory) -> None:
    each_workload(story, lambda key: story.cluster.change(key, {"status": {"admission": None}}))


def remove_reservation(story: ControllerStory) -> None:
    """Set the condition QuotaReserved to False, which only the queue may do."""

    def change(key: ObjectKey) -> None:
        conditions: list[Json] = status_of(story, key).get("conditions") or []
        changed = [{**item, "status": "False"} if item["type"] == "QuotaReserved" else item for item in conditions]
        story.cluster.change(key, {"status": {"conditions": changed}})

    each_workload(story, change)


def admit_elsewhere(story: ControllerStory) -> None:
    """Admit the Workload to a ClusterQueue that does not exist."""

    def change(key: ObjectKey) -> None:
        if status_of(story, key).get("admission"):
            story.cluster.change(key, {"status": {"admission": {"clusterQueue": "missing"}}})

    each_workload(story, change)


def remove_conditions(story: ControllerStory) -> None:
    each_workload(story, lambda key: story.cluster.change(key, {"status": {"conditions": []}}))


def remove_status(story: ControllerStory) -> None:
    each_workload(story, lambda key: story.cluster.change(key, {"status": None}))


def change_admission(story: ControllerStory) -> None:
    """Admit the Workload with another flavor, manually."""

    def change(key: ObjectKey) -> None:
        admission: Json | None = status_of(story, key).get("admission")
        pod_sets: list[Json] = [] if admission is None else admission["podSetAssignments"]
        for pod_set in pod_sets:
            pod_set["flavors"] = {"cpu": "missing"}
        story.cluster.change(key, {"status": {"admission": admission}})

    each_workload(story, change)


def finish_workload(story: ControllerStory) -> None:
    condition = {"type": "Finished", "status": "True", "reason": "User", "message": "", "lastTransitionTime": CREATED}
    each_workload(story, lambda key: story.cluster.change(key, {"status": {"conditions": [condition]}}))


def request_more(story: ControllerStory) -> None:
    """Change what each pod requests, as Kubernetes allows while a Job is suspended."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
    story.cluster.change(LOW, {"spec": {"template": {"spec": {"containers": containers}}}})


JOB_EDITS: tuple[Callable[[ControllerStory], None], ...] = (
    suspend, resume, delete, submit_anew, run_fewer_pods, run_more_pods, leave_the_queue, name_no_queue, deactivate,
)  # fmt: skip
WORKLOAD_EDITS: tuple[Callable[[ControllerStory], None], ...] = (
    delete_workload, remove_admission, remove_reservation, remove_conditions, remove_status, change_admission,
    admit_elsewhere, finish_workload,
)  # fmt: skip
"""Edits after which a Workload loses its quota while its Job runs."""


def play(edit: Callable[[ControllerStory], None], at: int, kill_after: int | None = None) -> int:
    """Run a preemption and a resumption with an edit before a write; return the number of writes. Raises NoEdit."""

    def edit_once(story: ControllerStory, _write: Write, number: int) -> None:
        nonlocal at
        if number == at and LOW in story.cluster.objects:
            at = -1
            before = story.cluster.listed()
            edit(story)
            if story.cluster.listed() == before and kill_after is None:
                raise NoEdit

    story = ControllerStory(ModelCluster(stop_steps=3, **PREEMPTING), kill_after, before_write=edit_once)
    cluster = story.cluster
    cluster.submit("low", 2, pods=2, priority="low")
    story.settle()
    high = cluster.submit("high", 6, priority="high", at=5)
    story.settle()
    assert not cluster.get(high)["spec"]["suspend"]
    cluster.complete(high)
    story.settle()
    end_all(story)
    writes = story.total_writes()
    probe = cluster.submit("probe", 8, at=9)
    story.settle()
    assert not cluster.get(probe)["spec"]["suspend"], "quota has leaked"
    assert len(story.queue.controller.feed.state.running) == 1
    return writes


def end_all(story: ControllerStory) -> None:
    """End the Jobs one by one; each Job that belongs to the queue must run."""
    for _ in range(4):
        runs = [key for key in story.cluster.jobs if not story.cluster.is_finished(key) and not is_held(story, key)]
        for key in runs:
            story.cluster.complete(key)
        story.settle()
    waiting = [key.name for key in story.cluster.jobs if not story.cluster.is_finished(key)]
    assert not waiting or edited_away(story), f"lost: {waiting}"


def is_held(story: ControllerStory, key: ObjectKey) -> bool:
    return bool(story.cluster.get(key)["spec"]["suspend"])


def edited_away(story: ControllerStory) -> bool:
    """Return whether the user has removed the Job from the queue, or ended or deactivated its Workload."""
    if story.cluster.get(LOW)["metadata"]["labels"].get(QUEUE_LABEL) != "l":
        return True
    workloads = [obj for obj in story.cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == "low"]
    return any(obj["spec"].get("active") is False or is_true(obj, "Finished") for obj in workloads)


@pytest.mark.parametrize("edit", [*JOB_EDITS, *WORKLOAD_EDITS], ids=lambda edit: edit.__name__)
def test_an_edit_before_any_write_loses_neither_jobs_nor_quota(edit: Callable[[ControllerStory], None]) -> None:
    for at in range(play(edit, -1)):
        with contextlib.suppress(NoEdit):
            play(edit, at)


def test_a_held_job_whose_workload_has_lost_its_admission_is_not_started(caplog: pytest.LogCaptureFixture) -> None:
    """The condition Admitted is still true until the controller has written that the quota is lost."""
    cluster = ModelCluster()
    job = cluster.submit("job", 2)
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: 1_800_000_000.0)
    queue.settle(cluster.sync_jobs)
    cluster.change(job, {"spec": {"suspend": True}})
    while cluster.sync_jobs():
        pass
    [workload] = [key for key in cluster.listed() if key.resource == WORKLOADS]
    cluster.change(workload, {"status": {"admission": None}})
    queue.step()
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    assert cluster.get(job)["spec"]["suspend"]
    queue.settle(cluster.sync_jobs)
    assert not cluster.get(job)["spec"]["suspend"]


def test_a_job_whose_admission_a_client_removes_does_not_recover_when_it_starts_again() -> None:
    """Otherwise podsRecoveryTimeout would count from the end of its earlier run (generatePodsReadyCondition)."""
    cluster, seconds = ModelCluster(), itertools.count(1_800_000_000)
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: float(next(seconds)))
    job = cluster.submit("job", 2)
    queue.settle(cluster.sync_jobs)
    api = cluster.jobs[job]
    api.has_ready_pods = False
    cluster.sync_jobs()
    queue.settle(cluster.sync_jobs)
    assert ready_reasons(cluster) == ["WaitForRecovery"]
    [workload] = [key for key in cluster.listed() if key.resource == WORKLOADS]
    cluster.change(workload, {"spec": {"active": False}, "status": {"admission": None}})
    queue.settle(cluster.sync_jobs)
    assert cluster.get(job)["spec"]["suspend"]
    assert ready_reasons(cluster) == ["WaitForStart"]
    cluster.change(workload, {"spec": {"active": True}})
    queue.settle(cluster.sync_jobs)
    assert not cluster.get(job)["spec"]["suspend"]
    assert ready_reasons(cluster) == ["WaitForStart"]


def ready_reasons(cluster: ModelCluster) -> list[str]:
    conditions = [entry for obj in cluster.workloads() for entry in obj["status"]["conditions"]]
    return [entry["reason"] for entry in conditions if entry["type"] == "PodsReady"]


@pytest.mark.parametrize("edit", JOB_EDITS, ids=lambda edit: edit.__name__)
def test_a_controller_that_is_killed_after_the_write_of_an_edited_object_loses_nothing(
    edit: Callable[[ControllerStory], None],
) -> None:
    """By default, half of the writes are tried with each edit, and all of them together."""
    for at in share(range(play(edit, -1)), 2, first=JOB_EDITS.index(edit) % 2):
        play(edit, at, kill_after=at + 1)


@pytest.mark.parametrize("edit", [run_fewer_pods, run_more_pods, request_more], ids=lambda edit: edit.__name__)
def test_a_pending_job_that_is_edited_keeps_its_position(edit: Callable[[ControllerStory], None]) -> None:
    """Its Workload is adapted and not replaced, so the job starts before one that was submitted later."""
    story = ControllerStory(ModelCluster(**PREEMPTING))
    cluster = story.cluster
    running = cluster.submit("running", 8, priority="low")
    story.settle()
    cluster.submit("low", 2, pods=2, priority="low", at=1)
    later = cluster.submit("later", 8, priority="low", at=2)
    story.settle()
    [before] = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == "low"]
    edit(story)
    story.settle()
    [after] = [obj for obj in cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == "low"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["podSets"] != before["spec"]["podSets"]
    assert "delete a Workload that does not match" not in story.purposes()
    cluster.complete(running)
    story.settle()
    assert [cluster.get(key)["spec"]["suspend"] for key in (LOW, later)] == [False, True]


def test_a_partially_admitted_job_restarts_with_fewer_pods_than_its_minimum_if_no_more_completions_are_left() -> None:
    cluster, seconds = ModelCluster(cpus=6, **PREEMPTING), itertools.count(1_800_000_000)
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: float(next(seconds)))
    job = cluster.submit("job", 1, pods=6, priority="low")
    cluster.change(job, {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "4"}}})
    queue.settle(cluster.sync_jobs)
    cluster.change(job, {"status": {"succeeded": 3, "active": 3, "ready": 3}})
    queue.settle()
    high = cluster.submit("high", 6, priority="high", at=1)
    queue.settle(cluster.sync_jobs)
    assert (cluster.get(job)["spec"]["suspend"], cluster.get(high)["spec"]["suspend"]) == (True, False)
    cluster.complete(high)
    queue.settle(cluster.sync_jobs)
    spec = cluster.get(job)["spec"]
    assert (spec["suspend"], spec["parallelism"], queue.controller.invalid) == (False, 3, {})
    cluster.submit("again", 6, priority="high", at=2)
    queue.settle(cluster.sync_jobs)
    spec = cluster.get(job)["spec"]
    assert (spec["suspend"], spec["parallelism"], queue.controller.invalid) == (True, 6, {})
