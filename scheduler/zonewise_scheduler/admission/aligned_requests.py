"""What of a pod the managers of a kubelet take notice of, by container and for the pod as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpumanager import guaranteed_cpus, pod_guaranteed_cpus
from zonewise_scheduler.admission.memorymanager.memory_requests import memory_request, pod_memory_request
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape


class AlignedRequest(NamedTuple):
    """What is aligned as one: a container's wishes, or the whole pod's."""

    cpus: int
    """Exclusive ones; 0: the shared pool."""
    memory: Amounts
    """Empty where the Memory Manager does not care for it."""
    devices: Amounts


def container_aligned_request(pod: PodShape, container: Container, kind: NodeKind) -> AlignedRequest:
    """Return what a container is aligned by: CPUs, bytes by type, counts by resource."""
    policies = kind.policies
    return AlignedRequest(
        guaranteed_cpus(pod, container, policies),
        memory_request(pod, container, policies),
        tuple(one for one in container.devices if one[0] in kind.device_indices),
    )


def pod_aligned_request(pod: PodShape, kind: NodeKind) -> AlignedRequest:
    """Return what a pod is aligned by as a whole (scope pod)."""
    policies = kind.policies
    devices = aggregate_container_requests(
        (one.role, one.devices) for one in pod.containers
    )  # resourcehelper PodLimits
    return AlignedRequest(
        pod_guaranteed_cpus(pod, policies),
        pod_memory_request(pod, policies),
        tuple(one for one in sorted(devices.items()) if one[0] in kind.device_indices),
    )
