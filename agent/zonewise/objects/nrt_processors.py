"""Packages and L3 groups as zones of a NodeResourceTopology object, and the CPUs of each zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.objects.nrt_fields import numa_zone_name, omit_empty
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.attributes import write_attributes
from zonewise_common.nrt.cores import write_cores
from zonewise_common.nrt.names import CACHE_SIZE, CORES, CPUS, MODEL
from zonewise_common.nrt.zones import L3, PACKAGE, zone_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.cpu import Cache
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.objects.nrt_fields import Object


def zone_cpu_attributes(machine: Machine, zone: Zone) -> Iterator[tuple[str, object]]:
    """Yield the CPUs of a zone, and their grouping into cores where any core has several."""
    if zone.cpus:
        yield CPUS, zone.cpus
        cores = [core.cpus & zone.cpus for core in machine.cores if core.zone == zone.id]
        if any(len(core) > 1 for core in cores):
            alone = zone.cpus - CpuSet.union(cores)
            yield CORES, write_cores([*cores, *(CpuSet((cpu,)) for cpu in alone)])


def package_zones(machine: Machine) -> Iterator[Object]:
    """Yield the packages."""
    for number, package in enumerate(machine.packages):
        parent = _enclosing_zone(machine, package.cpus) if _zone_in_package(machine, number) is None else None
        obj: Object = {"name": zone_name(PACKAGE, number), "type": PACKAGE, "parent": parent}
        pairs = [(CPUS, package.cpus), (MODEL, package.model)]
        yield omit_empty({**obj, "attributes": write_attributes(pairs)})


def l3_zones(machine: Machine) -> Iterator[Object]:
    """Yield the groups of CPUs that share an L3 cache, where they are parts of a NUMA node."""
    number = 0
    for cache in machine.caches:
        zone = _partial_zone(machine, cache) if cache.level == 3 else None
        if zone is not None:
            pairs = [(CPUS, cache.cpus), (CACHE_SIZE, cache.size)]
            yield {
                "name": zone_name(L3, number),
                "type": L3,
                "parent": numa_zone_name(zone),
                "attributes": write_attributes(pairs),
            }
            number += 1


def enclosing_package(machine: Machine, cpus: CpuSet) -> str | None:
    """Return the name of the package that holds all of the CPUs."""
    for number, package in enumerate(machine.packages):
        if cpus and cpus <= package.cpus:
            return zone_name(PACKAGE, number)
    return None


def _partial_zone(machine: Machine, cache: Cache) -> Zone | None:
    """Return the zone of which a cache serves a part; None where it serves a whole zone and adds no information."""
    return next((zone for zone in machine.zones if cache.cpus and cache.cpus < zone.cpus), None)


def _zone_in_package(machine: Machine, number: int) -> Zone | None:
    """Return a zone that lies within a package; the package cannot then lie within that zone."""
    package = machine.packages[number]
    return next((zone for zone in machine.zones if zone.cpus and zone.cpus <= package.cpus), None)


def _enclosing_zone(machine: Machine, cpus: CpuSet) -> str | None:
    return next((numa_zone_name(zone) for zone in machine.zones if cpus and cpus <= zone.cpus), None)
