"""Pods with resources of their own that are given whole, in scope pod (KEP-5526, gate PodLevelResourceManagers, 1.36).

The pod gets one set of CPUs and one of memory. Containers that are complete have their part of it exclusively, and the
others share what remains (cpumanager and memorymanager policy_static.go AllocatePod).
"""

from __future__ import annotations

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
    """Return, by manager, why containers that share would have nothing to share (validatePodScopeResources)."""
    cpus = empty_shared_pool(pod, policies) if pod_guaranteed_cpus(pod, policies) else None
    memory = empty_shared_memory_pool(pod, policies) if pins_memory(pod, policies) else None
    return {manager: problem for manager, problem in ((CPU, cpus), (MEMORY, memory)) if problem}


def allocate_pod(
    context: AdmissionContext, aligned: AlignedRequest, alignment: TopologyHint, empty: Mapping[str, str]
) -> None:
    """Give a pod its CPUs and memory as one, and share them out among its containers; raise Refusal.

    The Device Manager takes no part in it: it gives out devices when the containers start, from the same zones.
    """
    context.container_name, context.affinity = "", alignment.zones
    if aligned.cpus:
        _refuse_empty(empty, CPU)
        _give_cpus(context, aligned.cpus, alignment.zones)
    if aligned.memory:
        _refuse_empty(empty, MEMORY)
        _give_memory(context, aligned.memory, alignment)
    for container in context.pod.containers:
        _give_devices_later(context, container, alignment.zones)


def _refuse_empty(empty: Mapping[str, str], manager: str) -> None:
    if manager in empty:
        raise AdmissionError(EMPTY_POD_SHARED_POOL_ERROR, empty[manager], manager)


def _give_devices_later(books: AdmissionContext, container: Container, zones: int | None) -> None:
    try:
        allocate_container_devices(books, container, zones)
    except AdmissionError as refusal:
        books.uncertain.append(f"container {container.name} will not start for want of {refusal.resource}")


def _give_cpus(books: AdmissionContext, count: int, zones: int | None) -> None:
    state = books.state
    enforce_smt_alignment(state, count)
    try:
        cpus = allocate_cpus(state, count, zones, 0)
        parts = divide_pod_cpus(state.kind, books.pod, cpus)
    except CpuAllocationError as shortage:
        raise unexpected_admission_error(str(shortage), CPU) from None
    books.cpus = {one.name: part for one, part in zip(books.pod.containers, parts, strict=True)}
    books.state = state._replace(free_cpus=state.free_cpus & ~cpus)


def _give_memory(books: AdmissionContext, whole: Amounts, alignment: TopologyHint) -> None:
    pod = books.pod
    zones = allocation_zones(books, whole, alignment)
    pool, sharers = dict(whole), list[str]()
    for one in pod.containers:
        own = memory_request(pod, one, books.state.kind.policies)
        if one.role == "init":
            books.memory[one.name] = _shares(own or tuple(pool.items()), zones)
        elif own:
            books.memory[one.name] = _shares(own, zones)
            pool |= {name: pool.get(name, 0) - size for name, size in own}
        else:
            sharers.append(one.name)
    for name in sharers:
        books.memory[name] = _shares(tuple(pool.items()), zones)
    for name, size in whole:
        books.state = update_machine_state(books.state, zones, name, size)


def _shares(amounts: Amounts, zones: int) -> list[MemoryBlock]:
    return [MemoryBlock(name, zones, size) for name, size in amounts if size > 0]
