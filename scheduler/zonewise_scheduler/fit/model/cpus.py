"""The CPUs of a node as the kubelet's CPU Manager sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

Group = tuple[int, int]
"""An id, and the CPUs as the bits of an integer."""


@dataclass(frozen=True)
class CpuTopology:
    """Which CPUs share what (pkg/kubelet/cm/cpumanager/topology/topology.go CPUTopology).

    Nodes of one make share one such value. All groups are ascending by id, and each CPU is in one group of each sort.
    """

    cores: tuple[Group, ...]
    """The id is that of the kubelet: the lowest CPU of the core."""
    zones: tuple[Group, ...]
    """The NUMA nodes that have CPUs, by the kernel's ids."""
    packages: tuple[Group, ...]
    caches: tuple[Group, ...] = ()
    """Groups of CPUs with an L3 cache of their own (the kubelet's "uncore caches"); empty where unknown."""
    reserved: int = 0
    """Bits of the CPUs that are given to nobody exclusively."""
    exact: bool = True
    """False: ids are made up, since the report tells only how many CPUs there are."""

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
    def threads_per_core(self) -> int:
        """Return CPUs by cores, rounded down (CPUsPerCore()); 0 without cores."""
        return self.cpus.bit_count() // len(self.cores) if self.cores else 0
