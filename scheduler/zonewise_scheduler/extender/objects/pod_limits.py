"""Selects the pods to judge: those that a kubelet might align, up to a size that bounds the work of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape

MAX_CONTAINERS = 24
"""Maximum number of containers of a pod, including init containers. Each costs a step on the arrays of all nodes: about
0.4 ms for 5,000 nodes of 8 zones."""
MAX_REQUESTS = 256
"""Maximum number of requests of a pod: each resource of each container counts as one."""


def may_be_aligned(shape: PodShape) -> bool:
    """Return whether any kubelet might align a pod, which is Guaranteed or requests devices."""
    return shape.qos == "Guaranteed" or any(container.devices for container in shape.containers)


def size_problem(shape: PodShape) -> str:
    """Return why a pod is too large to be judged, as a reason for each node; empty if it is not."""
    if not may_be_aligned(shape):
        return ""
    containers = len(shape.containers)
    if containers > MAX_CONTAINERS:
        return f"pod(s) with {containers} containers: zonewise supports at most {MAX_CONTAINERS}"
    requests = sum(1 + len(container.memory) + len(container.devices) for container in shape.containers)
    if requests > MAX_REQUESTS:
        return f"pod(s) with {requests} requests of resources: zonewise supports at most {MAX_REQUESTS}"
    return ""
