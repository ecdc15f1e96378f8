"""Memory that the static Memory Manager pins for a container or a pod.

pkg/kubelet/cm/memorymanager/policy_static.go getContainerRequestedResources, getPodRequestedResources.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager import uses_pod_level_managers
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests
from zonewise_scheduler.admission.resource_names import MEMORY

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape


def pins_memory(pod: PodShape, policies: Policies) -> bool:
    """Return whether the Memory Manager pins the memory of a pod.

    Since 1.34 it skips pods with pod-level resources unless PodLevelResourceManagers is on (policy_static.go).
    """
    if policies.memory != "Static" or pod.qos != "Guaranteed":
        return False
    return pod.pod_level is None or policies.release < (1, 34) or uses_pod_level_managers(pod, policies)


def memory_request(pod: PodShape, container: Container, policies: Policies) -> Amounts:
    """Return the bytes by type that are pinned for a container.

    In a pod whose memory is allocated as a whole, only containers that would be Guaranteed by themselves have pinned
    memory (IsContainerEquivalentQOSGuaranteed).
    """
    if not pins_memory(pod, policies):
        return ()
    guaranteed = container.complete and container.milli_cpus and dict(container.memory).get(MEMORY)
    return container.memory if guaranteed or not uses_pod_level_managers(pod, policies) else ()


def pod_memory_request(pod: PodShape, policies: Policies) -> Amounts:
    """Return the bytes by type that are pinned for a pod: the peak over its life (getPodRequestedResources).

    Types that only init containers request are left out.
    """
    if pod.pod_level is not None and uses_pod_level_managers(pod, policies):
        pod_memory = pod.pod_level.memory if pins_memory(pod, policies) else ()
        return tuple((name, size) for name, size in pod_memory if size)
    app_types = {name for container in pod.containers if container.role == "app" for name, _ in container.memory}
    peak = aggregate_container_requests(
        (container.role, memory_request(pod, container, policies)) for container in pod.containers
    )
    return tuple(sorted((name, size) for name, size in peak.items() if name in app_types))


def empty_shared_memory_pool(pod: PodShape, policies: Policies) -> str | None:
    """Return the kubelet's message if exclusive memory leaves none for the other containers of a pod; otherwise None.

    This applies to pods whose memory is allocated as a whole (policy_static.go validatePodScopeResources).
    """
    exclusive: Counter[str] = Counter()
    shared = False
    for container in pod.containers:
        request = memory_request(pod, container, policies)
        if container.role == "init":
            exhausted = _exhausted_type(pod, policies, exclusive)
            if exhausted and not request:
                return f"pod rejected, pod has shared init containers but no {exhausted} available for them"
            continue
        shared = shared or not request
        for name, size in request:
            exclusive[name] += size
    exhausted = _exhausted_type(pod, policies, exclusive)
    if not (shared and exhausted):
        return None
    return (
        f"pod rejected, sum of exclusive container {exhausted} requests equals pod budget, "
        "leaving no memory for shared containers"
    )


def _exhausted_type(pod: PodShape, policies: Policies, exclusive: Counter[str]) -> str | None:
    pod_memory = pod_memory_request(pod, policies)
    return next((name for name, size in pod_memory if exclusive[name] >= size), None)
