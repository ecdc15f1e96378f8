"""Graders of memory and host facts: NUMA nodes, their memory and speeds, memory modules, firmware, kernel, hypervisor.

hwloc and lscpu define NUMA nodes differently. If the kernel has none, hwloc assumes one, and lscpu assumes none. On
POWER, hwloc omits the memory of GPUs. It assigns the nearest CPUs to other nodes without CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.machine.collectors.memory.zone_access import best_access
from zonewise.machine.collectors.memory.zone_medium import bandwidth, latency
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from grading.types import Grader
    from support.snapshots import Snapshot
    from zonewise.machine.model.host import MemoryModule
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone

_KIB = 1024
_MEDIA = {"GPU": "GPUMemory", "CXL": "CXL-DRAM"}
"""Our word -> hwloc's subtype, if they differ."""


def _is_lscpu(snapshot: Snapshot) -> bool:
    return snapshot.entry["tool"] == "lscpu"


def visible_zones(machine: Machine) -> list[Zone]:
    """Return the zones that hwloc shows by default."""
    on_power = (machine.architecture or "").startswith("ppc")
    return [zone for zone in machine.zones if not (on_power and zone.kind == "device")]


def _is_single_zone_by_rule(machine: Machine) -> bool:
    """Return whether the machine is a single zone because its kernel has no NUMA nodes: all CPUs, no distances."""
    zones = machine.zones
    return len(zones) == 1 and zones[0].id == 0 and zones[0].cpus == machine.cpus.online and not zones[0].distances


# --- nodes


def node_as_hwloc(zone: Zone, expected: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a zone as an object of hwloc; a zone without CPUs has no near CPUs either if hwloc knows none."""
    actual: dict[str, Any] = {"os_index": zone.id, "cpus": str(zone.local_cpus), "local_memory": zone.memory or 0}
    if zone.medium is not None:
        actual["subtype"] = _MEDIA.get(zone.medium, zone.medium)
    if zone.kind == "device":
        actual["infos"] = {"PCIBusID": zone.device}
    elif zone.device is not None:
        actual["infos"] = {"DAXDevice": zone.device}
    if expected is not None and not expected["cpus"] and not zone.cpus:
        actual["cpus"] = ""  # hwloc knows no CPUs near the memory of these GPUs; we derive them from distances
    return actual


def _numa(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    expected = snapshot.expected["numa"]
    if _is_lscpu(snapshot):
        if not expected:
            return _is_single_zone_by_rule(machine), True
        # lscpu prints the unchanged mask, with CPUs that are offline or that the machine could have (s390)
        online = [{**node, "cpus": str(CpuSet.parse_list(node["cpus"]) & machine.cpus.online)} for node in expected]
        return [{"cpus": str(zone.cpus), "os_index": zone.id} for zone in machine.zones], online
    return nodes_side_by_side(visible_zones(machine), expected)


def nodes_side_by_side(zones: list[Zone], expected: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return zones as objects of hwloc, and the expected objects."""
    by_id = {node["os_index"]: node for node in expected}
    actual = [node_as_hwloc(zone, by_id.get(zone.id)) for zone in zones]
    return actual, [_comparable(node) for node in expected]


def _comparable(node: dict[str, Any]) -> dict[str, Any]:
    """Return an object of hwloc without facts that are graded elsewhere: the parent and the type of a DAX device."""
    infos = {key: value for key, value in node.get("infos", {}).items() if key in ("DAXDevice", "PCIBusID")}
    return {**{key: value for key, value in node.items() if key != "infos"}, **({"infos": infos} if infos else {})}


def _numa_count(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    expected = snapshot.expected["numa_count"]
    if expected is None:
        return _is_single_zone_by_rule(machine), True
    return len(visible_zones(machine)), expected


def distances_side_by_side(zones: list[Zone], expected: dict[str, Any]) -> tuple[Any, Any]:
    """Return the distance matrix of the zones, and the expected one."""
    nodes = [zone.id for zone in zones]
    matrix = [[zone.distances.get(str(column)) for column in nodes] for zone in zones]
    return {"nodes": nodes, "matrix": matrix}, expected


def _distances(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    return distances_side_by_side(visible_zones(machine), snapshot.expected["numa_distances"])


def _total_memory(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    zones = visible_zones(machine)
    device_memory = sum(zone.memory or 0 for zone in zones if zone.kind == "device")
    actual = [(machine.memory or 0) + device_memory, sum(zone.memory or 0 for zone in zones)]
    return actual, [snapshot.expected["total_memory"]] * 2


# --- speeds


_SPEEDS: dict[str, Callable[[Zone], int | None]] = {
    "Bandwidth": bandwidth,
    "Latency": latency,
    "ReadBandwidth": lambda zone: (access := best_access(zone.accesses)) and access.read_bandwidth,
    "WriteBandwidth": lambda zone: (access := best_access(zone.accesses)) and access.write_bandwidth,
    "ReadLatency": lambda zone: (access := best_access(zone.accesses)) and access.read_latency,
    "WriteLatency": lambda zone: (access := best_access(zone.accesses)) and access.write_latency,
}


def _memattrs(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare every attribute with a value; hwloc numbers its objects in the order of the nodes."""
    zones = visible_zones(machine)
    actual = {
        name: [(str(zone.local_cpus), value) for zone in zones if (value := speed(zone))]
        for name, speed in _SPEEDS.items()
    }
    expected = {attribute["name"]: _values(attribute["values"]) for attribute in snapshot.expected["memattrs"]}
    return {name: values for name, values in actual.items() if values}, expected


def _values(values: list[dict[str, str]]) -> list[tuple[str, int]]:
    ordered = sorted(values, key=lambda value: int(value["target_obj_gp_index"]))
    return [
        (str(CpuSet.parse_mask(value["initiator_cpuset"].replace("0x", ""))), int(value["value"])) for value in ordered
    ]


def _side_caches(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    actual = sorted((str(zone.id), cache.size) for zone in machine.zones for cache in zone.side_caches)
    return actual, sorted((cache["nodes"], cache["size"]) for cache in snapshot.expected["memory_side_caches"])


# --- modules, firmware, kernel


def _modules(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare memory modules; serial numbers and asset tags are deliberately not collected."""
    expected = [misc["infos"] for misc in snapshot.expected["misc"] if misc["subtype"] == "MemoryModule"]
    without = [
        {key: text.strip() for key, text in infos.items() if key not in ("SerialNumber", "AssetTag")}
        for infos in expected
    ]
    return [_module_as_hwloc(module) for module in machine.memory_modules], without


def _module_as_hwloc(module: MemoryModule) -> dict[str, str]:
    facts = {
        "DeviceLocation": module.location,
        "BankLocation": module.bank,
        "FormFactor": module.form_factor,
        "PartNumber": module.part,
        "Rank": str(module.rank) if module.rank else None,
        "Size": f"{module.size // _KIB}KiB" if module.size else None,
        "Type": module.type,
        "Vendor": module.vendor,
    }
    return {key: value for key, value in facts.items() if value}


_FIRMWARE = {
    "DMIProductName": "product",
    "DMIProductVersion": "version",
    "DMISysVendor": "vendor",
    "DMIBoardVendor": "board_vendor",
    "DMIBoardName": "board",
    "DMIBoardVersion": "board_version",
    "DMIChassisVendor": "chassis_vendor",
    "DMIChassisType": "chassis_type",
    "DMIChassisVersion": "chassis_version",
    "DMIBIOSVendor": "bios_vendor",
    "DMIBIOSVersion": "bios_version",
    "DMIBIOSDate": "bios_date",
    "PlatformName": "platform",
    "PlatformModel": "product",
}
"""hwloc's name -> our field. Serial numbers, UUIDs and asset tags are deliberately not collected."""


def _machine_infos(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare firmware facts, stripped, and truncated to the length of hwloc's buffer."""
    infos = snapshot.expected["machine_infos"]
    keys = [key for key in infos if key in _FIRMWARE]
    unknown = [key for key in infos if key not in _FIRMWARE and not key.endswith(("Serial", "UUID", "AssetTag"))]
    actual = {key: (getattr(machine.firmware, _FIRMWARE[key]) or "")[:63].strip() for key in keys}
    return actual | dict.fromkeys(unknown, "ungraded"), {key: infos[key].strip() for key in [*keys, *unknown]}


_HOST: dict[str, Callable[[Machine], str | None]] = {
    "Architecture": lambda machine: machine.architecture,
    "HostName": lambda machine: machine.hostname,
    "OSName": lambda machine: "Linux" if machine.kernel.release else None,
    "OSRelease": lambda machine: machine.kernel.release,
    "OSVersion": lambda machine: machine.kernel.version,
}


def _topology_infos(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare host, kernel and page sizes; the cgroup is graded elsewhere, and the backend is specific to hwloc."""
    infos = snapshot.expected["topology_infos"]
    expected: dict[str, Any] = {key: infos[key] for key in _HOST if key in infos}
    actual: dict[str, Any] = {key: _HOST[key](machine) for key in expected}
    if "PageSizes" in infos:
        expected["PageSizes"], actual["PageSizes"] = _page_sizes(machine, infos["PageSizes"])
    return actual, expected


def _page_sizes(machine: Machine, text: str) -> tuple[list[int], list[int]]:
    """Return bytes in ascending order; if the tree lacks the ordinary page size, hwloc uses that of its own machine."""
    expected = sorted(int(size) for size in text.split(","))
    return expected, [machine.kernel.page_size or expected[0], *machine.kernel.huge_page_sizes]


# --- virtualisation


def _same(fact: str, derive: Callable[[Machine], Any]) -> Grader:
    return lambda machine, snapshot: (derive(machine), snapshot.expected[fact])


GRADERS: dict[str, Grader] = {
    "numa": _numa,
    "numa_count": _numa_count,
    "numa_distances": _distances,
    "total_memory": _total_memory,
    "memattrs": _memattrs,
    "memory_side_caches": _side_caches,
    "misc": _modules,
    "machine_infos": _machine_infos,
    "topology_infos": _topology_infos,
    "hypervisor": _same("hypervisor", lambda machine: machine.virtualization.hypervisor),
    "hypervisor_vendor": _same("hypervisor_vendor", lambda machine: machine.virtualization.vendor),
    "virtualization": _same("virtualization", lambda machine: machine.virtualization.extensions),
    "virtualization_type": _same("virtualization_type", lambda machine: machine.virtualization.type),
}
UNGRADED: dict[tuple[str, str], str] = {}
