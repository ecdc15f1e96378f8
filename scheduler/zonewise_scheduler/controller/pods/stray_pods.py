"""End the pods that wait for a node on which they can no longer run.

A pin cannot be changed. If the node fails before a scheduler binds the pod, the planner assigns another node. The pod
would wait for the old node forever, and its gang would remain incomplete. A failed pod is replaced by its job, and the
replacement gets the new node. The condition DisruptionTarget lets the failure policy of a Job ignore the failure.

Source: Kueue's pkg/controller/tas/node_controller.go getPodsToTerminate, markPodsFailed; KEP-3329.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.controller.pods.ungate import assigned_nodes
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import api_time
from zonewise_scheduler.controller.workloads.status import may_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.types import Json

END_STRAY = "end a pod of a failed node"
"""Purpose of the writes of this module."""
_REASON = "NodeFailures"


def waiting_pods(workload: Json, pods: Sequence[ManagedPod]) -> list[ManagedPod]:
    """Return the pods that wait for a scheduler to bind them; none if the workload may not run."""
    waiting = [pod for pod in pods if pod.spec is not None and not pod.is_terminated]
    return waiting if waiting and may_run(workload) else []


def find_stray_pods(workload: Json, waiting: Sequence[ManagedPod], node_names: Mapping[str, str]) -> list[ManagedPod]:
    """Return the waiting pods whose only node has failed, or is no longer assigned to them.

    `node_names`: names of nodes by hostname. Raises FieldError for an invalid admission or affinity.
    """
    nodes = assigned_nodes(workload, node_names)
    return [
        pod for pod in waiting if pod.pod_set in nodes and (node := pinned_node(pod)) and node not in nodes[pod.pod_set]
    ]


def end_stray_pod(pod: ManagedPod, now: float) -> Write:
    """Return the write that fails a pod."""
    message = f"node {pinned_node(pod)} failed before the pod was bound to it"
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": _REASON,
        "message": message,
        "lastTransitionTime": api_time(now),
    }
    status = {"phase": "Failed", "reason": _REASON, "message": message, "conditions": [condition]}
    key = ObjectKey(PODS, pod.namespace, pod.name)
    return Write(Verb.MERGE_PATCH, key, END_STRAY, {"status": status}, "status", uid=pod.uid, workload=pod.workload_key)
