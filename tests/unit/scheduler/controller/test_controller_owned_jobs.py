"""A job that another job owns is queued unless its owner is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.controller_stories import ControllerStory
from support.model_cluster import NAMESPACE, QUEUE_LABEL, ModelCluster
from zonewise_scheduler.controller.jobs.appwrapper import ADAPTER

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey


def submit_wrapped(cluster: ModelCluster, queue: str) -> tuple[ObjectKey, ObjectKey]:
    """Create an AppWrapper and a queued Job that it owns; return their keys."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    metadata = {"labels": {QUEUE_LABEL: queue} if queue else {}}
    spec = {"suspend": True, "components": [{"template": template}]}
    wrapper = cluster.create(ADAPTER.resource, NAMESPACE, "w", metadata=metadata, spec=spec)
    job = cluster.submit("job", 1)
    owner = {"apiVersion": ADAPTER.resource.api_version, "kind": "AppWrapper", "name": "w", "controller": True}
    references = [{**owner, "uid": cluster.get(wrapper)["metadata"]["uid"]}]
    cluster.change(job, {"metadata": {"ownerReferences": references}})
    return wrapper, job


@pytest.mark.parametrize("is_late", [False, True])
def test_a_job_is_queued_if_its_owner_names_no_queue(is_late: bool) -> None:
    """The controller may observe the owner after the job."""
    story = ControllerStory(ModelCluster())
    wrapper, job = submit_wrapped(story.cluster, "")
    if is_late:
        late = story.cluster.objects.pop(wrapper)
        story.queue.settle()
        assert not story.cluster.workloads()
        story.cluster.objects[wrapper] = late
    story.settle()
    assert len(story.cluster.workloads()) == 1
    assert not story.cluster.get(job)["spec"]["suspend"]


def test_a_job_is_not_queued_again_if_its_owner_is_queued() -> None:
    story = ControllerStory(ModelCluster())
    _, job = submit_wrapped(story.cluster, "missing")
    story.settle()
    owners = [obj["metadata"]["ownerReferences"][0]["kind"] for obj in story.cluster.workloads()]
    assert owners == ["AppWrapper"]
    assert story.cluster.get(job)["spec"]["suspend"]
