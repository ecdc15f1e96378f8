"""Allocation of CPUs, memory and devices to a container, from as few zones as possible.

The rules are simpler than those of the kubelet's static policies and Topology Manager:

- The zones and the CPUs with the lowest ids come first, and cores are not kept whole.
- "single-numa-node" is the only policy of the Topology Manager that rejects a pod for its alignment.

Memory follows the Memory Manager's group rule (pkg/kubelet/cm/memorymanager/policy_static.go). If several zones
together provide a block, they provide no other memory until that block is free.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from zonewise.kubelet.types import MemoryBlock, NumaNodeState
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_sandbox.kubelet.types import ExclusiveRequest, SimulatedDevice

Zones = tuple[int, ...]


class DoesNotFit(Exception):
    """The node lacks the resources for a pod, or has them only in zones that the policy does not allow together."""


class Allocation(NamedTuple):
    """The resources that one container holds."""

    cpus: CpuSet = EMPTY
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[SimulatedDevice, ...] = ()


class FreeResources(NamedTuple):
    """The free resources, and the Memory Manager's state; immutable."""

    cpus: Mapping[int, CpuSet]
    """Free CPUs by zone."""
    memory: Mapping[int, NumaNodeState]
    devices: tuple[SimulatedDevice, ...]
    """Free devices, sorted by resource and id."""

    def without(self, allocation: Allocation) -> FreeResources:
        """Return the free resources after an allocation."""
        memory = dict(self.memory)
        allocated = frozenset(allocation.devices)
        for block in allocation.memory:
            memory.update(_reserve_memory(memory, block))
        return FreeResources(
            {zone: cpus - allocation.cpus for zone, cpus in self.cpus.items()},
            memory,
            tuple(device for device in self.devices if device not in allocated),
        )


def admit(
    free: FreeResources, requests: Mapping[str, ExclusiveRequest], *, single_numa_node: bool, pod_scope: bool
) -> dict[str, Allocation]:
    """Return the allocation of each container of a pod; raise DoesNotFit if one of them does not fit.

    `single_numa_node`: each container must fit in a single zone. `pod_scope`: all containers get the same zones (scope
    "pod" of the Topology Manager).
    """
    if pod_scope:
        return _admit_within(free, requests, single=single_numa_node)
    allocations: dict[str, Allocation] = {}
    for name, request in requests.items():
        allocations |= _admit_within(free, {name: request}, single=single_numa_node)
        free = free.without(allocations[name])
    return allocations


def _admit_within(
    free: FreeResources, requests: Mapping[str, ExclusiveRequest], *, single: bool
) -> dict[str, Allocation]:
    for zones in _zone_sets(sorted({*free.cpus, *free.memory}), 1 if single else None):
        allocations: dict[str, Allocation] = {}
        remaining = free
        for name, request in requests.items():
            allocation = _allocate(remaining, request, zones)
            if allocation is None:
                break
            allocations[name] = allocation
            remaining = remaining.without(allocation)
        else:
            return allocations
    raise DoesNotFit(f"no zones for {', '.join(requests)}" + (" in a single zone" if single else ""))


def _zone_sets(zones: list[int], maximum: int | None) -> Iterator[Zones]:
    """Yield sets of zones, the smallest first, each in ascending order."""
    for size in range(1, (maximum or len(zones)) + 1):
        yield from itertools.combinations(zones, size)


def _allocate(free: FreeResources, request: ExclusiveRequest, zones: Zones) -> Allocation | None:
    """Return the request's allocation from these zones, or None if it does not fit."""
    cpus = _cpus(free, request.cpus, zones)
    memory = _memory(free, request.memory, zones)
    devices = _devices(free, request.devices, zones)
    return None if cpus is None or memory is None or devices is None else Allocation(cpus, memory, devices)


def _cpus(free: FreeResources, count: int, zones: Zones) -> CpuSet | None:
    cpus = [cpu for zone in zones for cpu in free.cpus.get(zone, EMPTY)]
    return CpuSet(cpus[:count]) if count <= len(cpus) else None


def _memory(free: FreeResources, request: Mapping[str, int], zones: Zones) -> tuple[MemoryBlock, ...] | None:
    zone_sets: list[Zones] = [(zone,) for zone in zones]
    if len(zones) > 1:
        zone_sets.append(zones)
    for zone_set in zone_sets:
        if _fits_memory(free.memory, request, zone_set):
            return tuple(MemoryBlock(kind, size, zone_set) for kind, size in sorted(request.items()))
    return () if not request else None


def _fits_memory(memory: Mapping[int, NumaNodeState], request: Mapping[str, int], zone_set: Zones) -> bool:
    """Return whether these zones together can provide the memory: no zone is in another group, and enough is free."""
    nodes = [memory[zone] for zone in zone_set if zone in memory]
    if len(nodes) < len(zone_set) or any(node.number_of_assignments and node.cells != zone_set for node in nodes):
        return False
    return all(
        size <= sum(node.memory_map[kind].free for node in nodes if kind in node.memory_map)
        for kind, size in request.items()
    )


def _reserve_memory(memory: Mapping[int, NumaNodeState], block: MemoryBlock) -> dict[int, NumaNodeState]:
    """Return the state of a block's zones after its allocation, which starts with the lowest zone."""
    remaining = block.size
    nodes: dict[int, NumaNodeState] = {}
    for zone in block.zones:
        node = memory[zone]
        table = node.memory_map[block.type]
        size = min(remaining, table.free)
        remaining -= size
        nodes[zone] = NumaNodeState(
            node.number_of_assignments + 1,
            block.zones,
            {**node.memory_map, block.type: table._replace(reserved=table.reserved + size, free=table.free - size)},
        )
    return nodes


def _devices(free: FreeResources, request: Mapping[str, int], zones: Zones) -> tuple[SimulatedDevice, ...] | None:
    allocated: list[SimulatedDevice] = []
    for resource, count in request.items():
        devices = [device for device in free.devices if device.resource == resource]
        candidates = [*_close_to(devices, zones), *(device for device in devices if not device.zones)]
        if count > len(candidates):
            return None
        allocated += candidates[:count]
    return tuple(allocated)


def _close_to(devices: Iterable[SimulatedDevice], zones: Zones) -> Iterator[SimulatedDevice]:
    return (device for device in devices if not set(zones).isdisjoint(device.zones))
