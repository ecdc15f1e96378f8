"""The state of a node computed from the kubelet's own files, as an oracle for reports."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import write_pairs
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.report.kubelet_policies import read_policies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.kubelet.types import ContainerDevices, DeviceCheckpoint, KubeletConfig, MemoryManagerState, StateFiles
    from zonewise_scheduler.admission.cpu_topology import CpuTopology

_Zones = tuple[int, ...]


class NodeHardware(NamedTuple):
    """Facts about a node that the files lack."""

    cpus: CpuTopology
    devices: tuple[ContainerDevices, ...] = ()
    """All devices, including unhealthy ones."""
    zones: _Zones = ()
    """NUMA nodes beyond those with CPUs and those in the Memory Manager's state."""
    distances: tuple[_Zones, ...] = ()
    """As in NodeKind."""


def read_state_files(files: StateFiles, config: KubeletConfig, hardware: NodeHardware) -> NodeState:
    """Return the state of a node from its files, including entries of deleted pods.

    Without a device checkpoint, all devices are free and healthy.
    """
    policies = config_policies(config, Policies().release)
    cpus = hardware.cpus
    memory = files.memory if files.memory is not None and policies.memory == "Static" else None
    known = memory.machine_state if memory is not None else ()
    zones = tuple(sorted({*hardware.zones, *(zone for zone, _ in cpus.zones), *known}))
    types = (
        tuple(sorted({kind for node in memory.machine_state.values() for kind in node.memory_map})) if memory else ()
    )
    counts = _devices(hardware.devices, files.devices)
    free = files.cpu.default_cpu_set.bits if files.cpu is not None and policies.cpu == "static" else 0
    return NodeState(
        NodeKind(
            policies,
            zones,
            hardware.distances,
            cpus,
            types,
            _table(memory, zones, types, "allocatable"),
            tuple(sorted(counts)),
        ),
        free & cpus.cpus & ~cpus.reserved,
        _table(memory, zones, types, "free"),
        tuple(_group(memory, zone) for zone in zones) if memory else (),
        sum(1 << zone for zone, node in memory.machine_state.items() if node.number_of_assignments > 0)
        if memory
        else 0,
        tuple(counts[device_class] for device_class in sorted(counts)),
    )


def config_policies(config: KubeletConfig, release: tuple[int, int]) -> Policies:
    """Return the part of a configuration that determines allocations of zones."""
    gates = {name: str(on).lower() for name, on in config.feature_gates}
    attributes = {
        names.TOPOLOGY_MANAGER_POLICY: config.topology_manager_policy,
        names.TOPOLOGY_MANAGER_SCOPE: config.topology_manager_scope,
        names.TOPOLOGY_MANAGER_MAX_NUMA_NODES: str(config.max_allowable_numa_nodes()),
        names.TOPOLOGY_MANAGER_OPTIONS: write_pairs(dict(config.topology_manager_options)),
        names.CPU_MANAGER_POLICY: config.cpu_manager_policy,
        names.CPU_MANAGER_OPTIONS: write_pairs(dict(config.cpu_manager_options)),
        names.MEMORY_MANAGER_POLICY: config.memory_manager_policy,
        names.FEATURE_GATES: write_pairs(gates),
    }
    return read_policies(attributes, (), release).policies


def _table(memory: MemoryManagerState | None, zones: _Zones, types: tuple[str, ...], column: str) -> tuple[_Zones, ...]:
    if memory is None or not types:
        return ()
    tables = [memory.machine_state[zone].memory_map if zone in memory.machine_state else {} for zone in zones]
    return tuple(tuple(getattr(table[kind], column) if kind in table else 0 for kind in types) for table in tables)


def _group(memory: MemoryManagerState, zone: int) -> int:
    cells = memory.machine_state[zone].cells if zone in memory.machine_state else ()
    return sum(1 << cell for cell in {*cells, zone})


def _devices(devices: Iterable[ContainerDevices], checkpoint: DeviceCheckpoint | None) -> Mapping[DeviceClass, int]:
    """Return the classes of devices with the number of free devices of each."""
    ids_by_class: dict[tuple[str, int], set[str]] = defaultdict(set)
    for group in devices:
        ids_by_class[group.resource, sum(1 << zone for zone in set(group.zones))].update(group.ids)
    held: dict[str, set[str]] = defaultdict(set)
    for entry in checkpoint.entries if checkpoint else ():
        held[entry.resource].update(*entry.ids_by_zone.values())
    free_by_class: dict[DeviceClass, int] = {}
    for (resource, zones), ids in ids_by_class.items():
        healthy = ids.intersection(checkpoint.registered.get(resource, ())) if checkpoint else ids
        free_by_class[DeviceClass(resource, zones, len(ids), len(healthy))] = len(healthy - held[resource])
    for resource in checkpoint.registered if checkpoint else ():
        if not any(name == resource for name, _ in ids_by_class):
            free_by_class[DeviceClass(resource, 0, 0, 0)] = 0
    return free_by_class
