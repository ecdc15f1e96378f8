"""What rows have in common that are kept in the same arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import NodeKind, Policies
    from zonewise_scheduler.nodes.arrays.types import I64

CPU = 0
"""The index of CPUs in the first axis of all arrays; memory types follow, then devices."""


class ZoneLocality(Enum):
    """How a resource's amounts in the zones of a node hang together."""

    EXACT = 0
    """Each unit is in one zone, or in none beside others that are."""
    ANYWHERE = 1
    """No unit is known to be near a zone: the resource has no opinion on zones."""
    MIXED = 2
    """Which unit is taken is not foretold by counts: some are near several zones, or zones are not regarded."""


@dataclass(frozen=True)
class Layout:
    """A kind of node but for its amounts of memory and devices, which differ between nodes of one make."""

    policies: Policies
    zones: tuple[int, ...]
    """The NUMA nodes by position in the second axis of all arrays."""
    cpus: CpuTopology
    memory_types: tuple[str, ...]
    devices: tuple[tuple[str, int], ...]
    """Resource and zone set of each class of devices."""
    distances: tuple[tuple[int, ...], ...]
    """From and to zones; empty where unknown."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.policies, self.zones, self.cpus, self.memory_types, self.devices))

    @classmethod
    def from_kind(cls, kind: NodeKind) -> Layout:
        """Return the layout of a kind."""
        devices = tuple((one.resource, one.zones) for one in kind.devices)
        return cls(kind.policies, kind.zones, kind.cpus, kind.memory_types, devices, kind.distances)

    @cached_property
    def has_uneven_distances(self) -> bool:
        """Tell whether prefer_closest may take another single zone than the lowest.

        Zones may be of different distances to themselves; and with gaps in the ids the kubelet takes distances to wrong
        zones (numa_info.go CalculateAverageFor).
        """
        own = {row[place] for place, row in enumerate(self.distances)}
        return len(own) > 1 or self.zones != tuple(range(len(self.zones)))

    @cached_property
    def device_resources(self) -> tuple[str, ...]:
        """Return the names of devices' resources, in the order of their indices."""
        return tuple(dict.fromkeys(resource for resource, _ in self.devices))

    @cached_property
    def memory_index(self) -> dict[str, int]:
        """Return the index of each memory type in the first axis."""
        return {name: CPU + 1 + place for place, name in enumerate(self.memory_types)}

    @cached_property
    def device_index(self) -> dict[str, int]:
        """Return the index of each resource in the first axis."""
        return {name: CPU + 1 + len(self.memory_types) + place for place, name in enumerate(self.device_resources)}

    @cached_property
    def resource_count(self) -> int:
        """Return the length of the first axis."""
        return 1 + len(self.memory_types) + len(self.device_resources)

    def is_memory(self, index: int) -> bool:
        """Tell whether an index of the first axis is that of a type of memory."""
        return CPU < index <= CPU + len(self.memory_types)

    @cached_property
    def localities(self) -> tuple[ZoneLocality, ...]:
        """Return the nature of each index of the first axis."""
        devices = tuple(self._locality(resource) for resource in self.device_resources)
        return (ZoneLocality.EXACT,) * (1 + len(self.memory_types)) + devices

    def _locality(self, resource: str) -> ZoneLocality:
        sets = [zones for name, zones in self.devices if name == resource]
        if not any(sets):
            return ZoneLocality.ANYWHERE
        known = sum(1 << zone for zone in self.zones)
        plain = all(zones & ~known == 0 and zones.bit_count() <= 1 for zones in sets)
        # a kubelet with one zone reduces the hint of single-numa-node to none at all, and then takes any device
        return ZoneLocality.EXACT if plain and not (len(self.zones) == 1 and 0 in sets) else ZoneLocality.MIXED

    def to_positions(self, zones: int) -> int:
        """Return a set of zones by position instead of by id; ids may be up to 255 on machines with few zones."""
        if not zones or self.zones[-1] < len(self.zones):
            return zones
        return sum(1 << position for position, zone in enumerate(self.zones) if zones >> zone & 1)

    @cached_property
    def device_cells(self) -> tuple[tuple[int, int], ...]:
        """Return pairs of a class and the flat place, index times zones plus zone position, where it counts."""
        found: list[tuple[int, int]] = []
        for place, (resource, zones) in enumerate(self.devices):
            index = self.device_index[resource]
            anywhere = self.localities[index] is ZoneLocality.ANYWHERE
            near = (position for position, zone in enumerate(self.zones) if anywhere or zones >> zone & 1)
            found += [(place, index * len(self.zones) + position) for position in near]
        return tuple(found)

    @cached_property
    def cpu_bytes(self) -> int:
        """Return how many bytes the bits of all CPUs need, in whole words of 8."""
        return max(1, -(-self.cpus.cpus.bit_length() // 64)) * 8

    @cached_property
    def zone_words(self) -> I64:
        """Return the CPUs of each zone: (zones, words) of 64 bits."""
        held = dict(self.cpus.zones)
        bits = b"".join(held.get(zone, 0).to_bytes(self.cpu_bytes, "little") for zone in self.zones)
        return np.frombuffer(bits, np.uint64).reshape(len(self.zones), -1).view(np.int64)

    @cached_property
    def cpu_totals(self) -> I64:
        """Return the number of CPUs of each zone, the reserved ones too."""
        return np.bitwise_count(self.zone_words.view(np.uint64)).sum(axis=1, dtype=np.int64)

    @cached_property
    def partly_reserved(self) -> int:
        """Return the CPUs that are not reserved, but their core is in part: full-pcpus-only counts without them."""
        return self.cpus.reserved_cores & ~self.cpus.reserved
