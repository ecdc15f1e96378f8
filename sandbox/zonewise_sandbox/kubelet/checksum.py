"""The checksums in the kubelet's checkpoint files: FNV-1a of the text that Go's spew library prints for a struct.

The source is k8s.io/kubernetes pkg/util/hash/hash.go over k8s.io/utils/dump. Types are in parentheses before values,
but not before map keys and elements; map keys are sorted; nothing is quoted. Type names are part of the hashed text, so
each file needs a separate printer.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = dict[str, Any]

_TABLE_FIELDS = {
    "TotalMemSize": "total",
    "SystemReserved": "systemReserved",
    "Allocatable": "allocatable",
    "Reserved": "reserved",
    "Free": "free",
}


def cpu_checksum(state: Json) -> int:
    """Return the checksum of a cpu_manager_state (CPUManagerCheckpoint of cpumanager/state/checkpoint.go)."""
    entries = _map({uid: _map(containers) for uid, containers in state.get("entries", {}).items()})
    return _fnv32a(
        "(*state.CPUManagerCheckpoint){"
        f"PolicyName:(string){state['policyName']} "
        f"DefaultCPUSet:(string){state['defaultCpuSet']} "
        f"Entries:(map[string]map[string]string){entries} "
        "Checksum:(checksum.Checksum)0}"
    )


def memory_checksum(state: Json) -> int:
    """Return the checksum of a memory_manager_state (MemoryManagerCheckpoint of memorymanager/state/checkpoint.go)."""
    nodes = _map({int(zone): _memory_node(node) for zone, node in state["machineState"].items()})
    entries = _map(
        {
            uid: _map({name: _list(map(_block, blocks)) for name, blocks in containers.items()})
            for uid, containers in state.get("entries", {}).items()
        }
    )
    return _fnv32a(
        "(*state.MemoryManagerCheckpoint){"
        f"PolicyName:(string){state['policyName']} "
        f"MachineState:(state.NUMANodeMap){nodes} "
        f"Entries:(state.ContainerMemoryAssignments){entries} "
        "Checksum:(checksum.Checksum)0}"
    )


def device_checksum(data: Json) -> int:
    """Return the checksum of the Data of a kubelet_internal_checkpoint (devicemanager/checkpoint/checkpoint.go)."""
    entries = "<nil>" if data["PodDeviceEntries"] is None else _list(map(_device, data["PodDeviceEntries"]))
    registered = _map({resource: _list(ids) for resource, ids in data["RegisteredDevices"].items()})
    return _fnv32a(
        "(checkpoint.checkpointData){"
        f"PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} "
        f"RegisteredDevices:(map[string][]string){registered}}}"
    )


def _memory_node(node: Json) -> str:
    tables = {kind: _memory_table(table) for kind, table in node["memoryMap"].items()}
    return (
        f"<*>{{NumberOfAssignments:(int){node['numberOfAssignments']} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){_map(tables)} "
        f"Cells:([]int){_list(node['cells'])}}}"
    )


def _memory_table(table: Json) -> str:
    fields = (f"{field}:(uint64){table[name]}" for field, name in _TABLE_FIELDS.items())
    return f"<*>{{{' '.join(fields)}}}"


def _block(block: Json) -> str:
    return (
        f"{{NUMAAffinity:([]int){_list(block['numaAffinity'])} "
        f"Type:(v1.ResourceName){block['type']} Size:(uint64){block['size']}}}"
    )


def _device(entry: Json) -> str:
    ids = {int(zone): _list(ids) for zone, ids in entry["DeviceIDs"].items()}
    response = "<nil>" if entry["AllocResp"] is None else _list(base64.b64decode(entry["AllocResp"]))
    return (
        f"{{PodUID:(string){entry['PodUID']} ContainerName:(string){entry['ContainerName']} "
        f"ResourceName:(string){entry['ResourceName']} DeviceIDs:(checkpoint.DevicesPerNUMA){_map(ids)} "
        f"AllocResp:([]uint8){response}}}"
    )


def _map(entries: Mapping[Any, str]) -> str:
    return f"map[{' '.join(f'{key}:{entries[key]}' for key in sorted(entries))}]"


def _list(elements: Iterable[object]) -> str:
    return f"[{' '.join(map(str, elements))}]"


def _fnv32a(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
