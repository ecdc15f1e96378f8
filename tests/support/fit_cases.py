"""The recorded admissions as values of the package admission: machine, state, pod, and the kubelet's result."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from support.kubelet_cases import Json, given, stale_cpus_of_trace
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_scheduler.admission.cpu_topology import CpuGroup, CpuTopology
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod_spec import read_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict

CPU_OPTIONS = {
    "full-pcpus-only": "full_cores",
    "strict-cpu-reservation": "strict_reservation",
    "distribute-cpus-across-numa": "distribute_across_zones",
    "align-by-socket": "align_by_package",
    "distribute-cpus-across-cores": "distribute_across_cores",
    "prefer-align-cpus-by-uncorecache": "align_by_cache",
}


def policies_of_case(case: Json) -> Policies:
    """Return the kubelet configuration of a case."""
    kubelet = case["kubelet"]
    manager = given(kubelet.get("topologyManagerPolicyOptions"))
    options = {
        CPU_OPTIONS[name]: value == "true" for name, value in given(kubelet.get("cpuManagerPolicyOptions")).items()
    }
    return Policies(
        topology=kubelet["topologyManagerPolicy"],
        scope=kubelet["topologyManagerScope"],
        prefer_closest=manager.get("prefer-closest-numa-nodes") == "true",
        max_zones=int(manager.get("max-allowable-numa-nodes", 8)),
        cpu=kubelet["cpuManagerPolicy"],
        memory=kubelet["memoryManagerPolicy"],
        pod_level_managers=given(kubelet.get("featureGates")).get("PodLevelResourceManagers", False),
        **options,
    )


def kind_of_case(case: Json) -> NodeKind:
    """Return the node kind of a case: its machine and kubelet."""
    machine = case["machine"]
    nodes = machine["numaNodes"]
    memory = {int(zone): node["table"] for zone, node in given(case["state"]["memoryNodes"]).items()}
    types = tuple(sorted({name for table in memory.values() for name in table}))
    zones = tuple(node["id"] for node in nodes)
    return NodeKind(
        policies_of_case(case),
        zones,
        tuple(tuple(node["distances"]) for node in nodes),
        _cpus(machine),
        types,
        tuple(tuple(_amount(memory[zone], name, "allocatable") for name in types) for zone in zones) if types else (),
        tuple(sorted(_classes(machine))),
    )


def state_of_case(case: Json, after: Json | None = None) -> NodeState:
    """Return the node state of a case before the pod, or the state `after` it; a state after the pod has no devices."""
    kind = kind_of_case(case)
    state = case["state"] if after is None else after
    nodes = {int(zone): node for zone, node in given(state["memoryNodes"]).items()}
    return NodeState(
        kind,
        CpuSet(state["defaultCPUSet"] or ()).bits & ~kind.cpus.reserved,
        tuple(tuple(_amount(nodes[zone]["table"], name, "free") for name in kind.memory_types) for zone in kind.zones)
        if nodes
        else (),
        tuple(_bits(nodes[zone]["cells"]) for zone in kind.zones) if nodes else (),
        _bits(zone for zone, node in nodes.items() if node["numberOfAssignments"]),
        _free(case, kind),
    )


def pod_of_case(case: Json) -> PodShape:
    """Return the pod of a case."""
    return read_pod(case["pod"])


def _cpus(machine: Json) -> CpuTopology:
    cpus = [(node["id"], cpu) for node in machine["numaNodes"] for cpu in node["cpus"] or ()]
    cores = _groups(((cpu["socket"], cpu["core"]), cpu["id"]) for _, cpu in cpus)
    packages = _groups((cpu["socket"], cpu["id"]) for _, cpu in cpus)
    caches = _groups((cpu["uncore"], cpu["id"]) for _, cpu in cpus) if all("uncore" in cpu for _, cpu in cpus) else ()
    return CpuTopology(
        tuple(sorted(((bits & -bits).bit_length() - 1, bits) for _, bits in cores)),
        _groups((zone, cpu["id"]) for zone, cpu in cpus),
        packages,
        caches or packages,
        CpuSet(machine["reservedCPUs"] or ()).bits,
    )


def _groups(pairs: Iterable[tuple[Any, int]]) -> tuple[CpuGroup, ...]:
    groups: dict[Any, int] = {}
    for name, cpu in pairs:
        groups[name] = groups.get(name, 0) | 1 << cpu
    return tuple(sorted(groups.items()))


def _classes(machine: Json) -> list[DeviceClass]:
    classes: list[DeviceClass] = []
    for resource, devices in machine["devices"].items():
        near = sorted(devices or (), key=_near)
        if not near:
            classes.append(DeviceClass(resource, 0, 0, 0))
        for zones, alike in groupby(near, key=_near):
            members = list(alike)
            classes.append(DeviceClass(resource, zones, len(members), sum(device["healthy"] for device in members)))
    return classes


def _near(device: Json) -> int:
    return _bits(device["numa"] or ())


def _free(case: Json, kind: NodeKind) -> tuple[int, ...]:
    held = {
        (resource, device)
        for containers in given(case["state"]["deviceAssignments"]).values()
        for resources in containers.values()
        for resource, devices in resources.items()
        for device in devices
    }
    free = Counter(
        (resource, _near(device))
        for resource, devices in case["machine"]["devices"].items()
        for device in devices or ()
        if device["healthy"] and (resource, device["id"]) not in held
    )
    return tuple(free[device.resource, device.zones] for device in kind.devices)


def _bits(zones: Iterable[int]) -> int:
    return sum(1 << zone for zone in set(zones))


def _amount(table: Json, name: str, column: str) -> int:
    return table.get(name, {}).get(column, 0)


# --- traces of a whole kubelet


def state_of_trace(trace: Json, *, final: bool) -> NodeState:
    """Return the node of a trace at the kubelet's start, or before its next admission with the devices of the start."""
    config, machine = trace["kubelet_config"], trace["machine"]
    cores, total = machine["cores_per_numa"], machine["numa"] * machine["cores_per_numa"]
    siblings = [(core, 1 << core | 1 << core + total) for core in range(total)]
    zones = tuple(
        (zone, sum(bits for _, bits in siblings[zone * cores : (zone + 1) * cores])) for zone in range(machine["numa"])
    )
    reserved = CpuSet.parse_list(config["reservedSystemCPUs"])
    nodes = {int(zone): node for zone, node in trace["memory_manager_state"]["machineState"].items()}
    types = tuple(sorted(nodes[0]["memoryMap"]))
    table = {
        column: tuple(tuple(nodes[zone]["memoryMap"][name][column] for name in types) for zone in sorted(nodes))
        for column in ("allocatable", "free")
    }
    devices = tuple(sorted(_classes_of_trace(trace)))
    kind = NodeKind(
        Policies(
            topology=config["topologyManagerPolicy"],
            scope=config["topologyManagerScope"],
            cpu=config["cpuManagerPolicy"],
            memory=config["memoryManagerPolicy"],
        ),
        tuple(sorted(nodes)),
        ((10, 21), (21, 10)),
        CpuTopology(tuple(siblings), zones, zones, (), reserved.bits),
        types,
        table["allocatable"],
        devices,
    )
    default = CpuSet.parse_list(trace["cpu_manager_state"]["defaultCpuSet"]) | stale_cpus_of_trace(trace)
    free = default.bits if final else kind.cpus.cpus
    return NodeState(
        kind,
        free & ~reserved.bits,
        table["free"] if final else table["allocatable"],
        tuple(_bits(nodes[zone]["cells"]) if final else 1 << zone for zone in sorted(nodes)),
        _bits(zone for zone, node in nodes.items() if final and node["numberOfAssignments"]),
        tuple(device.healthy for device in devices),
    )


def _classes_of_trace(trace: Json) -> list[DeviceClass]:
    near: dict[tuple[str, str], int] = {}
    for entry in trace["get_allocatable"].get("devices", []):
        for device in entry["device_ids"]:
            # protobuf's JSON omits fields that are 0
            zones = [int(node.get("ID", 0)) for node in entry.get("topology", {}).get("nodes", [])]
            key = (entry["resource_name"], device)
            near[key] = near.get(key, 0) | _bits(zone for zone in zones if zone >= 0)
    counts = Counter((resource, zones) for (resource, _), zones in near.items())
    return [DeviceClass(resource, zones, count, count) for (resource, zones), count in counts.items()]


# --- results in a form for comparison


def recorded_result(case: Json, recorded: Json | None = None) -> dict[str, Any]:
    """Return the kubelet's verdict and allocations, with devices as counts by zone set."""
    recorded = case if recorded is None else recorded
    expected, allocation = recorded["expect"], given(recorded.get("allocation"))
    if not expected["admit"]:
        return {"reason": expected["reason"], "message": unordered(expected["message"])}
    uid = case["pod"]["metadata"]["uid"]
    zones = {
        (resource, device["id"]): _near(device)
        for resource, devices in case["machine"]["devices"].items()
        for device in devices or ()
    }
    cpus = given(given(allocation.get("cpuAssignments")).get(uid))
    memory = given(given(allocation.get("memoryAssignments")).get(uid))
    devices = given(given(allocation.get("deviceAssignments")).get(uid))
    return {
        "cpus": {name: CpuSet(ids).bits for name, ids in cpus.items()},
        "memory": {
            name: sorted((block["type"], _bits(block["numa"]), block["size"]) for block in blocks)
            for name, blocks in memory.items()
            if blocks
        },
        "devices": {
            name: dict(Counter((resource, zones[resource, device]) for resource, ids in held.items() for device in ids))
            for name, held in devices.items()
            if held
        },
    }


def predicted_result(verdict: Verdict) -> dict[str, Any]:
    """Return the predicted verdict in the same form."""
    if not verdict.admitted:
        return {"reason": verdict.reason, "message": unordered(verdict.message)}
    assignments = verdict.assignments
    return {
        "cpus": {each.container: each.cpus for each in assignments if each.cpus},
        "memory": {each.container: sorted(each.memory) for each in assignments if each.memory},
        "devices": {
            each.container: {(devices.resource, devices.zones): devices.number for devices in each.devices}
            for each in assignments
            if each.devices
        },
    }


def certain_part(result: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """Return a result without the zones of devices that the kubelet picks at random; only their count remains."""
    random = {
        (each.container, devices.resource)
        for each in verdict.assignments
        for devices in each.devices
        if not devices.certain
    }
    devices: dict[str, dict[Any, int]] = {}
    for container, allocations in result.get("devices", {}).items():
        counts: Counter[Any] = Counter()
        for (resource, zones), count in allocations.items():
            counts[resource if (container, resource) in random else (resource, zones)] += count
        devices[container] = dict(counts)
    return result | ({"devices": devices} if devices else {})


def unordered(message: str) -> str:
    """Return a message without the part that depends on Go's map order: which of several resources fails first."""
    start = "Allocate failed due to "
    if message.startswith((f"{start}requested number of devices unavailable", f"{start}no healthy devices present")):
        return f"{start}some device"
    return message
