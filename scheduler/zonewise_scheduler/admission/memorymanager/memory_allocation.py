"""Allocations of the Memory Manager (pkg/kubelet/cm/memorymanager/policy_static.go Allocate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.errors import unexpected_admission_error
from zonewise_scheduler.admission.memorymanager.memory_hints import MemoryView, find_best_hint
from zonewise_scheduler.admission.resource_names import MEMORY
from zonewise_scheduler.admission.topologymanager.bitmask import members
from zonewise_scheduler.admission.verdict import MemoryBlock

if TYPE_CHECKING:
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import Amounts, Container
    from zonewise_scheduler.admission.topologymanager.hints import TopologyHint

NO_DEFAULT_HINT = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
DEFAULT_HINT_NOT_PREFERRED = "[memorymanager] failed to find the default preferred hint"
NO_EXTENDED_HINT = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
EXTENDED_HINT_NOT_PREFERRED = "[memorymanager] failed to find the extended preferred hint"
HINT_VIOLATES_ALLOCATION = "[memorymanager] preferred hint violates NUMA node allocation"


def allocate_container_memory(
    context: AdmissionContext, container: Container, requests: Amounts, alignment: TopologyHint
) -> None:
    """Allocate memory (bytes by type) to a container from one set of zones; raise AdmissionError if none suffices."""
    zones = allocation_zones(context, requests, alignment)
    blocks = [MemoryBlock(name, zones, size) for name, size in requests]
    for name, size in requests:
        reusable = context.reusable_memory.get((zones, name), 0)
        context.state = update_machine_state(context.state, zones, name, max(0, size - reusable))
    _update_reusable_memory(context, container, blocks)
    context.memory[container.name] = blocks


def allocation_zones(context: AdmissionContext, requests: Amounts, alignment: TopologyHint) -> int:
    """Return the zones to allocate from: those of the alignment, extended if they have too little memory."""
    state, reusable = context.state, context.reusable_memory
    zones, preferred = alignment
    if zones is None:
        best = find_best_hint(state, requests, reusable, 0)
        if best is None:
            raise unexpected_admission_error(NO_DEFAULT_HINT, MEMORY)
        if preferred and not best[1]:
            raise unexpected_admission_error(DEFAULT_HINT_NOT_PREFERRED, MEMORY)
        zones, preferred = best
    view = MemoryView(state, requests, reusable)
    if not view.satisfies_request(zones):
        best = find_best_hint(state, requests, reusable, zones)
        if best is None:
            raise unexpected_admission_error(NO_EXTENDED_HINT, MEMORY)
        if preferred and not best[1]:
            raise unexpected_admission_error(EXTENDED_HINT_NOT_PREFERRED, MEMORY)
        zones = best[0]
    # 1.31 does not check this and mixes groups (kubernetes#128669)
    if state.kind.policies.release >= (1, 32) and view.violates_numa_allocations(zones):
        raise unexpected_admission_error(HINT_VIOLATES_ALLOCATION, MEMORY)
    return zones


def update_machine_state(state: NodeState, zones: int, name: str, size: int) -> NodeState:
    """Return the state after bytes have been allocated from zones, lowest zone first (updateMachineState).

    The zones form a group from then on.
    """
    kind = state.kind
    column = kind.memory_types.index(name) if name in kind.memory_types else None
    free, groups = list(state.memory_free), list(state.memory_groups)
    for zone in members(zones):
        index = kind.zones.index(zone)
        groups[index] = zones
        if column is not None:
            row = free[index]
            allocated = min(row[column], size)
            size -= allocated
            free[index] = (*row[:column], row[column] - allocated, *row[column + 1 :])
    return state._replace(
        memory_free=tuple(free), memory_groups=tuple(groups), memory_assigned=state.memory_assigned | zones
    )


def _update_reusable_memory(context: AdmissionContext, container: Container, blocks: list[MemoryBlock]) -> None:
    """Record the memory that ended init containers leave for later containers.

    Sources: updatePodReusableMemory, and updateInitContainersMemoryBlocks, which keeps the total of the pod's blocks
    correct.
    """
    for name, zones, size in blocks:
        reusable = context.reusable_memory.get((zones, name), 0)
        init = container.role == "init"
        context.reusable_memory[zones, name] = max(reusable, size) if init else max(0, reusable - size)
        _shrink_init_blocks(context, name, zones, size)


def _shrink_init_blocks(context: AdmissionContext, name: str, zones: int, size: int) -> None:
    """Shrink the blocks of earlier init containers by the reused memory; later ones have no blocks yet."""
    for earlier in context.pod.containers:
        blocks = context.memory.get(earlier.name, []) if earlier.role == "init" else []
        for index, block in enumerate(blocks):
            if block.type == name and block.zones == zones:
                reused = min(block.size, size)
                blocks[index] = block._replace(size=block.size - reused)
                size -= reused
