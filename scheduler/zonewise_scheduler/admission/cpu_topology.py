"""The CPUs of a node as the kubelet's CPU Manager sees them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

CpuGroup = tuple[int, int]
"""Id of a group, and its CPUs as the bits of an integer."""


class CorePattern(NamedTuple):
    """Cores whose CPUs have the same offsets from the core's lowest CPU: one shift finds a sibling in each of them."""

    firsts: int
    """The lowest CPU of each core, which is the core's id, as bits."""
    offsets: tuple[int, ...]
    """Distances from the lowest CPU of a core to each of its CPUs, ascending; the first is 0."""


@dataclass(frozen=True)
class CpuTopology:
    """The groups that CPUs form (pkg/kubelet/cm/cpumanager/topology/topology.go CPUTopology).

    Nodes of one model share one value. Groups of each type are in ascending order of id. Each CPU is in one group of
    each type.
    """

    cores: tuple[CpuGroup, ...]
    """The id of a core is its lowest CPU, as in the kubelet."""
    zones: tuple[CpuGroup, ...]
    """The NUMA nodes that have CPUs, with the kernel's ids."""
    packages: tuple[CpuGroup, ...]
    caches: tuple[CpuGroup, ...] = ()
    """Groups of CPUs that share an L3 cache (the kubelet's "uncore caches"); empty if unknown."""
    reserved: int = 0
    """CPUs that are never allocated exclusively, as bits."""
    exact: bool = True
    """False: the CPU ids are invented, because the report contains only the number of CPUs."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.cores, self.zones, self.packages, self.caches, self.reserved))

    @cached_property
    def cpus(self) -> int:
        """Return the bits of all CPUs."""
        bits = 0
        for _, zone in self.zones:
            bits |= zone
        return bits

    @cached_property
    def cpus_per_core(self) -> int:
        """Return the number of CPUs per core, rounded down (CPUsPerCore()); 0 if there are no cores."""
        return self.cpus.bit_count() // len(self.cores) if self.cores else 0

    @cached_property
    def cpus_per_socket(self) -> int:
        """Return the number of CPUs per package, rounded down (CPUsPerSocket()); 0 if there are no packages."""
        return self.cpus.bit_count() // len(self.packages) if self.packages else 0

    @cached_property
    def zones_per_package(self) -> int:
        """Return the number of zones per package, rounded down; 0 if there are no packages."""
        return len(self.zones) // len(self.packages) if self.packages else 0

    @cached_property
    def uncore_caches(self) -> tuple[CpuGroup, ...]:
        """Return the caches, or the packages if no cache is known (getUncoreCacheID)."""
        return self.caches or self.packages

    @cached_property
    def cpus_per_uncore(self) -> int:
        """Return the number of CPUs per uncore cache, rounded down (CPUsPerUncore()); 0 if there are no caches."""
        return self.cpus.bit_count() // len(self.uncore_caches) if self.uncore_caches else 0

    @cached_property
    def numa_first(self) -> bool:
        """Return whether zones rank above packages: they are no more numerous (cpu_assignment.go newCPUAccumulator)."""
        return len(self.packages) >= len(self.zones)

    @cached_property
    def smallest_zone(self) -> int:
        """Return the number of CPUs in the smallest zone; 0 if there are no zones."""
        return min((bits.bit_count() for _, bits in self.zones), default=0)

    @cached_property
    def smallest_package(self) -> int:
        """Return the number of CPUs in the smallest package; 0 if there are no packages."""
        return min((bits.bit_count() for _, bits in self.packages), default=0)

    @cached_property
    def largest_totals(self) -> tuple[int, ...]:
        """Return the largest number of CPUs in 1, 2, ... zones, busy and reserved ones included."""
        return tuple(accumulate(sorted((bits.bit_count() for _, bits in self.zones), reverse=True)))

    @cached_property
    def reserved_cores(self) -> int:
        """Return the bits of all CPUs of cores that contain a reserved CPU (reservedPhysicalCPUs)."""
        bits = 0
        for _, core in self.cores:
            if core & self.reserved:
                bits |= core
        return bits

    @cached_property
    def patterns(self) -> tuple[CorePattern, ...]:
        """Return the cores, grouped by the offsets of their CPUs; most machines have only one pattern."""
        firsts: defaultdict[tuple[int, ...], int] = defaultdict(int)
        for number, bits in self.cores:
            firsts[tuple(CpuSet.from_bits(bits >> number))] |= 1 << number
        return tuple(CorePattern(bits, offsets) for offsets, bits in firsts.items())

    @cached_property
    def uniform(self) -> bool:
        """Return whether all cores have the same number of CPUs; hybrid cores and offline threads make them differ."""
        return len({len(pattern.offsets) for pattern in self.patterns}) < 2

    def cpus_in_numa_nodes(self, zones: int) -> int:
        """Return the bits of all CPUs in the zones whose ids are given as bits."""
        bits = 0
        for number, cpus in self.zones:
            if zones >> number & 1:
                bits |= cpus
        return bits

    def cpus_in_cores(self, firsts: int) -> int:
        """Return the bits of all CPUs in the cores whose ids are given as bits."""
        bits = 0
        for pattern in self.patterns:
            cores = firsts & pattern.firsts
            if cores:
                for offset in pattern.offsets:
                    bits |= cores << offset
        return bits

    def cores_by_count(self, cpus: int) -> list[int]:
        """Return the ids, as bits, of the cores that contain exactly 0, 1, 2, ... of the given CPUs.

        All cores of a pattern are counted at once. If its next CPU is among the given ones, a core moves from the
        set for n CPUs to the set for n + 1.
        """
        by_count = [0] * (max((len(pattern.offsets) for pattern in self.patterns), default=0) + 1)
        for firsts, offsets in self.patterns:
            counted = [firsts]
            for offset in offsets:
                present = cpus >> offset & firsts
                counted.append(0)
                for count in range(len(counted) - 1, 0, -1):
                    counted[count] = counted[count] & ~present | counted[count - 1] & present
                counted[0] &= ~present
            for count, cores in enumerate(counted):
                by_count[count] |= cores
        return by_count
