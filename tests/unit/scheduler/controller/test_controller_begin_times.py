"""Jobs with a begin time in the live queue, and reservations in advance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from support.controller_stories import QUEUE, ControllerStory
from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, QUEUE_LABEL, ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import LEADER_WORKER_SETS, POD_GROUPS, PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]
NOW = 1_800_000_000.0
"""08:00 UTC on 15 January 2027."""
GATE = {"name": "kueue.x-k8s.io/admission"}
BEGIN = "zonewise.dev/begin"
ADVANCE = "zonewise.dev/advance-reservations"


def begin(story: ControllerStory, seconds: float) -> Json:
    """Return a patch with a begin time some seconds from now."""
    time = datetime.fromtimestamp(story.now + seconds, UTC).isoformat()
    return {"metadata": {"annotations": {BEGIN: time}}}


def pod_begin(text: str | None) -> Json:
    """Return a patch of the begin time of an object; None removes it."""
    return {"metadata": {"annotations": {BEGIN: text}}}


def create_pod(cluster: ModelCluster, name: str, group: str = "", **metadata: Any) -> ObjectKey:
    """Create a pod in the form in which the webhook leaves it."""
    pod = queued_pod(name, group=group, total=1)
    own = {field: pod["metadata"][field] for field in ("annotations", "finalizers", "labels")}
    own["labels"] |= {QUEUE_LABEL: "l"} | metadata.pop("labels", {})
    own["annotations"] |= metadata.pop("annotations", {})
    return cluster.create(PODS, NAMESPACE, name, metadata=own | metadata, spec=pod["spec"], status=pod["status"])


def single_pod(cluster: ModelCluster) -> tuple[ObjectKey, ObjectKey]:
    key = create_pod(cluster, "p")
    return key, key


def pod_of_a_group(cluster: ModelCluster) -> tuple[ObjectKey, ObjectKey]:
    key = create_pod(cluster, "p", "g")
    return key, key


def pod_of_a_pod_group(cluster: ModelCluster) -> tuple[ObjectKey, ObjectKey]:
    owner = cluster.create(POD_GROUPS, NAMESPACE, "pg", spec={"minMember": 1})
    return create_pod(cluster, "p", labels={"scheduling.x-k8s.io/pod-group": "pg"}), owner


def pod_that_names_a_pod_group(cluster: ModelCluster) -> tuple[ObjectKey, ObjectKey]:
    pod, _ = pod_of_a_pod_group(cluster)
    return pod, pod


TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}


def pod_of_a_stateful_set(cluster: ModelCluster) -> tuple[ObjectKey, ObjectKey]:
    metadata = {"labels": {QUEUE_LABEL: "l"}}
    spec = {"replicas": 1, "template": TEMPLATE}
    owner = cluster.create(STATEFUL_SETS, NAMESPACE, "web", metadata=metadata, spec=spec)
    uid = cluster.get(owner)["metadata"]["uid"]
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True, "uid": uid}
    annotations = {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}
    return create_pod(cluster, "web-0", annotations=annotations, ownerReferences=[reference]), owner


def pod_of_a_leader_worker_set(cluster: ModelCluster) -> tuple[ObjectKey, ObjectKey]:
    metadata = {"labels": {QUEUE_LABEL: "l"}}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": TEMPLATE}}
    owner = cluster.create(LEADER_WORKER_SETS, NAMESPACE, "s", metadata=metadata, spec=spec)
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {f"{prefix}name": "s", f"{prefix}group-index": "0", f"{prefix}worker-index": "0"}
    return create_pod(cluster, "s-0", labels=labels, annotations={"kueue.x-k8s.io/role-hash": "main"}), owner


@pytest.mark.parametrize(
    "create",
    [
        single_pod,
        pod_of_a_group,
        pod_of_a_pod_group,
        pod_that_names_a_pod_group,
        pod_of_a_stateful_set,
        pod_of_a_leader_worker_set,
    ],
)
def test_pods_start_at_the_begin_time_of_the_object_that_describes_them(
    create: Callable[[ModelCluster], tuple[ObjectKey, ObjectKey]],
) -> None:
    """A changed time counts while they wait, and an invalid one changes nothing."""
    cluster, now = ModelCluster(), [NOW]
    pod, described = create(cluster)
    cluster.change(described, pod_begin("2027-01-15T09:00:00Z"))
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: now[0])
    queue.settle()
    [workload] = cluster.workloads()
    assert workload["metadata"]["annotations"][BEGIN] == "2027-01-15T09:00:00Z"
    for text in ("2027-01-15T08:10:00Z", "tomorrow"):
        cluster.change(described, pod_begin(text))
        queue.settle()
        [workload] = cluster.workloads()
        assert workload["metadata"]["annotations"][BEGIN] == "2027-01-15T08:10:00Z"
        assert GATE in cluster.get(pod)["spec"]["schedulingGates"]
    [problem] = queue.controller.invalid.values()
    assert problem.startswith(f"metadata.annotations.{BEGIN}: not an RFC 3339 time: 'tomorrow'")
    now[0] += 600.0
    queue.step()
    queue.settle()
    assert GATE not in cluster.get(pod)["spec"]["schedulingGates"]


def is_started(story: ControllerStory, job: ObjectKey) -> bool:
    return not story.cluster.get(job)["spec"]["suspend"]


def test_a_job_starts_at_its_begin_time_and_holds_no_quota_before() -> None:
    """An earlier begin time of a waiting job counts at once."""
    story = ControllerStory(ModelCluster())
    later, other = story.cluster.submit("later", 8), story.cluster.submit("other", 8, at=1)
    story.cluster.change(later, begin(story, 5000))
    story.settle()
    assert (is_started(story, later), is_started(story, other)) == (False, True)
    story.cluster.complete(other)
    story.settle()
    assert not is_started(story, later)
    story.cluster.change(later, begin(story, 100))
    begins = story.now + 100
    story.settle_until(lambda: is_started(story, later))
    assert begins <= story.now < begins + 20


def test_a_queue_with_advance_reservations_holds_the_time_for_the_job() -> None:
    """A job without a walltime does not start, although it fits now: it may still run at that time."""
    story = ControllerStory(ModelCluster())
    story.cluster.change(QUEUE, {"metadata": {"annotations": {ADVANCE: "true"}}})
    maintenance = story.cluster.submit("maintenance", 8)
    story.cluster.change(maintenance, begin(story, 1000))
    story.settle()
    long, short = story.cluster.submit("long", 4, at=1), story.cluster.submit("short", 4, at=2)
    story.cluster.change(short, {"metadata": {"annotations": {"zonewise.dev/max-run-seconds": "900"}}})
    story.settle()
    assert (is_started(story, long), is_started(story, short)) == (False, True)
    story.cluster.complete(short)
    story.settle_until(lambda: is_started(story, maintenance))
    assert not is_started(story, long)


def test_an_invalid_begin_time_holds_the_job_and_names_the_field() -> None:
    """The webhook rejects it; without the webhook, the job must not start at once."""
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 1)
    story.cluster.change(job, {"metadata": {"annotations": {BEGIN: "tomorrow"}}})
    story.settle()
    assert story.cluster.get(job)["spec"]["suspend"]
