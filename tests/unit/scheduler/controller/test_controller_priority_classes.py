"""A new value of a WorkloadPriorityClass applies to the pending and running Workloads of the class."""

from __future__ import annotations

import pytest

from support.controller_stories import ControllerStory
from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.plain_pods import queued_pod
from support.queue_stories import PREEMPTING
from zonewise_common.kube.resources import PODS, PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
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


def test_a_job_whose_class_does_not_exist_starts_once_it_does() -> None:
    """The class is created later, for example because a tool applies it last."""
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 2, priority="late")
    story.settle()
    assert (is_held(story, job), story.cluster.workloads()) == (True, [])
    story.cluster.create(WORKLOAD_PRIORITY_CLASSES, "", "late", value=3)
    story.settle()
    assert (is_held(story, job), priority_of(story, job)) == (False, 3)


def test_a_job_whose_pods_name_a_missing_class_starts_once_it_exists() -> None:
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 2)
    story.cluster.change(job, {"spec": {"template": {"spec": {"priorityClassName": "late"}}}})
    story.settle()
    assert (is_held(story, job), story.cluster.workloads()) == (True, [])
    story.cluster.create(PRIORITY_CLASSES, "", "late", value=3)
    story.settle()
    assert (is_held(story, job), priority_of(story, job)) == (False, 3)


def test_a_pending_job_follows_its_label_once_the_class_exists() -> None:
    story = ControllerStory(ModelCluster())
    running = story.cluster.submit("running", 8)
    story.settle()
    job = story.cluster.submit("job", 8, priority="low", at=1)
    story.settle()
    story.cluster.change(job, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "late"}}})
    story.settle()
    story.cluster.create(WORKLOAD_PRIORITY_CLASSES, "", "late", value=3)
    story.settle()
    assert (is_held(story, running), is_held(story, job), priority_of(story, job)) == (False, True, 3)


@pytest.mark.parametrize("cpus", [2, 9])
def test_a_label_with_an_unknown_class_is_reported_and_does_not_stop_the_job(cpus: int) -> None:
    """Kueue emits WorkloadPriorityClassNotFound. The Workload keeps its priority until the class exists."""
    cluster = ModelCluster()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: 1_800_000_000.0)
    job = cluster.submit("job", cpus, priority="low")
    queue.settle()
    was_held = cluster.get(job)["spec"]["suspend"]
    cluster.change(job, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "late"}}})
    queue.settle()
    [problem] = queue.controller.invalid.values()
    assert problem.endswith("there is no such class: 'late'; the Workload keeps its priority")
    assert (cluster.get(job)["spec"]["suspend"], cluster.workloads()[0]["spec"]["priority"]) == (was_held, 1)
    cluster.create(WORKLOAD_PRIORITY_CLASSES, "", "late", value=3)
    queue.settle()
    assert (cluster.get(job)["spec"]["suspend"], cluster.workloads()[0]["spec"]["priority"]) == (was_held, 3)
    assert not queue.controller.invalid


def test_pods_with_an_unknown_class_are_reported_and_start() -> None:
    cluster = ModelCluster()
    pod = queued_pod("p", group="")
    labels = {"kueue.x-k8s.io/queue-name": "l", "kueue.x-k8s.io/priority-class": "low"}
    metadata = {**pod["metadata"], "labels": pod["metadata"]["labels"] | labels}
    key = cluster.create(PODS, NAMESPACE, "p", metadata=metadata, spec=pod["spec"], status=pod["status"])
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: 1_800_000_000.0)
    queue.settle()
    cluster.change(key, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "late"}}})
    queue.settle()
    assert [problem.rpartition(": ")[2] for problem in queue.controller.invalid.values()] == [
        "'late'; the Workload keeps its priority"
    ]


@pytest.mark.parametrize("group", ["", "g"])
def test_pods_whose_class_does_not_exist_start_once_it_does(group: str) -> None:
    cluster = ModelCluster()
    pod = queued_pod("p", group=group, total=1)
    metadata = {name: pod["metadata"][name] for name in ("annotations", "finalizers")}
    labels = {"kueue.x-k8s.io/queue-name": "l", "kueue.x-k8s.io/priority-class": "late"}
    metadata["labels"] = pod["metadata"]["labels"] | labels
    key = cluster.create(PODS, NAMESPACE, "p", metadata=metadata, spec=pod["spec"], status=pod["status"])
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: 1_800_000_000.0)
    queue.settle()
    assert cluster.workloads() == []
    cluster.create(WORKLOAD_PRIORITY_CLASSES, "", "late", value=3)
    queue.settle()
    assert {"name": "kueue.x-k8s.io/admission"} not in cluster.get(key)["spec"]["schedulingGates"]
    assert [obj["spec"]["priority"] for obj in cluster.workloads()] == [3]
