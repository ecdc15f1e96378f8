"""Memory and huge pages: how much of each zone the Memory Manager allocates, and how much of that is available."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.allocations import memory_blocks
from zonewise.usage.memory_machine_state import MemoryMachineState
from zonewise.usage.policies import is_memory_manager_static
from zonewise.usage.types import Amount, ExcludedAmount
from zonewise.usage.zone_capacity import MEMORY, canonical_order, memory_capacity, shared_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import KubeletReport, MemoryBlock
    from zonewise.machine.model.machine import Machine
    from zonewise.usage.memory_machine_state import ZoneMemory
    from zonewise.usage.pod_matching import PodMatching


class MemoryUsage(NamedTuple):
    """The memory of the node."""

    amounts: dict[int, dict[str, Amount]]
    """Amounts by zone and type, for the machine's zones."""
    groups: dict[int, tuple[int, ...]]
    assigned: tuple[int, ...] | None = None
    """Zones with assigned memory; None if the Memory Manager assigns none."""
    problems: tuple[str, ...] = ()
    excluded: tuple[ExcludedAmount, ...] = ()
    """Amounts in bytes, each of one zone."""


def memory_usage(
    machine: Machine, report: KubeletReport, owners: PodMatching, excluded: tuple[MemoryBlock, ...]
) -> MemoryUsage:
    """Return how much memory of each zone is allocatable and available; excluded memory counts as reserved."""
    if not is_memory_manager_static(report):
        return _shared_memory_usage(machine, report)
    allocatable, problems = _allocatable(report.allocatable.memory)
    state = _machine_state(report, owners, allocatable)
    groups = {zone.id: state.group(zone.id) for zone in machine.zones}
    free, assigned = state.free(), state.assigned()
    state.release(excluded)
    without_excluded = state.free()
    usable = {
        key: max(0, size - (without_excluded.get(key, 0) - free.get(key, 0))) for key, size in allocatable.items()
    }
    capacity = {zone.id: memory_capacity(zone) | _kubelet_capacity(report, zone.id) for zone in machine.zones}
    amounts = {
        zone: _amounts(sizes, _zone_memory(usable, zone), _zone_memory(free, zone)) for zone, sizes in capacity.items()
    }
    problems = (*problems, *_unknown_zones(machine, allocatable, report), *_over_capacity(machine, allocatable))
    return MemoryUsage(amounts, groups, assigned, problems, tuple(_excluded(allocatable, usable)))


def _shared_memory_usage(machine: Machine, report: KubeletReport) -> MemoryUsage:
    """Return the memory of a node whose pods all share it."""
    reserved: dict[int, dict[str, int]] = {}
    for zone, kind, size in report.config.reserved_memory if report.config is not None else ():
        zone_reserved = reserved.setdefault(zone, {})
        zone_reserved[kind] = zone_reserved.get(kind, 0) + max(0, size)
    amounts = {zone.id: shared_memory(zone, reserved.get(zone.id, {})) for zone in machine.zones}
    return MemoryUsage(amounts, dict.fromkeys(amounts, ()))


def _machine_state(report: KubeletReport, owners: PodMatching, allocatable: ZoneMemory) -> MemoryMachineState:
    """Return the Memory Manager's state as the next admission will see it.

    At that admission the kubelet first releases the entries of deleted pods (memory_manager.go removeStaleState), so
    their memory counts as free now. Without the checkpoint the state is rebuilt from List.
    """
    state = report.state.memory
    if state is None or not state.machine_state:
        machine_state = MemoryMachineState.idle(allocatable)
        machine_state.assign(memory_blocks(report.pods))
        return machine_state
    machine_state = MemoryMachineState.from_checkpoint(state)
    stale = (containers for uid, containers in state.entries.items() if uid not in owners.alive)
    machine_state.release(block for containers in stale for blocks in containers.values() for block in blocks)
    machine_state.assign(memory_blocks(owners.unrecorded))
    return machine_state


def _allocatable(blocks: Iterable[MemoryBlock]) -> tuple[ZoneMemory, tuple[str, ...]]:
    """Return the allocatable sizes from the API; each block belongs to one zone (policy_static.go
    GetAllocatableMemory).
    """
    sizes: ZoneMemory = {}
    problems: list[str] = []
    for block in blocks:
        if len(block.zones) == 1:
            key = (block.zones[0], block.type)
            sizes[key] = sizes.get(key, 0) + max(0, block.size)
        else:
            problems.append(
                f"{block.size} allocatable bytes of {block.type} belong to "
                f"{'no zone' if not block.zones else 'several zones'} and are not counted"
            )
    return sizes, tuple(problems)


def _excluded(allocatable: ZoneMemory, usable: ZoneMemory) -> Iterator[ExcludedAmount]:
    for (zone, kind), size in allocatable.items():
        if usable[zone, kind] != size:
            yield ExcludedAmount(kind, (zone,), size - usable[zone, kind])


def _kubelet_capacity(report: KubeletReport, zone: int) -> dict[str, int]:
    """Return the bytes of ordinary memory that the kubelet counted in a zone at its start; none if unknown.

    The kernel may have initialized more since. The kubelet continues with its own count.
    """
    node = report.state.memory.machine_state.get(zone) if report.state.memory is not None else None
    table = node.memory_map.get(MEMORY) if node is not None else None
    return {MEMORY: table.total} if table is not None and table.total > 0 else {}


def _amounts(capacity: dict[str, int], allocatable: dict[str, int], free: dict[str, int]) -> dict[str, Amount]:
    amounts: dict[str, Amount] = {}
    for kind in canonical_order({*capacity, *allocatable}):
        size = allocatable.get(kind, 0)
        # the kubelet counted at its start; huge page pools may have shrunk since
        amounts[kind] = Amount(max(capacity.get(kind, 0), size), size, max(0, min(size, free.get(kind, 0))))
    return amounts


def _zone_memory(amounts: ZoneMemory, zone: int) -> dict[str, int]:
    return {kind: size for (key_zone, kind), size in amounts.items() if key_zone == zone}


# --- contradictions


def _unknown_zones(machine: Machine, allocatable: ZoneMemory, report: KubeletReport) -> Iterator[str]:
    known = {zone.id for zone in machine.zones}
    for (zone, kind), size in allocatable.items():
        if zone not in known and size:
            yield f"{size} allocatable bytes of {kind} belong to zone {zone}, which this machine does not have"
    for block in memory_blocks(report.pods):
        if block.size > 0 and not any((zone, block.type) in allocatable for zone in block.zones):
            zones = f"zones {', '.join(map(str, block.zones))}" if block.zones else "no zone"
            yield f"a pod holds {block.size} bytes of {block.type} of {zones}, which have no allocatable bytes"


def _over_capacity(machine: Machine, allocatable: ZoneMemory) -> Iterator[str]:
    for zone in machine.zones:
        capacity = memory_capacity(zone)
        for kind, size in _zone_memory(allocatable, zone.id).items():
            if kind in capacity and size > capacity[kind]:
                yield f"{size} bytes of {kind} are allocatable in zone {zone.id}, which has only {capacity[kind]}"
