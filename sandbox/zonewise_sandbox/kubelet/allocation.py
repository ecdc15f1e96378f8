"""Which CPUs, memory and devices a container gets: of one zone where they fit there, else of as few as they fit in.

Close to the kubelet's static policies and Topology Manager, not equal to them: the zones with the lowest ids and the
CPUs with the lowest ids are taken, cores are not kept whole, and of the Topology Manager's policies "single-numa-node"
alone refuses a pod for where its parts would lie. Memory obeys the Memory Manager's rule of groups
(pkg/kubelet/cm/memorymanager/policy_static.go): zones from which one block was given together give nothing to others
until it is free.
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
    """The node has not got what a pod requests, or not in the zones where it may lie."""


class Allocation(NamedTuple):
    """What one container holds."""

    cpus: CpuSet = EMPTY
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[SimulatedDevice, ...] = ()


class FreeResources(NamedTuple):
    """What is free, and what the Memory Manager writes down; every change makes a new one."""

    cpus: Mapping[int, CpuSet]
    """Those that are free, by zone."""
    memory: Mapping[int, NumaNodeState]
    devices: tuple[SimulatedDevice, ...]
    """Those that are free, by resource and id."""

    def without(self, allocation: Allocation) -> FreeResources:
        """Return the ledger after a grant."""
        memory = dict(self.memory)
        gone = frozenset(allocation.devices)
        for block in allocation.memory:
            memory.update(_held(memory, block))
        return FreeResources(
            {zone: cpus - allocation.cpus for zone, cpus in self.cpus.items()},
            memory,
            tuple(device for device in self.devices if device not in gone),
        )


def admit(
    free: FreeResources, requests: Mapping[str, ExclusiveRequest], *, single_numa_node: bool, pod_scope: bool
) -> dict[str, Allocation]:
    """Return what each container of a pod gets; raise DoesNotFit where there is no place for one of them.

    `single`: each must lie in a single zone; `together`: all in the same zones (scope "pod" of the Topology Manager).
    """
    if pod_scope:
        return _admit_within(free, requests, single=single_numa_node)
    grants: dict[str, Allocation] = {}
    for name, request in requests.items():
        grants |= _admit_within(free, {name: request}, single=single_numa_node)
        free = free.without(grants[name])
    return grants


def _admit_within(
    ledger: FreeResources, requests: Mapping[str, ExclusiveRequest], *, single: bool
) -> dict[str, Allocation]:
    for zones in _sets_of_zones(sorted({*ledger.cpus, *ledger.memory}), 1 if single else None):
        grants: dict[str, Allocation] = {}
        left = ledger
        for name, request in requests.items():
            grant = _grant(left, request, zones)
            if grant is None:
                break
            grants[name] = grant
            left = left.without(grant)
        else:
            return grants
    raise DoesNotFit(f"no place for {', '.join(requests)}" + (" in a single zone" if single else ""))


def _sets_of_zones(zones: list[int], most: int | None) -> Iterator[Zones]:
    """Yield sets of zones, the smallest first, each in ascending order."""
    for size in range(1, (most or len(zones)) + 1):
        yield from itertools.combinations(zones, size)


def _grant(ledger: FreeResources, request: ExclusiveRequest, zones: Zones) -> Allocation | None:
    """Return what the request gets of these zones; None where it does not fit."""
    cpus = _cpus(ledger, request.cpus, zones)
    memory = _memory(ledger, request.memory, zones)
    devices = _devices(ledger, request.devices, zones)
    return None if cpus is None or memory is None or devices is None else Allocation(cpus, memory, devices)


def _cpus(ledger: FreeResources, count: int, zones: Zones) -> CpuSet | None:
    free = [cpu for zone in zones for cpu in ledger.cpus.get(zone, EMPTY)]
    return CpuSet(free[:count]) if count <= len(free) else None


def _memory(ledger: FreeResources, wanted: Mapping[str, int], zones: Zones) -> tuple[MemoryBlock, ...] | None:
    places: list[Zones] = [(zone,) for zone in zones]
    if len(zones) > 1:
        places.append(zones)
    for place in places:
        if _gives(ledger.memory, wanted, place):
            return tuple(MemoryBlock(kind, size, place) for kind, size in sorted(wanted.items()))
    return () if not wanted else None


def _gives(memory: Mapping[int, NumaNodeState], wanted: Mapping[str, int], place: Zones) -> bool:
    """Tell whether these zones together can give memory: none is in another group, and enough is free."""
    nodes = [memory[zone] for zone in place if zone in memory]
    if len(nodes) < len(place) or any(node.number_of_assignments and node.cells != place for node in nodes):
        return False
    return all(
        size <= sum(node.memory_map[kind].free for node in nodes if kind in node.memory_map)
        for kind, size in wanted.items()
    )


def _held(memory: Mapping[int, NumaNodeState], block: MemoryBlock) -> dict[int, NumaNodeState]:
    """Return the nodes of a block's zones after it was given: what is free goes from the lowest zone upwards."""
    left = block.size
    nodes: dict[int, NumaNodeState] = {}
    for zone in block.zones:
        node = memory[zone]
        table = node.memory_map[block.type]
        part = min(left, table.free)
        left -= part
        nodes[zone] = NumaNodeState(
            node.number_of_assignments + 1,
            block.zones,
            {**node.memory_map, block.type: table._replace(reserved=table.reserved + part, free=table.free - part)},
        )
    return nodes


def _devices(ledger: FreeResources, wanted: Mapping[str, int], zones: Zones) -> tuple[SimulatedDevice, ...] | None:
    given: list[SimulatedDevice] = []
    for resource, count in wanted.items():
        free = [device for device in ledger.devices if device.resource == resource]
        near = [*_near(free, zones), *(device for device in free if not device.zones)]
        if count > len(near):
            return None
        given += near[:count]
    return tuple(given)


def _near(devices: Iterable[SimulatedDevice], zones: Zones) -> Iterator[SimulatedDevice]:
    return (device for device in devices if not set(zones).isdisjoint(device.zones))
