"""Packages and L3 groups as zones of a NodeResourceTopology object, and the CPUs of each zone.

The zones are numbered in the order of the kernel's ids. If packages or L3 groups have equal numbers of free CPUs, the
kubelet allocates from the lowest id first (pkg/kubelet/cm/cpumanager/cpu_assignment.go cpuAccumulator.sort).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zonewise.objects.nrt_fields import numa_zone_name, omit_empty
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.attributes import write_attributes
from zonewise_common.nrt.cores import write_cores
from zonewise_common.nrt.names import CACHE_SIZE, CORES, CPUS, MODEL
from zonewise_common.nrt.zones import L3, PACKAGE, zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.machine.model.cpu import Cache, Package
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.objects.nrt_fields import Object

T = TypeVar("T", "Package", "Cache")


def zone_cpu_attributes(machine: Machine, zone: Zone) -> Iterator[tuple[str, object]]:
    """Yield the CPUs of a zone, and how they form cores if any core has several CPUs."""
    if zone.cpus:
        yield CPUS, zone.cpus
        cores = [core.cpus & zone.cpus for core in machine.cores if core.zone == zone.id]
        if any(len(core) > 1 for core in cores):
            alone = zone.cpus - CpuSet.union(cores)
            yield CORES, write_cores([*cores, *(CpuSet((cpu,)) for cpu in alone)])


def package_zones(machine: Machine) -> Iterator[Object]:
    """Yield the packages."""
    for number, package in enumerate(_by_id(machine.packages)):
        parent = _enclosing_zone(machine, package.cpus) if _zone_in_package(machine, package) is None else None
        obj: Object = {"name": zone_name(PACKAGE, number), "type": PACKAGE, "parent": parent}
        pairs = [(CPUS, package.cpus), (MODEL, package.model)]
        yield omit_empty({**obj, "attributes": write_attributes(pairs)})


def l3_zones(machine: Machine) -> Iterator[Object]:
    """Yield the groups of CPUs that share an L3 cache, if they are parts of a NUMA node.

    A cache without an id is omitted: the kubelet ignores it, and treats each package as one group (cadvisor
    utils/sysfs/sysfs.go GetCacheInfo, cpumanager/topology/topology.go getUncoreCacheID).
    """
    number = 0
    for cache in _by_id(cache for cache in machine.caches if cache.level == 3 and cache.id is not None):
        zone = _partial_zone(machine, cache)
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
    """Return the name of the package that contains all of the CPUs."""
    for number, package in enumerate(_by_id(machine.packages)):
        if cpus and cpus <= package.cpus:
            return zone_name(PACKAGE, number)
    return None


def _by_id(objects: Iterable[T]) -> list[T]:
    """Return objects in the order of their ids; in their given order if any lacks an id."""
    listed = list(objects)
    ids = {each.id for each in listed}
    return listed if None in ids else sorted(listed, key=lambda each: each.id or 0)


def _partial_zone(machine: Machine, cache: Cache) -> Zone | None:
    """Return the zone that a cache partly serves; None if the cache serves a whole zone and adds no information."""
    return next((zone for zone in machine.zones if cache.cpus and cache.cpus < zone.cpus), None)


def _zone_in_package(machine: Machine, package: Package) -> Zone | None:
    """Return a zone inside a package; the package then cannot be inside that zone."""
    return next((zone for zone in machine.zones if zone.cpus and zone.cpus <= package.cpus), None)


def _enclosing_zone(machine: Machine, cpus: CpuSet) -> str | None:
    return next((numa_zone_name(zone) for zone in machine.zones if cpus and cpus <= zone.cpus), None)
