"""A pod that is held without a queue is queued once its user gives it a queue."""

from __future__ import annotations

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, QUEUE_LABEL, ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import PODS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import is_true

POD = ObjectKey(PODS, NAMESPACE, "p")
GATE = {"name": "kueue.x-k8s.io/admission"}


def test_a_held_pod_is_queued_once_it_names_a_queue() -> None:
    cluster = ModelCluster()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: 1_800_000_000.0)
    pod = queued_pod("p", group="")
    metadata = {"labels": {"kueue.x-k8s.io/managed": "true"}}
    cluster.create(PODS, NAMESPACE, "p", metadata=metadata, spec=pod["spec"], status=pod["status"])
    queue.settle()
    assert not cluster.workloads()
    assert GATE in cluster.get(POD)["spec"]["schedulingGates"]
    cluster.change(POD, {"metadata": {"labels": {QUEUE_LABEL: "l"}}})
    queue.settle()
    [workload] = cluster.workloads()
    assert GATE not in cluster.get(POD)["spec"]["schedulingGates"]
    cluster.change(POD, {"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}})
    queue.settle()
    assert is_true(cluster.get(ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"])), "Finished")
