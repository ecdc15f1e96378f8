"""The writes to a queued plain pod: its start, its stop, and its release (pod_controller.go Run, Stop, Finalize).

Two writes stop a pod: the first sets the condition TerminationTarget with the reason, the second deletes the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info
from zonewise_scheduler.controller.pods.pod_group import TERMINATION_TARGET
from zonewise_scheduler.controller.pods.pod_names import (
    ADMISSION_GATE,
    POD_FINALIZER,
    ROLE_HASH_ANNOTATION,
    TOPOLOGY_GATE,
)
from zonewise_scheduler.controller.pods.pod_patch import append, remove_gates, remove_item, set_pairs, set_value
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import api_time

if TYPE_CHECKING:
    from zonewise_scheduler.controller.jobs.interface import PodSetInfo
    from zonewise_scheduler.controller.pods.pod_group import GroupPod

Json = dict[str, Any]


def start_pod(pod: GroupPod, info: PodSetInfo, workload: str) -> Write:
    """Return the single patch that adds what the admission assigns to a pod, and removes its admission gate.

    The topology gate remains if the pod set has a topology assignment (ungate.py). Raises StartConflict.
    """
    metadata, spec = pod.obj["metadata"], pod.obj["spec"]
    merged = merge_pod_set_info({"metadata": metadata, "spec": spec}, info)
    merged_metadata, merged_spec = merged["metadata"], merged["spec"]
    annotations: dict[str, str] = {**merged_metadata.get("annotations", {}), ROLE_HASH_ANNOTATION: pod.role}
    gates = [gate.text("name") for gate in FieldReader(spec, "", []).children("schedulingGates")]
    removed = {ADMISSION_GATE} | ({TOPOLOGY_GATE} - set(info.scheduling_gates))
    operations = [
        *set_pairs("/metadata/labels", metadata.get("labels"), merged_metadata.get("labels") or {}),
        *set_pairs("/metadata/annotations", metadata.get("annotations"), annotations),
        *set_pairs("/spec/nodeSelector", spec.get("nodeSelector"), merged_spec.get("nodeSelector") or {}),
        *set_value("/spec/tolerations", spec.get("tolerations") or [], merged_spec.get("tolerations") or []),
        *remove_gates(gates, removed),
    ]
    return _patch(pod, "start", operations, workload)


def stop_pod(pod: GroupPod, reason: str, message: str, workload: str, now: float) -> Write:
    """Return the next write that stops a pod."""
    if pod.is_stopped:
        return delete_pod(pod, "stop: delete the pod", workload)
    condition = {
        "type": TERMINATION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": api_time(now),
    }
    operations = append("/status/conditions", pod.obj.get("status", {}).get("conditions"), condition)
    return _patch(pod, "stop: record the reason", operations, workload, "status")


def delete_pod(pod: GroupPod, purpose: str, workload: str) -> Write:
    """Return the write that deletes a pod."""
    return Write(Verb.DELETE, _key(pod), purpose, uid=pod.uid, workload=workload)


def release_pod(pod: GroupPod, workload: str) -> Write:
    """Return the write that removes the finalizer of a pod, so that it can be deleted."""
    finalizers: list[str] = pod.obj["metadata"]["finalizers"]
    return _patch(pod, "release", remove_item("/metadata/finalizers", finalizers, POD_FINALIZER), workload)


def _patch(pod: GroupPod, purpose: str, operations: list[Json], workload: str, subresource: str = "") -> Write:
    return Write(Verb.JSON_PATCH, _key(pod), purpose, operations, subresource, pod.uid, workload=workload)


def _key(pod: GroupPod) -> ObjectKey:
    return ObjectKey(PODS, pod.obj["metadata"]["namespace"], pod.name)
