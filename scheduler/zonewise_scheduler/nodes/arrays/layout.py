"""The layout: the properties that rows must have in common to share arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Policies

CPU = 0
"""The index of CPUs in the first axis of all arrays. Memory types follow, then devices."""


class ZoneLocality(Enum):
    """How the units of a resource are assigned to the zones of a node."""

    EXACT = 0
    """Each unit belongs to one zone, or to none while other units have one."""
    ANYWHERE = 1
    """No unit belongs to a zone: the resource gives no hints."""
    MIXED = 2
    """Counts do not determine which unit is allocated: units belong to several zones, or the kubelet ignores zones."""


@dataclass(frozen=True)
class Layout:
    """Types of resources and rules of allocation, without the amounts and the zones to which units belong.

    Machines of many models share a layout, since their CPUs, devices and distances are in the arrays or are irrelevant.
    """

    policies: Policies
    """Policies; options that affect no array have their defaults."""
    zone_count: int
    memory_types: tuple[str, ...]
    device_localities: tuple[tuple[str, ZoneLocality], ...]
    """Name and locality of each device resource, in the order of their indices."""
    cpus_per_core: int
    """Number of CPUs per core; 0 if no policy requires whole cores."""
    partly_reserved: bool
    """True if some cores are partly reserved and full-pcpus-only does not count their unreserved CPUs."""
    kubelet_runs: bool
    """True if the kubelet starts on these zones and survives pods whose memory is not pinned."""
    kubelet_runs_pinned: bool
    """True if the kubelet also survives pods whose memory is pinned."""
    has_verdicts: bool
    """True if the kubelet reaches a verdict on every pod: no distances make it panic, and not too many zones have
    hints."""
    has_uneven_distances: bool
    """True if the kubelet may prefer a single zone other than the lowest."""
    closest_first: tuple[int, ...]
    """All sets of zones, by position, in the order in which the kubelet tries equally preferred ones; empty if lower
    ones come first."""
    packages: tuple[int, ...]
    """Sets of zones, by position, in which align-by-socket allocates CPUs of a whole package; empty without the option,
    or if no array determines the CPUs."""
    fills_packages: bool
    """True if CPUs of a package are taken from the zone with the fewest free ones first, only in whole cores."""
    counts_cpus: bool
    """True if each allocation takes as many free CPUs as it requests. Otherwise the kubelet may take busy ones among
    them, or reject a request that fits if it distributes CPUs across zones."""
    takes_free_cpus: bool
    """True if each allocation takes only free CPUs, as many as it requests, or the kubelet rejects the pod."""
    cpu_unit: int
    """Multiples of this number of CPUs are taken from a zone in one order, whatever the multiple; 0: there is no such
    unit.

    The CPUs of a smaller request are then a subset of those of a larger one.
    """

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(
            (self.policies, self.zone_count, self.memory_types, self.device_localities, self.cpu_unit, self.packages,
             self.closest_first)
        )  # fmt: skip

    @cached_property
    def memory_index(self) -> dict[str, int]:
        """Return the index of each memory type in the first axis."""
        return {name: CPU + 1 + index for index, name in enumerate(self.memory_types)}

    @cached_property
    def device_index(self) -> dict[str, int]:
        """Return the index of each device resource in the first axis."""
        first = CPU + 1 + len(self.memory_types)
        return {name: first + index for index, (name, _) in enumerate(self.device_localities)}

    @cached_property
    def resource_count(self) -> int:
        """Return the length of the first axis."""
        return 1 + len(self.memory_types) + len(self.device_localities)

    def is_memory(self, index: int) -> bool:
        """Return whether an index of the first axis belongs to a memory type."""
        return CPU < index <= CPU + len(self.memory_types)

    def with_zones(self, amounts: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """Return the amounts, by index, of the resources whose units belong to zones: only these produce hints."""
        return tuple(entry for entry in amounts if self.localities[entry[0]] is not ZoneLocality.ANYWHERE)

    @cached_property
    def localities(self) -> tuple[ZoneLocality, ...]:
        """Return the locality of each index of the first axis."""
        devices = tuple(locality for _, locality in self.device_localities)
        return (ZoneLocality.EXACT,) * (1 + len(self.memory_types)) + devices
