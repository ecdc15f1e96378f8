"""A user deactivates a waiting Workload, as `zonewise hold` does. It is Evicted, and starts over once it is active."""

from __future__ import annotations

from typing import Any

from support.controller_stories import ControllerStory
from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true

Json = dict[str, Any]


def set_active(story: ControllerStory, job: str, *, active: bool) -> None:
    story.cluster.change(key_of(story, job), {"spec": {"active": active}})
    story.settle()


def key_of(story: ControllerStory, job: str) -> ObjectKey:
    [name] = [
        obj["metadata"]["name"]
        for obj in story.cluster.workloads()
        if obj["metadata"]["ownerReferences"][0]["name"] == job
    ]
    return ObjectKey(WORKLOADS, NAMESPACE, name)


def workload_of(story: ControllerStory, job: str) -> Json:
    return story.cluster.get(key_of(story, job))


def test_a_pending_workload_that_is_deactivated_is_evicted_without_an_event() -> None:
    story = ControllerStory(ModelCluster())
    running = story.cluster.submit("running", 8)
    story.settle()
    job = story.cluster.submit("job", 8, at=1)
    story.settle()
    set_active(story, "job", active=False)
    evicted = find_condition(workload_of(story, "job"), "Evicted") or {}
    assert (evicted["status"], evicted["reason"]) == ("True", "Deactivated")
    assert evicted["message"] == "The workload is deactivated"
    assert "evict [Workload]" not in story.purposes(), "the job has lost nothing"
    set_active(story, "job", active=True)
    assert story.cluster.get(job)["spec"]["suspend"]
    story.cluster.complete(running)
    story.settle()
    assert not story.cluster.get(job)["spec"]["suspend"]
    assert not is_true(workload_of(story, "job"), "Evicted")


def test_a_deactivation_resets_the_count_of_requeues() -> None:
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 8)
    story.cluster.jobs[job].has_ready_pods = False
    story.settle()
    story.settle_until(lambda: bool(workload_of(story, "job")["status"].get("requeueState")))
    set_active(story, "job", active=False)
    assert not workload_of(story, "job")["status"].get("requeueState")
    before = story.now
    set_active(story, "job", active=True)
    assert story.cluster.starts == {"job": 2}, "it has no backoff left"
    assert story.now < before + 60
