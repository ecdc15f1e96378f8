"""A ResourceFlavor that is deleted between admission and start: the job starts once the flavor exists again."""

from __future__ import annotations

from typing import Any

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import PODS, RESOURCE_FLAVORS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import is_true

Json = dict[str, Any]

FLAVOR = ObjectKey(RESOURCE_FLAVORS, "", "f")


def checked_queue() -> tuple[ModelCluster, LiveQueue]:
    """Return a cluster whose queue has an admission check."""
    cluster = ModelCluster(admissionChecksStrategy={"admissionChecks": [{"name": "licence"}]})
    cluster.add_check("licence")
    return cluster, LiveQueue(cluster.listed, cluster.send, now=lambda: 1_800_000_000.0)


def create_pod(cluster: ModelCluster, pod: Json) -> ObjectKey:
    """Create a pod in the queue."""
    labels = pod["metadata"]["labels"] | {"kueue.x-k8s.io/queue-name": "l"}
    metadata = {**pod["metadata"], "labels": labels}
    name = pod["metadata"]["name"]
    return cluster.create(PODS, NAMESPACE, name, metadata=metadata, spec=pod["spec"], status=pod["status"])


def pass_check(cluster: ModelCluster) -> None:
    (workload,) = cluster.workloads()
    (check,) = workload["status"]["admissionChecks"]
    key = ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"])
    cluster.change(key, {"status": {"admissionChecks": [{**check, "state": "Ready"}]}})


def lose_flavor(cluster: ModelCluster, queue: LiveQueue) -> None:
    """Delete the flavor while the Workload has quota, then admit the Workload."""
    queue.settle()
    cluster.delete(FLAVOR)
    queue.settle()
    pass_check(cluster)
    queue.settle()
    (workload,) = cluster.workloads()
    assert (is_true(workload, "Admitted"), is_true(workload, "Finished")) == (True, False)
    problem = "status.admission.podSetAssignments: ResourceFlavor f does not exist"
    assert list(queue.controller.invalid.values()) == [problem]


def return_flavor(cluster: ModelCluster, queue: LiveQueue) -> None:
    cluster.create(RESOURCE_FLAVORS, "", "f", spec={"nodeLabels": {"flavor": "new"}})
    queue.settle()
    assert not queue.controller.invalid


def test_an_admitted_job_waits_for_its_flavor() -> None:
    cluster, queue = checked_queue()
    job = cluster.submit("job", 2)
    lose_flavor(cluster, queue)
    assert cluster.get(job)["spec"]["suspend"]
    return_flavor(cluster, queue)
    spec = cluster.get(job)["spec"]
    assert (spec["suspend"], spec["template"]["spec"]["nodeSelector"]) == (False, {"flavor": "new"})


def test_an_admitted_pod_waits_for_its_flavor() -> None:
    cluster, queue = checked_queue()
    key = create_pod(cluster, queued_pod("p", group=""))
    lose_flavor(cluster, queue)
    assert cluster.get(key)["spec"]["schedulingGates"]
    return_flavor(cluster, queue)
    spec = cluster.get(key)["spec"]
    assert (spec["schedulingGates"], spec["nodeSelector"]) == ([], {"flavor": "new"})


def test_a_deleted_pod_is_released_without_its_flavor() -> None:
    cluster, queue = checked_queue()
    deleted, _ = create_pod(cluster, queued_pod("a")), create_pod(cluster, queued_pod("b"))
    lose_flavor(cluster, queue)
    cluster.delete(deleted)
    queue.settle()
    assert deleted not in cluster.listed()
