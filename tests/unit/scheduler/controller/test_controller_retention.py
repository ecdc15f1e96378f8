"""The setting finishedWorkloadRetention deletes Workloads some time after their jobs have ended."""

from __future__ import annotations

from support.controller_stories import ControllerStory
from support.model_cluster import ModelCluster
from zonewise_scheduler.controller.controller import ControllerOptions

RETENTION = 3600.0


def test_a_finished_workload_is_deleted_after_its_retention() -> None:
    """Its job remains, and gets no other Workload."""
    story = ControllerStory(ModelCluster(), options=ControllerOptions(retention=RETENTION))
    job, running = story.cluster.submit("job", 4), story.cluster.submit("running", 4, at=1)
    story.settle()
    story.cluster.complete(job)
    story.settle()
    assert len(story.cluster.workloads()) == 2
    ended = story.now
    story.settle_until(lambda: len(story.cluster.workloads()) < 2)
    assert story.now >= ended + RETENTION - story.rounds
    [left] = story.cluster.workloads()
    assert left["metadata"]["ownerReferences"][0]["name"] == "running"
    assert not story.cluster.get(running)["spec"]["suspend"]
    assert story.cluster.is_finished(job)


def test_finished_workloads_remain_without_the_setting() -> None:
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 4)
    story.settle()
    story.cluster.complete(job)
    story.settle()
    story.now += 1e9
    story.settle()
    assert len(story.cluster.workloads()) == 1
