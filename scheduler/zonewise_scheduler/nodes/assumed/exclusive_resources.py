"""Which pods hold anything of a node that its state counts: the others need not be charged."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.aligned_requests import container_aligned_request, pod_aligned_request
from zonewise_scheduler.admission.cpumanager import uses_pod_level_managers

if TYPE_CHECKING:
    from zonewise_scheduler.admission.context import AlignedRequest
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import PodShape


@lru_cache(maxsize=1 << 14)
def holds_resources(kind: NodeKind, pod: PodShape) -> bool:
    """Tell whether a pod takes CPUs, memory or devices of which a node's state counts what is left."""
    return any(_anything(ask) or _counts(ask) for ask in _asks(kind, pod, listed=False))


@lru_cache(maxsize=1 << 14)
def has_exclusive_resources(kind: NodeKind, pod: PodShape) -> bool:
    """Tell whether a pod counts for the fingerprint method "with-exclusive-resources".

    It does where the PodResources API lists CPUs, memory of a zone, or a device of a zone for any of its containers
    (resource-topology-exporter's pkg/numalocality); that API lists no ordinary init containers. Where a resource has
    devices both with and without zones, the pod is taken to have one with.
    """
    zoned = {device.resource for device in kind.devices if device.zones}
    return any(_anything(ask) or _counts(ask, zoned) for ask in _asks(kind, pod, listed=True))


def _asks(kind: NodeKind, pod: PodShape, *, listed: bool) -> list[AlignedRequest]:
    asks = [
        container_aligned_request(pod, each, kind) for each in pod.containers if not (listed and each.role == "init")
    ]
    if uses_pod_level_managers(pod, kind.policies):
        asks.append(pod_aligned_request(pod, kind)._replace(devices=()))
    return asks


def _anything(ask: AlignedRequest) -> bool:
    return ask.cpus > 0 or any(size > 0 for _, size in ask.memory)


def _counts(ask: AlignedRequest, resources: set[str] | None = None) -> bool:
    return any(count > 0 and (resources is None or name in resources) for name, count in ask.devices)
