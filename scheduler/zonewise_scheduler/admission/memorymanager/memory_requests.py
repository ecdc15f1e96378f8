"""Bytes that the Memory Manager pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager import uses_pod_level_managers
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests
from zonewise_scheduler.admission.resource_names import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape


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


def empty_shared_memory_pool(pod: PodShape, policies: Policies) -> str | None:
    """Return the kubelet's message if exclusive memory leaves none to the other containers of a pod; else None.

    For pods that are allocated as a whole (policy_static.go validatePodScopeResources).
    """
    lasting: dict[str, int] = {}
    shared = False
    for one in pod.containers:
        own = memory_request(pod, one, policies)
        if one.role == "init":
            gone = _used_up(pod, policies, lasting)
            if gone and not own:
                return f"pod rejected, pod has shared init containers but no {gone} available for them"
            continue
        shared = shared or not own
        for name, size in own:
            lasting[name] = lasting.get(name, 0) + size
    gone = _used_up(pod, policies, lasting)
    if not (shared and gone):
        return None
    return (
        f"pod rejected, sum of exclusive container {gone} requests equals pod budget, "
        "leaving no memory for shared containers"
    )


def _used_up(pod: PodShape, policies: Policies, lasting: Mapping[str, int]) -> str | None:
    whole = pod_memory_request(pod, policies)
    return next((name for name, size in whole if lasting.get(name, 0) >= size), None)
