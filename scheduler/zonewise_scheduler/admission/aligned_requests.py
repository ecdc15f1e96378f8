"""What of a pod the managers of a kubelet take notice of, by container and for the pod as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.context import AlignedRequest
from zonewise_scheduler.admission.cpumanager import guaranteed_cpus, pod_guaranteed_cpus, uses_pod_level_managers
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests
from zonewise_scheduler.admission.resource_names import MEMORY

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind, Policies
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape


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


def pins_memory(pod: PodShape, policies: Policies) -> bool:
    """Tell whether the Memory Manager pins a pod.

    Without PodLevelResourceManagers it leaves pods with resources of their own alone, since 1.34 (policy_static.go).
    """
    if policies.memory != "Static" or pod.qos != "Guaranteed":
        return False
    return pod.pod_level is None or policies.release < (1, 34) or uses_pod_level_managers(pod, policies)


def memory_request(pod: PodShape, container: Container, policies: Policies) -> Amounts:
    """Return bytes by type that a container is pinned with.

    One of a pod that is given whole has its own only where it is complete (IsContainerEquivalentQOSGuaranteed).
    """
    if not pins_memory(pod, policies):
        return ()
    complete = container.complete and container.milli_cpus and dict(container.memory).get(MEMORY)
    return container.memory if complete or not uses_pod_level_managers(pod, policies) else ()


def pod_memory_request(pod: PodShape, policies: Policies) -> Amounts:
    """Return bytes by type that a pod is pinned with: what runs together, or an init container if that is more.

    getPodRequestedResources: types that only init containers ask for are left out.
    """
    if pod.pod_level is not None and uses_pod_level_managers(pod, policies):
        whole = pod.pod_level.memory if pins_memory(pod, policies) else ()
        return tuple((name, size) for name, size in whole if size > 0)
    lasting = {name for one in pod.containers if one.role == "app" for name, _ in one.memory}
    together = aggregate_container_requests((one.role, memory_request(pod, one, policies)) for one in pod.containers)
    return tuple(sorted((name, size) for name, size in together.items() if name in lasting))
