"""A gang whose pods are rejected by a kubelet is requeued as a whole: it is stopped, waits, and is placed again."""

from __future__ import annotations

from typing import Any

import msgspec

from support.held_pods import assigned_workload, held_pod
from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.observed_pod import decode_observed_pod
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.status import requeue_time

Json = dict[str, Any]

NOW = 1_800_000_000.0
KEY = ObjectKey(WORKLOADS, NAMESPACE, "w")


def queue_with_gang(*, placed: bool = True) -> ReportedQueue:
    """Return a queue with an admitted workload of two pods on node h1, or, unless `placed`, on any node."""
    queue = ReportedQueue(ModelCluster(), NOW)
    obj = assigned_workload({"h1": 2}, indexed=False)
    obj["spec"] |= {"queueName": "l"}
    obj["status"]["admission"]["clusterQueue"] = "q"
    if not placed:
        del obj["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]
    queue.cluster.create(WORKLOADS, NAMESPACE, "w", spec=obj["spec"], status=obj["status"])
    queue.tick()
    return queue


def reject(queue: ReportedQueue, name: str) -> None:
    """Bind a pod, which its kubelet then rejects."""
    pod = held_pod(name, nodeName="h1")
    pod["spec"]["schedulingGates"] = []
    rejected = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no zone has room"}
    for status in (pod["status"], rejected):
        raw = msgspec.Raw(msgspec.json.encode({**pod, "status": status}))
        queue.controller.observe_pod(NAMESPACE, name, decode_observed_pod(raw))
        queue.tick()


def test_the_first_rejection_is_reported_and_a_replacement_awaited() -> None:
    queue = queue_with_gang()
    reject(queue, "w-0")
    (event,) = queue.events
    assert (event["type"], event["reason"], event["involvedObject"]["name"]) == ("Warning", "PodRejected", "w")
    assert event["message"] == "the kubelet of h1 rejected pod w-0: TopologyAffinityError: no zone has room"
    assert not is_true(queue.cluster.get(KEY), "Evicted")


def test_the_second_rejection_evicts_the_gang_which_waits_for_a_backoff() -> None:
    queue = queue_with_gang()
    reject(queue, "w-0")
    reject(queue, "w-1")
    workload = queue.cluster.get(KEY)
    evicted = find_condition(workload, "Evicted")
    assert evicted is not None
    assert (evicted["status"], evicted["reason"]) == ("True", "KubeletRejections")
    assert "h1 rejected pod w-1" in evicted["message"]
    assert requeue_time(workload) == NOW + 60
    reasons = [event["reason"] for event in queue.events]
    assert sorted(reasons) == ["EvictedDueToKubeletRejections", "PodRejected", "PodRejected"]


def test_pods_that_kube_scheduler_places_do_not_end_an_admission() -> None:
    queue = queue_with_gang(placed=False)
    for name in ("w-0", "w-1", "w-2"):
        reject(queue, name)
    assert not is_true(queue.cluster.get(KEY), "Evicted")
    assert [event["reason"] for event in queue.events] == ["PodRejected"] * 3


def test_a_new_leader_restarts_the_count() -> None:
    """It does not know to which admission the rejections that it observed before belong."""
    queue = queue_with_gang()
    queue.controller.lead(False)
    for name in ("w-0", "w-1"):
        reject(queue, name)
    queue.controller.lead(True)
    queue.tick()
    assert not is_true(queue.cluster.get(KEY), "Evicted")
    reject(queue, "w-2")
    assert not is_true(queue.cluster.get(KEY), "Evicted")
    reject(queue, "w-3")
    assert is_true(queue.cluster.get(KEY), "Evicted")
