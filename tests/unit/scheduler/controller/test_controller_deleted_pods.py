"""The quota of a stopped job is free once its last pod is gone, whatever its status and the order of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.controller_stories import QUEUE, ControllerStory
from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.jobs.jobset import ADAPTER as JOBSET
from zonewise_scheduler.controller.workloads.conditions import is_true

if TYPE_CHECKING:
    from typing import Any

    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, "Any"]


def add_pod(story: ControllerStory, name: str, template: Json) -> ObjectKey:
    """Create a pod of a started job; no node has capacity for it."""
    metadata = {field: template["metadata"].get(field, {}) for field in ("labels", "annotations")}
    return story.cluster.create(
        PODS, NAMESPACE, name, metadata=metadata, spec=template["spec"], status={"phase": "Pending"}
    )


def stop_all(story: ControllerStory) -> None:
    """Evict the Workloads of the queue; they keep their quota, since pods are active."""
    story.cluster.change(QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})
    story.settle()
    [workload] = story.cluster.workloads()
    assert is_true(workload, "Evicted")
    assert is_true(workload, "QuotaReserved")


def has_quota(story: ControllerStory) -> bool:
    [workload] = story.cluster.workloads()
    return is_true(workload, "QuotaReserved")


def test_the_last_pod_of_a_job_is_deleted_after_its_status_shows_no_active_pod() -> None:
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("j", 4)
    story.settle()
    pod = add_pod(story, "j-0", story.cluster.get(job)["spec"]["template"])
    story.settle()
    stop_all(story)
    assert story.cluster.get(job)["spec"]["suspend"]
    story.cluster.delete(pod)
    story.settle()
    assert not has_quota(story)


def test_the_last_pod_of_a_jobset_is_deleted_after_its_status_shows_no_active_pod() -> None:
    """A JobSet counts pods marked for deletion as gone, but their finalizers are removed later."""
    story = ControllerStory(ModelCluster())
    template = {
        "metadata": {},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
    }
    job = {"spec": {"parallelism": 1, "completions": 1, "template": template}}
    labels = {"kueue.x-k8s.io/queue-name": "l"}
    spec = {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": job}]}
    jobset = story.cluster.create(JOBSET.resource, NAMESPACE, "js", metadata={"labels": labels}, spec=spec)
    story.settle()
    [started] = story.cluster.get(jobset)["spec"]["replicatedJobs"]
    pod = add_pod(story, "js-w-0-0", started["template"]["spec"]["template"])
    story.cluster.change(jobset, {"status": {"replicatedJobsStatus": [{"name": "w", "active": 1}]}})
    story.settle()
    stop_all(story)
    story.cluster.change(pod, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    story.cluster.change(jobset, {"status": {"replicatedJobsStatus": [{"name": "w", "active": 0}]}})
    story.settle()
    assert has_quota(story)
    story.cluster.delete(pod)
    story.settle()
    assert not has_quota(story)
