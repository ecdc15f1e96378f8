"""Memory and huge pages: what the Memory Manager gives of each zone, and what of that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.allocations import memory_blocks
from zonewise.usage.memory_machine_state import MemoryMachineState
from zonewise.usage.policies import is_memory_manager_static
from zonewise.usage.types import Amount
from zonewise.usage.zone_capacity import canonical_order, memory_capacity, shared_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import KubeletReport, MemoryBlock
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.usage.memory_machine_state import ZoneMemory
    from zonewise.usage.pod_matching import PodMatching


class MemoryUsage(NamedTuple):
    """The memory of the node."""

    amounts: dict[int, dict[str, Amount]]
    """By zone and type, those of the machine's zones."""
    groups: dict[int, tuple[int, ...]]
    assigned: tuple[int, ...] | None = None
    """Zones; None where the Memory Manager gives none."""
    problems: tuple[str, ...] = ()


def memory_usage(
    machine: Machine, report: KubeletReport, owners: PodMatching, excluded: tuple[MemoryBlock, ...]
) -> MemoryUsage:
    """Return how much memory of each zone can be given and is left; what is excluded counts as reserved."""
    if not is_memory_manager_static(report):
        return _shared(machine, report)
    allocatable, problems = _allocatable(report.allocatable.memory)
    ledger = _ledger(report, owners, allocatable)
    groups = {zone.id: ledger.group(zone.id) for zone in machine.zones}
    free, assigned = ledger.free(), ledger.assigned()
    ledger.release(excluded)
    given = ledger.free()
    kept = {place: max(0, size - (given.get(place, 0) - free.get(place, 0))) for place, size in allocatable.items()}
    amounts = {zone.id: _amounts(zone, _of_zone(kept, zone.id), _of_zone(free, zone.id)) for zone in machine.zones}
    strange = _strange(machine, allocatable, report)
    return MemoryUsage(amounts, groups, assigned, (*problems, *strange, *_beyond(machine, allocatable)))


def _shared(machine: Machine, report: KubeletReport) -> MemoryUsage:
    """Return the memory of a node whose pods all share it."""
    reserved: dict[int, dict[str, int]] = {}
    for zone, kind, size in report.config.reserved_memory if report.config is not None else ():
        of_zone = reserved.setdefault(zone, {})
        of_zone[kind] = of_zone.get(kind, 0) + max(0, size)
    amounts = {zone.id: shared_memory(zone, reserved.get(zone.id, {})) for zone in machine.zones}
    return MemoryUsage(amounts, dict.fromkeys(amounts, ()))


def _ledger(report: KubeletReport, owners: PodMatching, allocatable: ZoneMemory) -> MemoryMachineState:
    """Return the Memory Manager's book as it is when the next pod asks.

    At that moment the kubelet first gives back what it has noted for pods that are gone (memory_manager.go
    removeStaleState), so that it is free now. Without the checkpoint the book is made up from what List tells.
    """
    state = report.state.memory
    if state is None or not state.machine_state:
        ledger = MemoryMachineState.idle(allocatable)
        ledger.assign(memory_blocks(report.pods))
        return ledger
    ledger = MemoryMachineState.from_checkpoint(state)
    gone = (containers for uid, containers in state.entries.items() if uid not in owners.alive)
    ledger.release(block for containers in gone for blocks in containers.values() for block in blocks)
    ledger.assign(memory_blocks(owners.unrecorded))
    return ledger


def _allocatable(blocks: Iterable[MemoryBlock]) -> tuple[ZoneMemory, tuple[str, ...]]:
    """Return what the API says can be given; a block is of one zone (policy_static.go GetAllocatableMemory)."""
    found: ZoneMemory = {}
    problems: list[str] = []
    for block in blocks:
        if len(block.zones) == 1:
            place = (block.zones[0], block.type)
            found[place] = found.get(place, 0) + max(0, block.size)
        else:
            problems.append(
                f"the kubelet can give {block.size} bytes of {block.type} of "
                f"{'no zone' if not block.zones else 'several zones'}: they are not counted"
            )
    return found, tuple(problems)


def _amounts(zone: Zone, allocatable: dict[str, int], free: dict[str, int]) -> dict[str, Amount]:
    capacity = memory_capacity(zone)
    found: dict[str, Amount] = {}
    for kind in canonical_order({*capacity, *allocatable}):
        size = allocatable.get(kind, 0)
        # the kubelet counted when it started; pools of huge pages may have been made smaller since
        found[kind] = Amount(max(capacity.get(kind, 0), size), size, max(0, min(size, free.get(kind, 0))))
    return found


def _of_zone(amounts: ZoneMemory, zone: int) -> dict[str, int]:
    return {kind: size for (of_zone, kind), size in amounts.items() if of_zone == zone}


# --- what makes no sense


def _strange(machine: Machine, allocatable: ZoneMemory, report: KubeletReport) -> Iterator[str]:
    known = {zone.id for zone in machine.zones}
    for (zone, kind), size in allocatable.items():
        if zone not in known and size:
            yield f"the kubelet can give {size} bytes of {kind} of zone {zone}, which this machine does not have"
    for block in memory_blocks(report.pods):
        if block.size > 0 and not any((zone, block.type) in allocatable for zone in block.zones):
            places = f"zones {', '.join(map(str, block.zones))}" if block.zones else "no zone"
            yield f"a pod holds {block.size} bytes of {block.type} of {places}, where the kubelet has none to give"


def _beyond(machine: Machine, allocatable: ZoneMemory) -> Iterator[str]:
    for zone in machine.zones:
        capacity = memory_capacity(zone)
        for kind, size in _of_zone(allocatable, zone.id).items():
            if kind in capacity and size > capacity[kind]:
                yield f"the kubelet can give {size} bytes of {kind} of zone {zone.id}, which has {capacity[kind]}"
