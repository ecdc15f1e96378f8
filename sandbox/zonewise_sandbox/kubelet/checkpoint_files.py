"""The checkpoint files of a simulated kubelet, with the kubelet's JSON, checksums and atomic writes.

cpu_manager_state: pkg/kubelet/cm/cpumanager/state/checkpoint.go; memory_manager_state: memorymanager/state/;
device-plugins/kubelet_internal_checkpoint: devicemanager/checkpoint/checkpoint.go; pkg/kubelet/util/store/filestore.go
writes them: into a temporary file in the same directory, which is synced and renamed.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_sandbox.kubelet.checksum import cpu_checksum, device_checksum, memory_checksum

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zonewise.kubelet.types import NumaNodeState
    from zonewise_sandbox.kubelet.allocation import Allocation
    from zonewise_sandbox.kubelet.container_manager import ContainerManager

CPU_FILE = "cpu_manager_state"
MEMORY_FILE = "memory_manager_state"
DEVICE_FILE = "device-plugins/kubelet_internal_checkpoint"

_TEMPORARY = "."  # the prefix of filestore.go's temporary files

Json = dict[str, Any]


def write_cpu_state(directory: Path, managers: ContainerManager) -> None:
    """Write cpu_manager_state.

    The kubelet does so when it allocates CPUs, and when it removes those of stopped pods: before it computes hints, and
    once per reconcile period (cpumanager/cpu_manager.go, removeStaleState).
    """
    entries = _entries(managers, lambda allocation: str(allocation.cpus))
    allocated = CpuSet.union(allocation.cpus for allocation in managers.container_allocations())
    default = str(managers.every_cpu() - allocated) if managers.static_cpus else ""
    state: Json = {"policyName": managers.config.cpu_manager_policy, "defaultCpuSet": default}
    state |= {"entries": entries} if entries else {}
    write_atomically(directory / CPU_FILE, {**state, "checksum": cpu_checksum(state)})


def write_memory_state(directory: Path, managers: ContainerManager) -> None:
    """Write memory_manager_state. The kubelet does so when a pod is to be admitted.

    Only then does it remove stopped pods. Under the policy None, the file contains no machine state.
    """
    entries = _entries(managers, _blocks)
    state: Json = {
        "policyName": managers.config.memory_manager_policy,
        "machineState": {str(zone): _memory_node(node) for zone, node in managers.free.memory.items()},
    }
    if not managers.static_memory:
        state["machineState"] = {}
    state |= {"entries": entries} if entries else {}
    write_atomically(directory / MEMORY_FILE, {**state, "checksum": memory_checksum(state)})


def write_device_checkpoint(directory: Path, managers: ContainerManager) -> None:
    """Write kubelet_internal_checkpoint; the kubelet does so when a pod gets devices and when a plugin registers."""
    entries = [
        entry
        for uid, allocations in managers.allocations.items()
        for name in allocations
        for entry in _device_entries(managers, uid, name)
    ]
    registered = {
        resource: [device.id for device in managers.devices if device.resource == resource]
        for resource in sorted(managers.registered)
    }
    data: Json = {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}
    write_atomically(directory / DEVICE_FILE, {"Data": data, "Checksum": device_checksum(data)})


def write_atomically(path: Path, content: Json) -> None:
    """Write JSON into a temporary file next to it, sync and rename that: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_TEMPORARY)
    with os.fdopen(handle, "w") as file:
        json.dump(content, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def _entries(managers: ContainerManager, value: Callable[[Allocation], object]) -> Json:
    """Return the allocations by pod UID and container, without empty ones."""
    entries = {
        uid: {name: text for name, allocation in allocations.items() if (text := value(allocation))}
        for uid, allocations in managers.allocations.items()
    }
    return {uid: containers for uid, containers in entries.items() if containers}


def _blocks(allocation: Allocation) -> list[Json]:
    return [{"numaAffinity": list(block.zones), "type": block.type, "size": block.size} for block in allocation.memory]


def _memory_node(node: NumaNodeState) -> Json:
    return {
        "numberOfAssignments": node.number_of_assignments,
        "memoryMap": {
            kind: {
                "total": table.total,
                "systemReserved": table.system_reserved,
                "allocatable": table.allocatable,
                "reserved": table.reserved,
                "free": table.free,
            }
            for kind, table in node.memory_map.items()
        },
        "cells": list(node.cells),
    }


def _device_entries(managers: ContainerManager, uid: str, container: str) -> list[Json]:
    """Return the entries of each resource.

    A device without zones is listed under zone -1, a device of several zones under each.
    """
    by_resource: dict[str, dict[str, list[str]]] = {}
    for device in managers.allocations[uid][container].devices:
        zones = by_resource.setdefault(device.resource, {})
        for zone in device.zones or (-1,):
            zones.setdefault(str(zone), []).append(device.id)
    return [
        {"PodUID": uid, "ContainerName": container, "ResourceName": resource, "DeviceIDs": ids, "AllocResp": ""}
        for resource, ids in by_resource.items()
    ]
