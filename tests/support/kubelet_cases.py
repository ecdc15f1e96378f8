"""Recorded behaviour of a real kubelet, read from files by path: machines and the kubelet's responses as values.

`traces` are of a whole kubelet in a lab, with its API's responses and its state files. `cases` are of its managers
only, with their state. This module converts recorded facts to values and computes nothing.
"""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any

from support.snapshots import PROJECT
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
from zonewise.machine.model.cpu import Core, Cpus, Package
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

CASES = PROJECT.parent / "shared" / "cases"
ABSENT = f"the recorded cases are not beside the project ({CASES.name}/ is absent)"

Json = dict[str, Any]


@functools.cache
def traces() -> dict[str, Json]:
    """Return the recorded traces by name; empty if the data are absent."""
    file = CASES / "kubelet_traces.json"
    return {trace["name"]: trace for trace in json.loads(file.read_text())} if file.exists() else {}


@functools.cache
def cases() -> tuple[Json, ...]:
    """Return the recorded admissions; empty if the data are absent."""
    file = CASES / "kubelet_admission_cases.json.gz"
    return tuple(json.loads(gzip.decompress(file.read_bytes()))["cases"]) if file.exists() else ()


def given(value: Any) -> Json:
    """Return an object of the recording; Go writes null for an empty map."""
    return value or {}


# --- traces


def machine_of_trace(trace: Json) -> Machine:
    """Return the machine of a trace: thread t of core c of zone n is CPU n*cores + c + t*zones*cores."""
    shape = trace["machine"]
    cores, every = shape["cores_per_numa"], shape["numa"] * shape["cores_per_numa"]
    assert shape["cpu_numbering"] == "node n core c thread t = n*8+c+16*t"
    assert (cores, every) == (8, 16)
    zones: list[Zone] = []
    for number in range(shape["numa"]):
        cpus = CpuSet(number * cores + core + every * thread for core in range(cores) for thread in range(shape["smt"]))
        pages = {
            size: shape[f"hugepages_{size}"].get(str(number), 0)
            for size in ("2Mi", "1Gi")
            if f"hugepages_{size}" in shape
        }
        distances = {str(other): 10 if other == number else 21 for other in range(shape["numa"])}
        zones.append(Zone(number, cpus, cpus, shape["memory_per_numa_kB"] << 10, pages, distances, "cpu"))
    return _machine(zones, shape["smt"])


def stale_cpus_of_trace(trace: Json) -> CpuSet:
    """Return the CPUs of pods that List does not show: the kubelet releases them before its next admission."""
    containers = [container for pod in trace["list"].get("pod_resources", ()) for container in pod["containers"]]
    listed = CpuSet(int(cpu) for container in containers for cpu in container.get("cpu_ids", ()))
    entries: Json = trace["cpu_manager_state"].get("entries") or {}
    held = [CpuSet.union(map(CpuSet.parse_list, sets.values())) for sets in entries.values()]
    return CpuSet.union(cpus for cpus in held if cpus.isdisjoint(listed))


def report_of_trace(trace: Json) -> KubeletReport:
    """Return the report of a trace's kubelet."""
    allocatable = trace["get_allocatable"]
    return KubeletReport(
        tuple(
            PodResources(pod["namespace"], pod["name"], tuple(map(_container, pod.get("containers", []))))
            for pod in trace["list"].get("pod_resources", [])
        ),
        Allocatable(
            CpuSet(map(int, allocatable.get("cpu_ids", []))),
            _devices(allocatable.get("devices", [])),
            _blocks(allocatable.get("memory", [])),
        ),
        _config(trace["kubelet_config"]),
        StateFiles(
            _cpu_state(trace["cpu_manager_state"]),
            _memory_state(trace["memory_manager_state"]),
            _checkpoint(trace["device_checkpoint"]),
        ),
    )


def _config(config: Json) -> KubeletConfig:
    return KubeletConfig(
        cpu_manager_policy=config["cpuManagerPolicy"],
        memory_manager_policy=config["memoryManagerPolicy"],
        topology_manager_policy=config["topologyManagerPolicy"],
        topology_manager_scope=config["topologyManagerScope"],
        reserved_cpus=CpuSet.parse_list(config["reservedSystemCPUs"]),
    )


def _container(container: Json) -> ContainerResources:
    return ContainerResources(
        container["name"],
        CpuSet(map(int, container.get("cpu_ids", []))),
        _devices(container.get("devices", [])),
        _blocks(container.get("memory", [])),
    )


def _devices(entries: list[Json]) -> tuple[ContainerDevices, ...]:
    zones: dict[tuple[str, str], set[int]] = {}
    for entry in entries:
        for device in entry["device_ids"]:
            known = zones.setdefault((entry["resource_name"], device), set())
            known.update(zone for zone in _nodes(entry) if zone >= 0)
    return tuple(
        ContainerDevices(resource, (device,), tuple(sorted(near))) for (resource, device), near in zones.items()
    )


def _blocks(entries: list[Json]) -> tuple[MemoryBlock, ...]:
    return tuple(MemoryBlock(entry["memory_type"], int(entry["size"]), _nodes(entry)) for entry in entries)


def _nodes(entry: Json) -> tuple[int, ...]:
    # protobuf's JSON has strings for 64-bit numbers, and omits fields that are 0
    return tuple(sorted(int(node.get("ID", 0)) for node in entry.get("topology", {}).get("nodes", [])))


def _cpu_state(state: Json) -> CpuManagerState:
    entries = {
        uid: {name: CpuSet.parse_list(text) for name, text in containers.items()}
        for uid, containers in state.get("entries", {}).items()
    }
    return CpuManagerState(state["policyName"], CpuSet.parse_list(state["defaultCpuSet"]), entries)


def _memory_state(state: Json) -> MemoryManagerState:
    nodes = {
        int(zone): NumaNodeState(
            node["numberOfAssignments"],
            tuple(node["cells"]),
            {
                kind: MemoryTable(
                    table["total"], table["systemReserved"], table["allocatable"], table["reserved"], table["free"]
                )
                for kind, table in node["memoryMap"].items()
            },
        )
        for zone, node in state["machineState"].items()
    }
    entries = {
        uid: {
            name: tuple(MemoryBlock(block["type"], block["size"], tuple(block["numaAffinity"])) for block in blocks)
            for name, blocks in containers.items()
        }
        for uid, containers in state.get("entries", {}).items()
    }
    return MemoryManagerState(state["policyName"], nodes, entries)


def _checkpoint(entries: list[Json] | None) -> DeviceCheckpoint | None:
    if entries is None:
        return None
    return DeviceCheckpoint(
        tuple(
            PodDevicesEntry(
                entry["PodUID"],
                entry["ContainerName"],
                entry["ResourceName"],
                {int(zone): tuple(ids) for zone, ids in entry["DeviceIDs"].items()},
            )
            for entry in entries
        ),
        {},
    )


# --- cases


def machine_of_case(case: Json) -> Machine:
    """Return the machine of a case."""
    zones: list[Zone] = []
    for node in case["machine"]["numaNodes"]:
        cpus = CpuSet(cpu["id"] for cpu in node["cpus"])
        pages = {
            name.removeprefix("hugepages-"): size // {"2Mi": 2 << 20, "1Gi": 1 << 30}[name.removeprefix("hugepages-")]
            for name, size in node.get("hugepagesBytes", {}).items()
        }
        distances = {str(other): distance for other, distance in enumerate(node["distances"])}
        zones.append(Zone(node["id"], cpus, cpus, node["memoryBytes"], pages, distances, "cpu"))
    packages: dict[int, list[int]] = {}
    for node in case["machine"]["numaNodes"]:
        for cpu in node["cpus"]:
            packages.setdefault(cpu["socket"], []).append(cpu["id"])
    made = tuple(Package(number, CpuSet(cpus)) for number, cpus in sorted(packages.items()))
    return _machine(zones, case["machine"]["threadsPerCore"])._replace(packages=made)


def report_of_case(case: Json, *, files: bool = True) -> KubeletReport:
    """Return the report of a case's kubelet before the pod arrives: its state, and the part that List shows."""
    state, machine = case["state"], case["machine"]
    static = case["kubelet"]["cpuManagerPolicy"] == "static"
    healthy = {
        resource: tuple(device["id"] for device in devices if device["healthy"])
        for resource, devices in machine["devices"].items()
    }
    recorded = StateFiles(
        CpuManagerState(
            case["kubelet"]["cpuManagerPolicy"],
            CpuSet(state["defaultCPUSet"]),
            {
                uid: {name: CpuSet(cpus) for name, cpus in of_pod.items()}
                for uid, of_pod in state["cpuAssignments"].items()
            },
        ),
        _memory_of_case(case),
        DeviceCheckpoint(tuple(_entries_of_case(case)), healthy),
    )
    every = CpuSet(cpu["id"] for node in machine["numaNodes"] for cpu in node["cpus"])
    pods = tuple(_listed(case))
    return KubeletReport(
        pods,
        Allocatable(
            every - CpuSet(machine["reservedCPUs"]) if static else EMPTY,
            tuple(
                ContainerDevices(resource, (device["id"],), tuple(device["numa"] or ()))
                for resource, devices in machine["devices"].items()
                for device in devices
                if device["healthy"]
            ),
            tuple(
                MemoryBlock(kind, table["allocatable"], (int(zone),))
                for zone, node in given(state["memoryNodes"]).items()
                for kind, table in node["table"].items()
                if table["allocatable"]
            ),
        ),
        _config_of_case(case),
        recorded if files else StateFiles(),
        active=frozenset(pod.name for pod in pods),
    )


def _config_of_case(case: Json) -> KubeletConfig:
    kubelet = case["kubelet"]
    return KubeletConfig(
        cpu_manager_policy=kubelet["cpuManagerPolicy"],
        cpu_manager_options=tuple(sorted(given(kubelet.get("cpuManagerPolicyOptions")).items())),
        memory_manager_policy=kubelet["memoryManagerPolicy"],
        topology_manager_policy=kubelet["topologyManagerPolicy"],
        topology_manager_scope=kubelet["topologyManagerScope"],
        topology_manager_options=tuple(sorted(given(kubelet.get("topologyManagerPolicyOptions")).items())),
        reserved_cpus=CpuSet(case["machine"]["reservedCPUs"]),
    )


def _memory_of_case(case: Json) -> MemoryManagerState:
    state = case["state"]
    nodes = {
        int(zone): NumaNodeState(
            node["numberOfAssignments"],
            tuple(node["cells"]),
            {
                kind: MemoryTable(0, 0, table["allocatable"], table["allocatable"] - table["free"], table["free"])
                for kind, table in node["table"].items()
            },
        )
        for zone, node in given(state["memoryNodes"]).items()
    }
    entries = {
        uid: {name: _blocks_of_case(blocks) for name, blocks in of_pod.items()}
        for uid, of_pod in given(state["memoryAssignments"]).items()
    }
    return MemoryManagerState(case["kubelet"]["memoryManagerPolicy"], nodes, entries)


def _blocks_of_case(blocks: list[Json]) -> tuple[MemoryBlock, ...]:
    return tuple(MemoryBlock(block["type"], block["size"], tuple(block["numa"])) for block in blocks)


def _entries_of_case(case: Json) -> list[PodDevicesEntry]:
    zones = {
        (resource, device["id"]): device["numa"] or [-1]
        for resource, devices in case["machine"]["devices"].items()
        for device in devices
    }
    found: list[PodDevicesEntry] = []
    for uid, of_pod in given(case["state"]["deviceAssignments"]).items():
        for name, of_container in of_pod.items():
            for resource, ids in of_container.items():
                places: dict[int, tuple[str, ...]] = {}
                for device in ids:
                    for zone in zones[resource, device]:
                        places[zone] = (*places.get(zone, ()), device)
                found.append(PodDevicesEntry(uid, name, resource, places))
    return found


def _listed(case: Json) -> list[PodResources]:
    """Return the pods of List: containers that hold resources, without ended init containers."""
    state, visible = case["state"], case["podresourcesVisibleState"] or case["state"]
    zones = {
        (resource, device["id"]): tuple(device["numa"] or ())
        for resource, devices in case["machine"]["devices"].items()
        for device in devices
    }
    kinds = ("cpuAssignments", "memoryAssignments", "deviceAssignments")
    found: list[PodResources] = []
    for uid in sorted({uid for kind in kinds for uid in given(state[kind])}):
        shown = {name for kind in kinds for name in given(visible.get(kind)).get(uid, {})}
        memory = given(state["memoryAssignments"]).get(uid, {})
        names = shown | {name for name in memory if not name.startswith("i") or visible is state}
        containers = tuple(
            ContainerResources(
                name,
                CpuSet(given(state["cpuAssignments"]).get(uid, {}).get(name, [])),
                tuple(
                    ContainerDevices(resource, (device,), zones[resource, device])
                    for resource, ids in given(state["deviceAssignments"]).get(uid, {}).get(name, {}).items()
                    for device in ids
                ),
                _blocks_of_case(memory.get(name, [])),
            )
            for name in sorted(names)
        )
        found.append(PodResources("d", uid, containers))
    return found


def _machine(zones: list[Zone], threads: int) -> Machine:
    online = CpuSet.union(zone.cpus for zone in zones)
    cores: list[Core] = []
    for zone in zones:
        cpus = list(zone.cpus)
        count = len(cpus) // threads
        cores += [Core(number, zone.id, zone.id, CpuSet(cpus[number::count])) for number in range(count)]
    return Machine(cpus=Cpus(online, EMPTY), cores=tuple(cores), zones=tuple(zones))
