"""The statuses of simulated pods, as kubelets write them (pkg/kubelet/kubelet_pods.go generateAPIPodStatus)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from zonewise_sandbox.podrunner.types import EXIT_CODE

if TYPE_CHECKING:
    from zonewise_sandbox.podrunner.types import RunnerPod

KILLED = 137
"""The exit code of a container that a signal ends: 128 + SIGKILL."""

Object = dict[str, Any]


def running_status(pod: RunnerPod, now: float) -> Object:
    """Return the status of a pod that has started: Running and Ready."""
    time = _time(now)
    containers = [
        {**_container(container), "ready": True, "started": True, "state": {"running": {"startedAt": time}}}
        for container in pod.spec["containers"]
    ]
    conditions = [_condition(kind, "True", time) for kind in ("Initialized", "ContainersReady", "Ready")]
    return {"phase": "Running", "startTime": time, "conditions": conditions, "containerStatuses": containers}


def ended_status(pod: RunnerPod, now: float, *, killed: bool) -> Object:
    """Return the status of a pod whose containers have ended, by themselves or because the pod was deleted."""
    time = _time(now)
    code = KILLED if killed else int(pod.seconds(EXIT_CODE) or 0)
    reason = "Error" if code else "Completed"
    state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": time, "finishedAt": time}}
    containers = [
        {**_container(container), "ready": False, "started": False, "state": state}
        for container in pod.spec["containers"]
    ]
    why = "PodFailed" if code else "PodCompleted"
    conditions = [_condition(kind, "False", time, why) for kind in ("ContainersReady", "Ready")]
    return {"phase": "Failed" if code else "Succeeded", "conditions": conditions, "containerStatuses": containers}


def rejected_status(message: str) -> Object:
    """Return the status of a pod that its kubelet rejects because of its zones (pkg/kubelet/kubelet.go rejectPod)."""
    text = f"Pod was rejected: Resources cannot be allocated with Topology locality: {message}"
    return {"phase": "Failed", "reason": "TopologyAffinityError", "message": text}


def _container(container: Object) -> Object:
    return {"name": container["name"], "image": container.get("image", ""), "imageID": "", "restartCount": 0}


def _condition(kind: str, status: str, time: str, reason: str = "") -> Object:
    condition = {"type": kind, "status": status, "lastTransitionTime": time}
    return {**condition, "reason": reason} if reason else condition


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
