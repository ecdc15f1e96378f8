"""Allocation of pod-level resources to a pod as a whole, in scope pod.

See KEP-5526, feature gate PodLevelResourceManagers, since 1.36. The pod gets one set of CPUs and one set of memory.
Containers with guaranteed requests get exclusive parts of these sets. The others share the rest (cpumanager and
memorymanager policy_static.go AllocatePod).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager import (
    CpuAllocationError,
    allocate_cpus,
    divide_pod_cpus,
    empty_shared_pool,
    pod_guaranteed_cpus,
)
from zonewise_scheduler.admission.cpumanager.policy_static import enforce_smt_alignment
from zonewise_scheduler.admission.devicemanager.manager import allocate_container_devices
from zonewise_scheduler.admission.errors import EMPTY_POD_SHARED_POOL_ERROR, AdmissionError, unexpected_admission_error
from zonewise_scheduler.admission.memorymanager.memory_allocation import allocation_zones, update_machine_state
from zonewise_scheduler.admission.memorymanager.memory_requests import (
    empty_shared_memory_pool,
    memory_request,
    pins_memory,
)
from zonewise_scheduler.admission.resource_names import CPU, MEMORY
from zonewise_scheduler.admission.verdict import MemoryBlock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape
    from zonewise_scheduler.admission.topologymanager.hints import TopologyHint


def empty_shared_pools(pod: PodShape, policies: Policies) -> dict[str, str]:
    """Return, by manager, the error message if containers that share would get nothing (validatePodScopeResources)."""
    cpus = empty_shared_pool(pod, policies) if pod_guaranteed_cpus(pod, policies) else None
    memory = empty_shared_memory_pool(pod, policies) if pins_memory(pod, policies) else None
    return {manager: problem for manager, problem in ((CPU, cpus), (MEMORY, memory)) if problem}


def allocate_pod(
    context: AdmissionContext, aligned: AlignedRequest, alignment: TopologyHint, empty: Mapping[str, str]
) -> None:
    """Allocate CPUs and memory to a pod as a whole, and divide them among the containers.

    Raises AdmissionError if the kubelet rejects the pod. The Device Manager allocates devices from the same zones when
    the containers start. If it fails then, the pod is already admitted.
    """
    context.container_name, context.affinity = "", alignment.zones
    if aligned.cpus:
        _reject_empty_pool(empty, CPU)
        _allocate_pod_cpus(context, aligned.cpus, alignment.zones)
    if aligned.memory:
        _reject_empty_pool(empty, MEMORY)
        _allocate_pod_memory(context, aligned.memory, alignment)
    for container in context.pod.containers:
        _allocate_devices_at_start(context, container, alignment.zones)


def _reject_empty_pool(empty: Mapping[str, str], manager: str) -> None:
    if manager in empty:
        raise AdmissionError(EMPTY_POD_SHARED_POOL_ERROR, empty[manager], manager)


def _allocate_devices_at_start(context: AdmissionContext, container: Container, zones: int | None) -> None:
    """Allocate devices resource by resource: a container that lacks some holds the others while the kubelet retries."""
    for request in container.devices:
        try:
            allocate_container_devices(context, container._replace(devices=(request,)), zones)
        except AdmissionError as error:
            context.uncertain.append(f"container {container.name} will not start for lack of {error.resource}")


def _allocate_pod_cpus(context: AdmissionContext, count: int, zones: int | None) -> None:
    state = context.state
    enforce_smt_alignment(state, count)
    try:
        cpus = allocate_cpus(state, count, zones, 0)
        container_cpus = divide_pod_cpus(state.kind, context.pod, cpus)
    except CpuAllocationError as error:
        raise unexpected_admission_error(str(error), CPU) from None
    context.cpus = {
        container.name: assigned for container, assigned in zip(context.pod.containers, container_cpus, strict=True)
    }
    context.state = state._replace(free_cpus=state.free_cpus & ~cpus)


def _allocate_pod_memory(context: AdmissionContext, pod_memory: Amounts, alignment: TopologyHint) -> None:
    pod = context.pod
    zones = allocation_zones(context, pod_memory, alignment)
    pool, shared_containers = Counter(dict(pod_memory)), list[str]()
    for container in pod.containers:
        exclusive = memory_request(pod, container, context.state.kind.policies)
        if container.role == "init":
            context.memory[container.name] = _blocks(exclusive or tuple(pool.items()), zones)
        elif exclusive:
            context.memory[container.name] = _blocks(exclusive, zones)
            pool.subtract(dict(exclusive))
        else:
            shared_containers.append(container.name)
    for name in shared_containers:
        context.memory[name] = _blocks(tuple(pool.items()), zones)
    for name, size in pod_memory:
        context.state = update_machine_state(context.state, zones, name, size)


def _blocks(amounts: Amounts, zones: int) -> list[MemoryBlock]:
    return [MemoryBlock(name, zones, size) for name, size in amounts if size > 0]
