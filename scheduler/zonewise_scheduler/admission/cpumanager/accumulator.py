"""Step-by-step assignment of CPUs (pkg/kubelet/cm/cpumanager/cpu_assignment.go cpuAccumulator).

Sets of CPUs are integers, whereas the kubelet iterates over lists of ids. If cores of a group have equally many free
CPUs, the kubelet takes them in the order of their ids. So one mask operation replaces the loop over all cores of a
group.

This module reproduces two oddities of the kubelet:

- A package or core counts as free if its number of free CPUs equals the average size. All its CPUs are then taken. If
  sizes differ, these may include CPUs that other containers hold.
- A group that spans two groups of the level above is listed twice and, when it is taken, counted twice.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.admission.cpu_topology import CpuGroup, CpuTopology


class CpuAllocationError(Exception):
    """The static policy cannot allocate the CPUs; the message is the kubelet's."""


class CpuAccumulator:
    """The CPUs that are still free, the number still needed, and the result."""

    __slots__ = ("free", "num_cpus_needed", "result", "topology")

    def __init__(self, topology: CpuTopology, free: int, num_cpus_needed: int) -> None:
        self.topology = topology
        self.free = free
        self.num_cpus_needed = num_cpus_needed
        self.result = 0

    def take(self, cpus: int) -> None:
        """Move CPUs from the free ones to the result."""
        self.result |= cpus
        self.free &= ~cpus
        self.num_cpus_needed -= cpus.bit_count()

    def sort_available_numa_nodes(self) -> list[int]:
        """Return the zones with free CPUs, fewest free CPUs first; if packages rank above zones, package by package."""
        topology = self.topology
        if topology.numa_first:
            return self._ascending(topology.zones, self.free)
        return [
            zone
            for package in self._ascending(topology.packages, self.free)
            for zone in self._ascending(topology.zones, package)
        ]

    def sort_available_sockets(self) -> list[int]:
        """Return the packages with free CPUs, fewest free CPUs first; if zones rank above packages, zone by zone."""
        topology = self.topology
        if not topology.numa_first:
            return self._ascending(topology.packages, self.free)
        return [
            package
            for zone in self._ascending(topology.zones, self.free)
            for package in self._ascending(topology.packages, zone)
        ]

    def take_full_numa_nodes(self) -> None:
        """Take entirely free zones that are no larger than the remaining need (takeFullNUMANodes)."""
        if self.num_cpus_needed >= self.topology.smallest_zone:
            self._take_each(zone for zone in self.sort_available_numa_nodes() if not zone & ~self.free)

    def take_full_sockets(self) -> None:
        """Take entirely free packages that are no larger than the remaining need (takeFullSockets)."""
        if self.num_cpus_needed >= self.topology.smallest_package:
            size = self.topology.cpus_per_socket
            self._take_each(
                package for package in self.sort_available_sockets() if (package & self.free).bit_count() == size
            )

    def take_uncore_cache(self, *, rounds_up: bool) -> None:
        """Take entirely free uncore caches, then the rest from one cache with enough free CPUs (takeUncoreCache).

        The kubelet retries the entirely free caches before each cache, which has no effect.
        """
        order = [
            cache
            for zone in self.sort_available_numa_nodes()
            for cache in self._ascending(self.topology.uncore_caches, zone)
        ]
        if self.num_cpus_needed >= self.topology.cpus_per_uncore:
            self._take_each(cache for cache in order if not cache & ~self.free)
        self._take_within_cache(order, rounds_up=rounds_up)

    def take_full_cores(self) -> None:
        """Take entirely free cores that are no larger than the remaining need (takeFullCores)."""
        topology = self.topology
        threads = topology.cpus_per_core
        cores = topology.cores_by_count(self.free)[threads] if self.num_cpus_needed >= threads else 0
        if not cores:
            return
        for group in self._groups_of_cores():
            if topology.uniform:
                self.take(topology.cpus_in_cores(lowest_bits(cores & group, self.num_cpus_needed // threads)))
            else:
                self._take_each(topology.cpus_in_cores(core) for core in single_bits(cores & group))

    def take_remaining_cpus_packed(self) -> None:
        """Take CPUs from the cores with the fewest free CPUs first (takeRemainingCPUs, sortAvailableCPUsPacked)."""
        free = self.free
        by_count = self.topology.cores_by_count(free)[1:]
        for group in self._groups_of_cores():
            for count, cores in enumerate(by_count, 1):
                self._take_from_cores(cores & group, count, free)
            if not self.num_cpus_needed:
                return

    def take_remaining_cpus_spread(self) -> None:
        """Take CPUs in ascending order of id, and so the first thread of each core first (sortAvailableCPUsSpread)."""
        free = self.free
        for package in self.sort_available_sockets():
            self.take(lowest_bits(package & free, self.num_cpus_needed))

    def _ascending(self, groups: Iterable[CpuGroup], within: int) -> list[int]:
        """Return the groups with free CPUs among those in `within`, ascending by all their free CPUs, then by id."""
        free = self.free
        by_free = [((free & cpus).bit_count(), number, cpus) for number, cpus in groups if free & within & cpus]
        return [cpus for _, _, cpus in sorted(by_free)]

    def _groups_of_cores(self) -> list[int]:
        return self.sort_available_sockets() if self.topology.numa_first else self.sort_available_numa_nodes()

    def _take_each(self, groups: Iterable[int]) -> None:
        """Take each group that is no larger than the remaining need; all groups are listed before one is taken."""
        for cpus in list(groups):
            if self.num_cpus_needed >= cpus.bit_count():
                self.take(cpus)

    def _take_within_cache(self, order: Iterable[int], *, rounds_up: bool) -> None:
        """Take all needed CPUs from the first cache whose lowest cores have exactly that many (takePartialUncore).

        If the need is odd, these cores may have one CPU more, which remains free.
        """
        threads, needed = self.topology.cpus_per_core, self.num_cpus_needed
        count = (needed + threads - 1) // threads if rounds_up else needed // threads
        spare = needed % 2 if rounds_up and threads > 1 else 0
        cores = 0
        for with_free in self.topology.cores_by_count(self.free)[1:]:
            cores |= with_free
        for cache in order:
            cpus = self.topology.cpus_in_cores(lowest_bits(cores & cache, count)) & self.free
            if needed <= cpus.bit_count() <= needed + spare:
                self.take(lowest_bits(cpus, needed))
                return

    def _take_from_cores(self, cores: int, count: int, free: int) -> None:
        """Take free CPUs of cores that have `count` free CPUs each, as many as are needed."""
        whole = lowest_bits(cores, self.num_cpus_needed // count)
        self.take(self.topology.cpus_in_cores(whole) & free)
        rest = cores & ~whole
        self.take(lowest_bits(self.topology.cpus_in_cores(rest & -rest) & free, self.num_cpus_needed))


def lowest_bits(bits: int, count: int) -> int:
    """Return the `count` lowest members of a set, or the whole set if it has no more."""
    if not count:
        return 0
    if bits.bit_count() <= count:
        return bits
    length = bisect_left(range(bits.bit_length()), count, key=lambda length: (bits & (1 << length) - 1).bit_count())
    return bits & (1 << length) - 1


def single_bits(bits: int) -> Iterator[int]:
    """Yield each member of a set, in ascending order, as a set of its own."""
    while bits:
        yield bits & -bits
        bits &= bits - 1
