"""A random node with live and deleted pods, and its kubelet's report; the true allocations are known.

Blocks of several zones follow the rules of pkg/kubelet/cm/memorymanager/policy_static.go; other allocations are
arbitrary. Deleted pods are absent from List but still in the files, unless the CPU Manager has reconciled them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from zonewise.kubelet.types import (
    Allocatable,
    ContainerDevices,
    ContainerResources,
    CpuManagerState,
    DeviceCheckpoint,
    KubeletConfig,
    KubeletReport,
    MemoryBlock,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    PodDevicesEntry,
    PodResources,
    StateFiles,
)
from zonewise.machine.model.cpu import Core, Cpus
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.zone import Zone
from zonewise.usage.node_usage import KubeletNotReady, exclude_none, node_usage
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.usage.types import Usage


GIB = 1 << 30
CONFIG = KubeletConfig(cpu_manager_policy="static", memory_manager_policy="Static")
RESERVED = CpuSet((0,))
DEVICE = "example.com/dev"


def make_node(zones: tuple[int, ...], cpus: int = 8, memory: int = 16 * GIB) -> Machine:
    """Return a machine with zones of these ids, each with this many CPUs and bytes."""
    zone_values = tuple(
        Zone(
            zone,
            held,
            held,
            memory,
            {"2Mi": 512},
            {str(column): 10 if column == zone else 20 for column in zones},
            "cpu",
        )
        for zone, held in zip(zones, _blocks(len(zones), cpus), strict=True)
    )
    online = CpuSet.union(zone.cpus for zone in zone_values)
    cores = tuple(Core(cpu, 0, zone.id, CpuSet((cpu,))) for zone in zone_values for cpu in zone.cpus)
    return Machine(cpus=Cpus(online, EMPTY), cores=cores, zones=zone_values)


def _blocks(count: int, length: int) -> list[CpuSet]:
    return [CpuSet(range(number * length, (number + 1) * length)) for number in range(count)]


def make_allocatable(machine: Machine, devices: tuple[ContainerDevices, ...] = ()) -> Allocatable:
    """Return all CPUs except RESERVED, all memory except the huge page pools, and these pools."""
    memory: list[MemoryBlock] = []
    for zone in machine.zones:
        memory.append(MemoryBlock("memory", (zone.memory or 0) - GIB, (zone.id,)))
        memory.append(MemoryBlock("hugepages-2Mi", GIB, (zone.id,)))
    return Allocatable(CpuSet.union(zone.cpus for zone in machine.zones) - RESERVED, devices, tuple(memory))


class Record(NamedTuple):
    """A pod with allocations."""

    uid: str
    pod: PodResources
    """The pod in the response of List."""
    ended_init_containers: tuple[ContainerResources, ...] = ()
    """Init containers that have ended."""
    alive: bool = True
    reconciled: bool = True
    """Whether the CPU Manager has removed the pod from its file, if the pod is not alive."""

    @property
    def containers(self) -> tuple[ContainerResources, ...]:
        return (*self.pod.containers, *self.ended_init_containers)


class NodeHistory(NamedTuple):
    """A node, and all pods with entries in its checkpoints."""

    machine: Machine
    records: tuple[Record, ...]
    devices: tuple[ContainerDevices, ...] = ()

    @property
    def ended(self) -> frozenset[str]:
        """The UIDs of pods that are not alive."""
        return frozenset(record.uid for record in self.records if not record.alive)

    def report(self, *, files: bool = True) -> KubeletReport:
        alive = tuple(record.pod for record in self.records if record.alive)
        state = StateFiles(self._cpus(), self._memory(), self._checkpoint()) if files else StateFiles()
        return KubeletReport(alive, make_allocatable(self.machine, self.devices), CONFIG, state)

    def _cpus(self) -> CpuManagerState:
        entries = {
            record.uid: {container.name: container.cpus for container in record.containers if container.cpus}
            for record in self.records
            if record.alive or not record.reconciled
        }
        held = CpuSet.union(cpus for containers in entries.values() for cpus in containers.values())
        return CpuManagerState("static", CpuSet.union(zone.cpus for zone in self.machine.zones) - held, entries)

    def _memory(self) -> MemoryManagerState:
        """Return the state with all blocks, including those of deleted pods."""
        free = {(block.zones[0], block.type): block.size for block in make_allocatable(self.machine).memory}
        allocatable = dict(free)
        total = allocatable | {(zone.id, "memory"): zone.memory or 0 for zone in self.machine.zones}
        assignments = {zone.id: 0 for zone in self.machine.zones}
        cells: dict[int, tuple[int, ...]] = {zone.id: (zone.id,) for zone in self.machine.zones}
        for block in (
            block for record in self.records for container in record.containers for block in container.memory
        ):
            left = block.size
            for zone in block.zones:
                assignments[zone] += 1
                cells[zone] = block.zones
                part = min(left, free[zone, block.type])
                free[zone, block.type] -= part
                left -= part
        nodes = {
            zone.id: NumaNodeState(
                assignments[zone.id],
                cells[zone.id],
                {
                    kind: MemoryTable(total[at, kind], 0, allocatable[at, kind], allocatable[at, kind] - size, size)
                    for (at, kind), size in free.items()
                    if at == zone.id
                },
            )
            for zone in self.machine.zones
        }
        entries = {record.uid: {one.name: one.memory for one in record.containers} for record in self.records}
        return MemoryManagerState("Static", nodes, entries)

    def _checkpoint(self) -> DeviceCheckpoint:
        return DeviceCheckpoint(
            tuple(
                PodDevicesEntry(record.uid, container.name, held.resource, dict.fromkeys(held.zones or (-1,), held.ids))
                for record in self.records
                for container in record.containers
                for held in container.devices
            ),
            {},
        )


class _Stock:
    """Resources that are not allocated yet."""

    def __init__(self, machine: Machine, devices: tuple[ContainerDevices, ...]) -> None:
        self.cpus = {zone.id: list(zone.cpus - RESERVED) for zone in machine.zones}
        self.memory = {zone.id: (zone.memory or 0) - GIB for zone in machine.zones}
        self.devices = list(devices)

    def container(self, draw: st.DrawFn, name: str, groups: list[tuple[int, ...]]) -> ContainerResources:
        group = draw(st.sampled_from(groups))
        cpus = CpuSet(self.cpus[group[0]].pop() for _ in range(min(draw(st.integers(0, 3)), len(self.cpus[group[0]]))))
        size = draw(st.sampled_from([0, 1, 1, 2, 3])) * GIB
        if size > sum(self.memory[zone] for zone in group):
            size = 0
        left = size
        for zone in group:
            part = min(left, self.memory[zone])
            self.memory[zone] -= part
            left -= part
        memory = (MemoryBlock("memory", size, group),) if size else ()
        devices = (self.devices.pop(),) if self.devices and draw(st.integers(0, 3)) == 0 else ()
        return ContainerResources(name, cpus, devices, memory)


@st.composite
def node_histories(draw: st.DrawFn, *, inits: bool = True) -> NodeHistory:
    """Draw a node with pods. Groups of zones do not overlap, an invariant of the Memory Manager.

    Without init containers, no container holds a part of what another may hold, so no two containers can be confused.
    """
    ids = tuple(sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=4))))
    machine = make_node(ids)
    wide = draw(st.integers(0, len(ids)))
    groups = [tuple(ids[:wide])] if wide > 1 else []
    groups += [(zone,) for zone in (ids[wide:] if wide > 1 else ids)]
    near: Any = st.sets(st.sampled_from(ids), max_size=2).map(lambda zones: tuple(sorted(zones)))
    devices = tuple(ContainerDevices(DEVICE, (f"d{number}",), draw(near)) for number in range(draw(st.integers(0, 5))))
    stock = _Stock(machine, devices)
    records: list[Record] = []
    for number in range(draw(st.integers(0, 7))):
        names = draw(st.sampled_from([("c",), ("d", "e"), *([("c", "d"), ("d",)] if inits else [])]))
        listed = tuple(stock.container(draw, name, groups) for name in names)
        left = (stock.container(draw, "init", groups),) if inits and draw(st.booleans()) else ()
        pod = PodResources("ns", f"p{number}", listed)
        uid = f"{draw(st.integers(0, 99)):02d}-{number}"
        records.append(Record(uid, pod, left, draw(st.integers(0, 2)) > 0, draw(st.booleans())))
    return NodeHistory(machine, tuple(records), devices)


TWO = make_node((0, 1))
NO_FILES = StateFiles()


def compute_usage(
    machine: Machine, report: KubeletReport, excluded: Callable[[PodResources], bool] = exclude_none
) -> Usage:
    """Return the usage of a node; fail if its kubelet is not ready."""
    usage = node_usage(machine, report, excluded=excluded)
    assert not isinstance(usage, KubeletNotReady)
    return usage


def amounts(usage: Usage, resource: str) -> dict[int, tuple[int, ...]]:
    """Return the capacity, allocatable and available amount of a resource by zone."""
    return {
        zone_usage.zone: tuple(zone_usage.amounts[resource])
        for zone_usage in usage.zones
        if resource in zone_usage.amounts
    }


def make_report(
    *pods: PodResources, machine: Machine = TWO, state: StateFiles = NO_FILES, **allocatable: Any
) -> KubeletReport:
    """Return a kubelet's report with these pods; `allocatable`: fields that replace the defaults."""
    return KubeletReport(pods, make_allocatable(machine)._replace(**allocatable), CONFIG, state)
