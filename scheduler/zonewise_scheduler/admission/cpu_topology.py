"""The CPUs of a node as the kubelet's CPU Manager sees them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

CpuGroup = tuple[int, int]
"""An id, and the CPUs as the bits of an integer."""


class CorePattern(NamedTuple):
    """Cores whose CPUs lie equally far from their first one, so that one shift finds a sibling of each."""

    firsts: int
    """Bits of the lowest CPU of each core: the cores' ids."""
    offsets: tuple[int, ...]
    """From the lowest CPU of a core to each of its CPUs, ascending; the first is 0."""


@dataclass(frozen=True)
class CpuTopology:
    """Which CPUs share what (pkg/kubelet/cm/cpumanager/topology/topology.go CPUTopology).

    Nodes of one model share one such value. All groups are ascending by id. Each CPU is in one group of each sort.
    """

    cores: tuple[CpuGroup, ...]
    """The id is the kubelet's: the lowest CPU of the core."""
    zones: tuple[CpuGroup, ...]
    """The NUMA nodes that have CPUs, by the kernel's ids."""
    packages: tuple[CpuGroup, ...]
    caches: tuple[CpuGroup, ...] = ()
    """Groups of CPUs with an L3 cache of their own (the kubelet's "uncore caches"); empty where unknown."""
    reserved: int = 0
    """Bits of the CPUs that are never allocated exclusively."""
    exact: bool = True
    """False: the ids are invented, since the report has only counts of CPUs."""

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
        """Return CPUs by cores, rounded down (CPUsPerCore()); 0 without cores."""
        return self.cpus.bit_count() // len(self.cores) if self.cores else 0

    @cached_property
    def cpus_per_socket(self) -> int:
        """Return CPUs by packages, rounded down (CPUsPerSocket()); 0 without packages."""
        return self.cpus.bit_count() // len(self.packages) if self.packages else 0

    @cached_property
    def zones_per_package(self) -> int:
        """Return zones by packages, rounded down; 0 without packages."""
        return len(self.zones) // len(self.packages) if self.packages else 0

    @cached_property
    def uncore_caches(self) -> tuple[CpuGroup, ...]:
        """Return the caches, or the packages where no cache is known (getUncoreCacheID)."""
        return self.caches or self.packages

    @cached_property
    def cpus_per_uncore(self) -> int:
        """Return CPUs by uncore caches, rounded down (CPUsPerUncore()); 0 without any."""
        return self.cpus.bit_count() // len(self.uncore_caches) if self.uncore_caches else 0

    @cached_property
    def numa_first(self) -> bool:
        """Return whether zones rank above packages: there are no more zones (cpu_assignment.go newCPUAccumulator)."""
        return len(self.packages) >= len(self.zones)

    @cached_property
    def smallest_zone(self) -> int:
        """Return the count of CPUs of the smallest zone; 0 without zones."""
        return min((bits.bit_count() for _, bits in self.zones), default=0)

    @cached_property
    def smallest_package(self) -> int:
        """Return the count of CPUs of the smallest package; 0 without packages."""
        return min((bits.bit_count() for _, bits in self.packages), default=0)

    @cached_property
    def largest_totals(self) -> tuple[int, ...]:
        """Return the largest number of CPUs in 1, 2, ... zones, busy and reserved ones included."""
        return tuple(accumulate(sorted((bits.bit_count() for _, bits in self.zones), reverse=True)))

    @cached_property
    def reserved_cores(self) -> int:
        """Return the bits of all CPUs of the cores that have a reserved one (reservedPhysicalCPUs)."""
        bits = 0
        for _, core in self.cores:
            if core & self.reserved:
                bits |= core
        return bits

    @cached_property
    def patterns(self) -> tuple[CorePattern, ...]:
        """Return the cores by the distances of their CPUs: one pattern on most machines."""
        firsts: defaultdict[tuple[int, ...], int] = defaultdict(int)
        for number, bits in self.cores:
            firsts[tuple(CpuSet.from_bits(bits >> number))] |= 1 << number
        return tuple(CorePattern(bits, offsets) for offsets, bits in firsts.items())

    @cached_property
    def uniform(self) -> bool:
        """Return whether all cores have equally many CPUs; hybrid cores and offline threads make them differ."""
        return len({len(pattern.offsets) for pattern in self.patterns}) < 2

    def cpus_in_numa_nodes(self, zones: int) -> int:
        """Return the bits of all CPUs of zones given by their ids, as bits."""
        bits = 0
        for number, cpus in self.zones:
            if zones >> number & 1:
                bits |= cpus
        return bits

    def cpus_in_cores(self, firsts: int) -> int:
        """Return the bits of all CPUs of cores given by their ids, as bits."""
        bits = 0
        for pattern in self.patterns:
            cores = firsts & pattern.firsts
            if cores:
                for offset in pattern.offsets:
                    bits |= cores << offset
        return bits

    def cores_by_count(self, cpus: int) -> list[int]:
        """Return the ids, as bits, of the cores that have exactly 0, 1, 2, ... of the given CPUs.

        All cores of a pattern are counted at once. If the next CPU is present, a core moves from the set of n to that
        of n + 1.
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
