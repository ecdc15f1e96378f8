"""How many exclusive CPUs a pod requests (policy_static.go guaranteedCPUs, podGuaranteedCPUs).

The treatment of pods with pod-level resources (KEP-2837) depends on the release:

- Up to 1.33, the CPU Manager ignores pod-level resources.
- From 1.34 on, such a pod gets no exclusive CPUs.
- From 1.36 on, it gets exclusive CPUs if the gate PodLevelResourceManagers is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import MEMORY

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.pod import Container, PodShape

_POD_LEVEL = (1, 34)
"""The first release whose CPU Manager considers pod-level resources."""

_INIT_STARVED = "pod rejected, pod has shared init containers but no cpus available for them"
_STARVED = (
    "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
)


def guaranteed_cpus(pod: PodShape, container: Container, policies: Policies) -> int:
    """Return how many exclusive CPUs a container gets; 0 if it runs on the shared CPUs."""
    if policies.cpu != "static" or pod.qos != "Guaranteed":
        return 0
    if _has_pod_level_resources(pod, policies) and not (policies.pod_level_managers and _is_guaranteed(container)):
        return 0
    return _whole_cpus(container.milli_cpus)


def pod_guaranteed_cpus(pod: PodShape, policies: Policies) -> int:
    """Return the peak number of exclusive CPUs of a pod (Topology Manager scope pod).

    For a pod whose resources are allocated as a whole, this is the pod-level request.
    """
    if pod.pod_level is not None and uses_pod_level_managers(pod, policies):
        return _whole_cpus(pod.pod_level.milli_cpus) if policies.cpu == "static" and pod.qos == "Guaranteed" else 0
    peak = sidecars = apps = 0
    for container in pod.containers:
        count = guaranteed_cpus(pod, container, policies)
        if container.role == "sidecar":
            sidecars += count
        elif container.role == "init":
            peak = max(peak, sidecars + count)
        else:
            apps += count
    return max(peak, apps + sidecars)


def uses_pod_level_managers(pod: PodShape, policies: Policies) -> bool:
    """Return whether a pod gets its resources as a whole in the Topology Manager's scope pod (AllocatePod)."""
    return _has_pod_level_resources(pod, policies) and policies.pod_level_managers


def empty_shared_pool(pod: PodShape, policies: Policies) -> str | None:
    """Return the kubelet's message if exclusive CPUs leave none for the other containers of a pod; otherwise None.

    This applies to pods whose resources are allocated as a whole (validatePodScopeResources). No hint is then
    preferred. Under best-effort or none, the pod fails with EmptyPodSharedPoolError.
    """
    total, exclusive, shared = pod_guaranteed_cpus(pod, policies), 0, False
    for container in pod.containers:
        count = guaranteed_cpus(pod, container, policies)
        if container.role != "init":
            exclusive += count
            shared |= not count
        elif not count and exclusive >= total:
            return _INIT_STARVED
    return _STARVED if shared and exclusive >= total else None


def _has_pod_level_resources(pod: PodShape, policies: Policies) -> bool:
    return pod.pod_level is not None and policies.release >= _POD_LEVEL


def _is_guaranteed(container: Container) -> bool:
    """Return whether a container's requests for CPU and memory equal its limits (IsContainerEquivalentQOSGuaranteed).

    A CPU request of 0 needs no check: the container gets no exclusive CPUs anyway.
    """
    return container.complete and bool(dict(container.memory).get(MEMORY))


def _whole_cpus(milli_cpus: int | None) -> int:
    if milli_cpus is None:
        return 0
    cpus, fraction = divmod(milli_cpus, 1000)
    return 0 if fraction else cpus
