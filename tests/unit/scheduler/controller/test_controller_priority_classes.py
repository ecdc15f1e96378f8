"""A new value of a WorkloadPriorityClass applies to the pending and running Workloads of the class."""

from __future__ import annotations

from support.controller_stories import ControllerStory
from support.model_cluster import ModelCluster
from support.queue_stories import PREEMPTING
from zonewise_common.kube.resources import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey

LOW = ObjectKey(WORKLOAD_PRIORITY_CLASSES, "", "low")


def workload_of(story: ControllerStory, job: ObjectKey) -> ObjectKey:
    [name] = [
        obj["metadata"]["name"]
        for obj in story.cluster.workloads()
        if obj["metadata"]["ownerReferences"][0]["name"] == job.name
    ]
    return ObjectKey(WORKLOADS, job.namespace, name)


def priority_of(story: ControllerStory, job: ObjectKey) -> int:
    return story.cluster.get(workload_of(story, job))["spec"]["priority"]


def is_held(story: ControllerStory, job: ObjectKey) -> bool:
    return story.cluster.get(job)["spec"]["suspend"]


def test_a_pending_job_preempts_with_the_new_value_of_its_class() -> None:
    story = ControllerStory(ModelCluster(**PREEMPTING))
    running = story.cluster.submit("running", 8)
    low = story.cluster.submit("low", 8, priority="low", at=1)
    story.cluster.change(LOW, {"value": -1})
    story.settle()
    assert (is_held(story, running), is_held(story, low)) == (False, True)
    story.cluster.change(LOW, {"value": 5})
    story.settle()
    assert (priority_of(story, running), priority_of(story, low)) == (0, 5)
    assert (is_held(story, running), is_held(story, low)) == (True, False)
    story.cluster.change(LOW, {"value": -5})
    story.settle()
    assert priority_of(story, low) == -5, "it runs"
    assert (is_held(story, running), is_held(story, low)) == (False, True)


def test_a_priority_that_a_user_has_set_remains_until_the_class_changes() -> None:
    story = ControllerStory(ModelCluster(**PREEMPTING))
    low = story.cluster.submit("low", 8, priority="low")
    story.settle()
    story.cluster.change(workload_of(story, low), {"spec": {"priority": 7}})
    story.settle()
    assert priority_of(story, low) == 7
    story.cluster.change(LOW, {"value": 2})
    story.settle()
    assert priority_of(story, low) == 2


def test_an_ended_workload_keeps_its_priority() -> None:
    story = ControllerStory(ModelCluster(**PREEMPTING))
    low = story.cluster.submit("low", 8, priority="low")
    story.settle()
    story.cluster.complete(low)
    story.settle()
    story.cluster.change(LOW, {"value": 2})
    story.settle()
    assert priority_of(story, low) == 1
