"""hwloc's view of a machine's CPUs, derived from ours by hwloc's rules.

hwloc includes a level only if it adds information. It omits a die or cluster with one CPU, and one that equals an
existing object. It also omits an object whose CPUs it cannot determine. If the CPUs of a NUMA node are not an object
yet, it creates a group for them. It creates another group for nodes that are nearest to each other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zonewise.machine.collectors.cpu.arm_parts import IMPLEMENTERS
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.cpu import Cache, Group
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone

_MEMORY, _DISTANCE = "1001", "900"  # HWLOC_GROUP_KIND_MEMORY, HWLOC_GROUP_KIND_DISTANCE
_CLUSTER = "222"
_S390 = "110"  # HWLOC_GROUP_KIND_S390_BOOK
_S390_DEPTHS = {"book": "0", "drawer": "1"}


def by_cpus(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return objects in an order that does not depend on their source."""
    return sorted(objects, key=lambda each: sorted((key, str(value)) for key, value in each.items()))


def number(kernel_id: int | None) -> int | None:
    """Return an id as hwloc shows it: the kernel's -1 means none."""
    return None if kernel_id == -1 else kernel_id


def caches(machine: Machine, level: int, *, instruction: bool = False) -> list[Cache]:
    """Return the caches of a level; hwloc counts a pure data cache as a unified one."""
    return [cache for cache in machine.caches if cache.level == level and (cache.type == "Instruction") == instruction]


def cache_list(machine: Machine, level: int, *, instruction: bool = False) -> list[dict[str, Any]]:
    """Return the caches of a level as hwloc lists them, with 0 for an unknown size."""
    collected = caches(machine, level, instruction=instruction)
    return by_cpus({"cpus": str(cache.cpus), "size": cache.size or 0} for cache in collected)


def dies(machine: Machine) -> list[dict[str, Any]]:
    """Return the dies that are neither a single CPU nor their whole package."""
    packages = {package.cpus for package in machine.packages}
    collected = (die for die in machine.dies if len(die.cpus) > 1 and die.cpus not in packages)
    return by_cpus({"cpus": str(die.cpus), "os_index": number(die.id)} for die in collected)


def clusters(machine: Machine) -> list[dict[str, Any]]:
    """Return the clusters that do not equal an object of another kind."""
    neighbours = _objects(machine)
    collected = (
        each
        for each in machine.clusters
        if each.kind == "cluster" and len(each.cpus) > 1 and each.cpus not in neighbours
    )
    return by_cpus(
        {"cpus": str(each.cpus), "kind": _CLUSTER, "subkind": "0", "subtype": "Cluster"} for each in collected
    )


def kinds(machine: Machine) -> list[dict[str, Any]]:
    """Return the kinds of CPU: the frequency is one that all CPUs of a kind reach, the efficiency is the capacity.

    If the designs of ARM's cores separate the kinds, hwloc prints the part numbers instead of frequencies.
    """
    collected: list[dict[str, Any]] = []
    for kind in machine.core_kinds:
        part = _part(machine, kind.model)
        infos = {} if part is None else {"CPUPart": part}
        values = {"FrequencyMaxMHz": kind.common_max_mhz, "FrequencyBaseMHz": kind.base_mhz} if not infos else {}
        values["LinuxCapacity"] = kind.capacity
        infos |= {name: str(int(value)) for name, value in values.items() if value is not None}
        collected.append({"cpus": str(kind.cpus), "efficiency": infos.get("LinuxCapacity"), "infos": infos})
    return by_cpus(collected)


def _part(machine: Machine, core_name: str | None) -> str | None:
    """Return the part number of a core of the machine's designer; None for a core without a name."""
    designers = (implementer for implementer in IMPLEMENTERS.values() if implementer.name == machine.model.vendor)
    numbers = (part for designer in designers for part, name in designer.parts.items() if name == core_name)
    return next((f"{part:#x}" for part in numbers), None)


def package_infos(machine: Machine, model: str | None) -> dict[str, str]:
    """Return the facts about a package that hwloc may read from /proc/cpuinfo, by hwloc's names."""
    whole = machine.model
    collected = {
        "CPUModel": model,
        "CPUVendor": whole.vendor,
        "CPUFamilyNumber": whole.family,
        "CPUModelNumber": whole.model,
        "CPUStepping": whole.stepping,
        "CPURevision": whole.stepping,
        "CPUArchitecture": whole.family,
        "CPUPart": whole.model,
    }
    if revision := re.fullmatch(r"r(\d+)p(\d+)", whole.stepping or ""):
        collected |= {"CPUVariant": f"{int(revision[1]):#x}", "CPURevision": revision[2]}
    collected["CPUImplementer"] = next(
        (f"{code:#x}" for code, implementer in IMPLEMENTERS.items() if implementer.name == whole.vendor), None
    )
    return {name: value for name, value in collected.items() if value is not None}


def groups(machine: Machine) -> list[dict[str, Any]]:
    """Return s390's books and drawers, and the groups that hwloc creates around NUMA nodes."""
    objects = _objects(machine) | {cluster.cpus for cluster in machine.clusters if len(cluster.cpus) > 1}
    containers = [group for group in machine.groups if group.cpus not in objects]
    objects |= {group.cpus for group in containers}
    collected: list[tuple[CpuSet, str, int]] = []
    for zone in machine.zones:
        cpus = _locality(zone, machine.zones)
        if cpus not in objects:
            collected.append((cpus, _MEMORY, 0))
            if cpus:
                objects.add(cpus)
    members = [
        (_locality(zone, machine.zones), zone) for zone in machine.zones if zone.kind != "device" or not zone.memory
    ]
    matrix = [[float(a.distances.get(str(b.id), 0)) for _, b in members] for _, a in members]
    for cpus, depth in _near([cpus for cpus, _ in members], matrix, 0):
        if cpus and cpus not in objects:
            collected.append((cpus, _DISTANCE, depth))
            objects.add(cpus)
    around_nodes = [
        {"cpus": str(cpus), "kind": kind, "subkind": str(depth), "subtype": None} for cpus, kind, depth in collected
    ]
    return by_cpus(around_nodes + [_container(group) for group in containers])


def _container(group: Group) -> dict[str, Any]:
    depth = _S390_DEPTHS[group.kind]
    return {"cpus": str(group.cpus), "kind": _S390, "subkind": depth, "subtype": group.kind.capitalize()}


def _locality(zone: Zone, zones: tuple[Zone, ...]) -> CpuSet:
    """Return the CPUs to which hwloc attaches a node: its own, its initiators', or those of the nearest nodes."""
    if zone.cpus or zone.initiators:
        return zone.local_cpus
    neighbours = [neighbour for neighbour in zones if neighbour.id != zone.id and str(neighbour.id) in zone.distances]
    least = min((zone.distances[str(neighbour.id)] for neighbour in neighbours), default=0)
    near = [neighbour.cpus for neighbour in neighbours if zone.distances[str(neighbour.id)] == least]
    return CpuSet(cpu for cpus in near for cpu in cpus)


def _objects(machine: Machine) -> set[CpuSet]:
    """Return the CPU sets of all objects to which a NUMA node can be attached; a single CPU is not one."""
    levels = (machine.packages, machine.dies, machine.cores, machine.caches)
    whole = machine.cpus.online | machine.cpus.offline
    return {machine.cpus.online, whole} | {each.cpus for level in levels for each in level}


def _near(members: list[CpuSet], matrix: list[list[float]], depth: int) -> list[tuple[CpuSet, int]]:
    """Return groups of members that are connected by the least distance, and groups of these groups."""
    if len(members) <= 2:
        return []
    groups = _connected(matrix)
    if not groups or (len(groups) == 1 and len(groups[0]) == len(members)):
        return []
    sets: list[CpuSet] = []
    for group in groups:
        union = EMPTY
        for member in group:
            union = union | members[member]
        sets.append(union)
    averages = [[sum(matrix[i][j] for i in a for j in b) / (len(a) * len(b)) for b in groups] for a in groups]
    return [(cpus, depth) for cpus in sets] + _near(sets, averages, depth + 1)


def _connected(matrix: list[list[float]]) -> list[list[int]]:
    """Return the sets of at least two members that are connected by the overall least distance."""
    indexes = range(len(matrix))
    least = min(matrix[i][j] for i in indexes for j in indexes if i != j)
    group_by_index: dict[int, int] = {}
    collected: list[list[int]] = []
    for start in indexes:
        if start in group_by_index:
            continue
        group, waiting = [start], [start]
        while waiting:
            member = waiting.pop()
            for neighbour in indexes:
                if neighbour not in group and neighbour not in group_by_index and matrix[member][neighbour] == least:
                    group.append(neighbour)
                    waiting.append(neighbour)
        if len(group) > 1:
            group_by_index |= dict.fromkeys(group, len(collected))
            collected.append(sorted(group))
    return collected
