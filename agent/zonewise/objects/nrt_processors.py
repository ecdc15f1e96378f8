"""What holds CPUs, as zones of a NodeResourceTopology object: packages and L3 groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.objects.nrt_fields import attributes, omit_empty, zone_name
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.cores import write_cores
from zonewise_common.nrt.names import CORES, CPUS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.cpu import Cache
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.objects.nrt_fields import Object


def zone_cpu_attributes(machine: Machine, zone: Zone) -> Iterator[tuple[str, object]]:
    """Yield the CPUs of a zone, and which of them are one core where any core has several."""
    if zone.cpus:
        yield CPUS, zone.cpus
        cores = [core.cpus & zone.cpus for core in machine.cores if core.zone == zone.id]
        if any(len(core) > 1 for core in cores):
            alone = zone.cpus - CpuSet.union(cores)
            yield CORES, write_cores([*cores, *(CpuSet((cpu,)) for cpu in alone)])


def package_zones(machine: Machine) -> Iterator[Object]:
    """Yield the packages."""
    for number, package in enumerate(machine.packages):
        parent = _node_around(machine, package.cpus) if _package_of_zone(machine, number) is None else None
        made: Object = {"name": f"package-{number}", "type": "Package", "parent": parent}
        told = [(CPUS, package.cpus), ("zonewise.dev/model", package.model)]
        yield omit_empty({**made, "attributes": attributes(told)})


def l3_zones(machine: Machine) -> Iterator[Object]:
    """Yield the groups of CPUs with an L3 cache of their own, where they are parts of a NUMA node."""
    number = 0
    for cache in machine.caches:
        zone = _holder(machine, cache) if cache.level == 3 else None
        if zone is not None:
            told = [(CPUS, cache.cpus), ("zonewise.dev/size", cache.size)]
            yield {
                "name": f"l3-{number}",
                "type": "L3",
                "parent": zone_name(zone),
                "attributes": attributes(told),
            }
            number += 1


def enclosing_package(machine: Machine, cpus: CpuSet) -> str | None:
    """Return the name of the package that holds all of the CPUs."""
    for number, package in enumerate(machine.packages):
        if cpus and cpus <= package.cpus:
            return f"package-{number}"
    return None


def _holder(machine: Machine, cache: Cache) -> Zone | None:
    """Return the zone of which a cache serves a part; none where it serves a whole zone and says nothing new."""
    return next((zone for zone in machine.zones if cache.cpus and cache.cpus < zone.cpus), None)


def _package_of_zone(machine: Machine, number: int) -> Zone | None:
    """Return a zone that lies within a package, which cannot then lie within that zone."""
    package = machine.packages[number]
    return next((zone for zone in machine.zones if zone.cpus and zone.cpus <= package.cpus), None)


def _node_around(machine: Machine, cpus: CpuSet) -> str | None:
    return next((zone_name(zone) for zone in machine.zones if cpus and cpus <= zone.cpus), None)
