"""Determines which pods hold resources that a node's state counts."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.aligned_requests import container_aligned_request, pod_aligned_request
from zonewise_scheduler.admission.cpumanager import uses_pod_level_managers

if TYPE_CHECKING:
    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import PodShape


@lru_cache(maxsize=1 << 14)
def holds_resources(kind: NodeKind, pod: PodShape) -> bool:
    """Return whether a pod takes CPUs, memory or devices that a node's state counts. Other pods need not be assumed."""
    return any(
        _has_cpus_or_memory(request) or _has_devices(request)
        for request in _aligned_requests(kind, pod, podresources_only=False)
    )


@lru_cache(maxsize=1 << 14)
def has_exclusive_resources(kind: NodeKind, pod: PodShape) -> bool:
    """Return whether a pod counts for the fingerprint method "with-exclusive-resources".

    It does if the PodResources API lists CPUs, memory of a zone or a device of a zone for any of its containers
    (resource-topology-exporter pkg/podres/filter/numalocality). This API does not list ordinary init containers. A
    resource may have devices both with and without zones. A pod with a device of such a resource counts.
    """
    zoned = {device.resource for device in kind.devices if device.zones}
    return any(
        _has_cpus_or_memory(request) or _has_devices(request, zoned)
        for request in _aligned_requests(kind, pod, podresources_only=True)
    )


@lru_cache(maxsize=1 << 14)
def admitted_holdings(kind: NodeKind, pod: PodShape) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return the minimum that a pod holds once its kubelet has fully admitted it: CPUs, and amounts by resource.

    The minimum is nothing for a pod whose containers share the resources of the pod as a whole.
    """
    if uses_pod_level_managers(pod, kind.policies):
        return 0, ()
    requests = _aligned_requests(kind, pod, podresources_only=True)
    amounts = Counter[str]()
    for request in requests:
        for resource, amount in (*request.memory, *request.devices):
            amounts[resource] += amount
    return sum(request.cpus for request in requests), tuple(amounts.items())


def _aligned_requests(kind: NodeKind, pod: PodShape, *, podresources_only: bool) -> list[AlignedRequest]:
    requests = [
        container_aligned_request(pod, container, kind)
        for container in pod.containers
        if not (podresources_only and container.role == "init")
    ]
    if uses_pod_level_managers(pod, kind.policies):
        requests.append(pod_aligned_request(pod, kind)._replace(devices=()))
    return requests


def _has_cpus_or_memory(request: AlignedRequest) -> bool:
    return request.cpus > 0 or any(size > 0 for _, size in request.memory)


def _has_devices(request: AlignedRequest, resources: set[str] | None = None) -> bool:
    return any(count > 0 and (resources is None or name in resources) for name, count in request.devices)
