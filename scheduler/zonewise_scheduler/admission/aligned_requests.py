"""The resources that a kubelet's managers align: exclusive CPUs, pinned memory and devices of a container or a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpumanager import guaranteed_cpus, pod_guaranteed_cpus
from zonewise_scheduler.admission.memorymanager.memory_requests import memory_request, pod_memory_request
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape


class AlignedRequest(NamedTuple):
    """The resources of a container, or of a whole pod, that are aligned together."""

    cpus: int
    """Number of exclusive CPUs; 0: the shared pool is used."""
    memory: Amounts
    """Bytes by type; empty if the Memory Manager pins nothing."""
    devices: Amounts
    """Number of devices by resource."""


def container_aligned_request(pod: PodShape, container: Container, kind: NodeKind) -> AlignedRequest:
    """Return the resources that are aligned for a container."""
    policies = kind.policies
    return AlignedRequest(
        guaranteed_cpus(pod, container, policies),
        memory_request(pod, container, policies),
        tuple(request for request in container.devices if request[0] in kind.device_indices),
    )


def pod_aligned_request(pod: PodShape, kind: NodeKind) -> AlignedRequest:
    """Return the resources that are aligned for a pod as a whole (scope_pod.go)."""
    policies = kind.policies
    # resourcehelper PodLimits
    devices = aggregate_container_requests((container.role, container.devices) for container in pod.containers)
    return AlignedRequest(
        pod_guaranteed_cpus(pod, policies),
        pod_memory_request(pod, policies),
        tuple(request for request in sorted(devices.items()) if request[0] in kind.device_indices),
    )
