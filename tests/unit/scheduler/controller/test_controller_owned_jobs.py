"""A job that another job owns is queued unless its owner is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.controller_stories import ControllerStory
from support.model_cluster import NAMESPACE, QUEUE_LABEL, ModelCluster
from zonewise_common.kube.resources import JOB_SETS
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


@pytest.mark.parametrize("queue", ["", "l"])
def test_the_owner_of_an_owner_may_be_observed_last(queue: str) -> None:
    """An AppWrapper without a queue owns a JobSet without one, whose Job names a queue."""
    story = ControllerStory(ModelCluster())
    cluster = story.cluster
    wrapper, job = submit_wrapped(cluster, "")
    [reference] = cluster.get(job)["metadata"]["ownerReferences"]
    middle = cluster.create(JOB_SETS, NAMESPACE, "s", metadata={"ownerReferences": [reference]}, spec={})
    owner = {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "name": "s", "controller": True}
    uid = cluster.get(middle)["metadata"]["uid"]
    cluster.change(job, {"metadata": {"ownerReferences": [{**owner, "uid": uid}]}})
    late = cluster.objects.pop(wrapper)
    story.queue.settle()
    assert not cluster.workloads(), "the first owner is not observed yet"
    cluster.objects[wrapper] = late
    if queue:
        cluster.change(wrapper, {"metadata": {"labels": {QUEUE_LABEL: queue}}})
    story.queue.settle()
    owners = [obj["metadata"]["ownerReferences"][0]["kind"] for obj in cluster.workloads()]
    assert owners == ["AppWrapper" if queue else "Job"]


def test_a_job_is_not_queued_again_if_its_owner_is_queued() -> None:
    story = ControllerStory(ModelCluster())
    _, job = submit_wrapped(story.cluster, "missing")
    story.settle()
    owners = [obj["metadata"]["ownerReferences"][0]["kind"] for obj in story.cluster.workloads()]
    assert owners == ["AppWrapper"]
    assert story.cluster.get(job)["spec"]["suspend"]
