"""How near the memory of a NUMA node is: the firmware's distances (SLIT) and speeds (HMAT), and the nearest CPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collectors.memory.zone_cpus import NODE, listed_ids
from zonewise.machine.collectors.memory.zone_memory import report_lacking, report_outlier
from zonewise.machine.model.zone import Access
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from zonewise.machine.reader import Reader

_CLASSES = (0, 1)  # Documentation/admin-guide/mm/numaperf.rst; class 1 excludes initiators that are not CPUs
_ATTRIBUTES = ("read_bandwidth", "write_bandwidth", "read_latency", "write_latency")
_DISTANCE = re.compile(r"\d{1,5}")  # one byte in ACPI's SLIT; other firmware uses larger numbers
_MAX_SPEED = 1 << 32  # struct access_coordinate of the kernel has unsigned int


def read_node_distances(read: Reader, nodes: Sequence[int], online: Sequence[int]) -> dict[int, dict[int, int]]:
    """Return the distance from each node to every other node, by id.

    A row has one number for each online node, ascending (drivers/base/node.c node_read_distance()).
    """
    distances: dict[int, dict[int, int]] = {}
    silent: list[int] = []
    for node in nodes:
        path = f"{NODE}/node{node}/distance"
        fact = f"zones.{node}.distances"
        before = len(read.problems)
        text = read.text(path, fact=fact, rule="one number for each online node, ascending by id")
        if text is None:
            if len(read.problems) == before:
                silent.append(node)
            continue
        row = [int(part) for part in text.split() if _DISTANCE.fullmatch(part)]
        columns = next((ids for ids in (nodes, online) if len(ids) == len(row) == len(text.split())), None)
        if columns is None or 0 in row:
            read.problem(path, f"is not a row of {len(online)} distances: {text[:60]!r}", f"{fact} is unknown")
            continue
        distances[node] = {
            node_id: distance for node_id, distance in zip(columns, row, strict=True) if node_id in nodes
        }
    report_lacking(read, "distance", silent, nodes, "distances")
    return distances


def read_node_accesses(read: Reader, nodes: Sequence[int], bare: Container[int]) -> dict[int, tuple[Access, ...]]:
    """Return how the initiators of each class reach each node; none if the firmware has no HMAT."""
    names = {
        access_class: {node: read.names(_initiators(node, access_class)) for node in nodes} for access_class in _CLASSES
    }
    for access_class, readings in names.items():
        held = {node: bool(reading) for node, reading in readings.items()}
        report_outlier(read, lambda node, number=access_class: _initiators(node, number), held, bare, "speeds")
    return {
        node: tuple(
            _access(read, node, access_class, names[access_class][node])
            for access_class in _CLASSES
            if names[access_class][node]
        )
        for node in nodes
    }


def _initiators(node: int, access_class: int) -> str:
    return f"{NODE}/node{node}/access{access_class}/initiators"


def _access(read: Reader, node: int, access_class: int, names: Sequence[str]) -> Access:
    directory = _initiators(node, access_class)
    initiators = tuple(listed_ids(names))
    read.source(f"zones.{node}.accesses", directory, initiators, "links to the initiators, with MB/s and ns of each")
    return Access(access_class, initiators, *(_speed(read, node, f"{directory}/{name}") for name in _ATTRIBUTES))


def _speed(read: Reader, node: int, path: str) -> int | None:
    name = path.rpartition("/")[2]
    value = read.integer(path, needed=f"{name} of zone {node}")
    if value is None or value == 0:  # drivers/acpi/numa/hmat.c leaves values at 0 that the firmware lacks
        return None
    if 0 < value < _MAX_SPEED:
        return value
    read.problem(path, f"contains {value}", f"{name} of zone {node} is unknown")
    return None


def best_access(accesses: Sequence[Access]) -> Access | None:
    """Return how the best CPUs reach a node: class 1, or class 0 on kernels before 5.10, which have only that class."""
    return accesses[-1] if accesses else None


def nearest_cpus(
    node: int, cpus: Mapping[int, CpuSet], accesses: Sequence[Access], distances: Mapping[int, int]
) -> tuple[CpuSet, str]:
    """Return the CPUs nearest to a node without CPUs, and the rule that selected them: the order of the rules is
    hwloc's.

    `cpus` are the CPUs of the nodes that have some.
    """
    access = best_access(accesses)
    nearest = CpuSet.union(cpus[node_id] for node_id in (access.initiators if access else ()) if node_id in cpus)
    if nearest:
        return nearest, f"the CPUs of its initiators of class {access.access_class if access else ''}"
    known = {node_id: distances[node_id] for node_id in cpus if node_id in distances and node_id != node}
    if known:
        least = min(known.values())
        return CpuSet.union(cpus[node_id] for node_id, distance in known.items() if distance == least), (
            "the CPUs of the zones at the smallest distance"
        )
    if len(cpus) == 1:
        return CpuSet.union(cpus.values()), "the CPUs of the only zone that has any"
    return EMPTY, "no source shows which CPUs are nearest"
