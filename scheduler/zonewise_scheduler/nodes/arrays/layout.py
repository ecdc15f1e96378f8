"""What rows must have in common to share arrays."""

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
"""The index of CPUs in the first axis of all arrays. Memory types follow, then devices."""


class ZoneLocality(Enum):
    """How the units of a resource belong to the zones of a node."""

    EXACT = 0
    """Each unit belongs to one zone, or to none while other units do."""
    ANYWHERE = 1
    """No unit belongs to a zone: the resource gives no hints."""
    MIXED = 2
    """Counts do not determine which unit is allocated: units belong to several zones, or the kubelet ignores zones."""


@dataclass(frozen=True)
class Layout:
    """A kind of node without its amounts of memory and devices, which differ between nodes of one model."""

    policies: Policies
    zones: tuple[int, ...]
    """The NUMA nodes, in the order of the second axis of all arrays."""
    cpus: CpuTopology
    memory_types: tuple[str, ...]
    devices: tuple[tuple[str, int], ...]
    """Resource and zone set of each class of devices."""
    distances: tuple[tuple[int, ...], ...]
    """From zone to zone; empty where unknown."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.policies, self.zones, self.cpus, self.memory_types, self.devices))

    @classmethod
    def from_kind(cls, kind: NodeKind) -> Layout:
        """Return the layout of a kind."""
        devices = tuple((device_class.resource, device_class.zones) for device_class in kind.devices)
        return cls(kind.policies, kind.zones, kind.cpus, kind.memory_types, devices, kind.distances)

    @cached_property
    def has_uneven_distances(self) -> bool:
        """Tell whether prefer_closest may prefer another single zone than the lowest.

        Zones may have different distances to themselves. With gaps in the ids, the kubelet reads distances of the wrong
        zones (numa_info.go CalculateAverageFor).
        """
        local_distances = {row[index] for index, row in enumerate(self.distances)}
        return len(local_distances) > 1 or self.zones != tuple(range(len(self.zones)))

    @cached_property
    def device_resources(self) -> tuple[str, ...]:
        """Return the device resources in the order of their indices."""
        return tuple(dict.fromkeys(resource for resource, _ in self.devices))

    @cached_property
    def memory_index(self) -> dict[str, int]:
        """Return the index of each memory type in the first axis."""
        return {name: CPU + 1 + index for index, name in enumerate(self.memory_types)}

    @cached_property
    def device_index(self) -> dict[str, int]:
        """Return the index of each device resource in the first axis."""
        return {name: CPU + 1 + len(self.memory_types) + index for index, name in enumerate(self.device_resources)}

    @cached_property
    def resource_count(self) -> int:
        """Return the length of the first axis."""
        return 1 + len(self.memory_types) + len(self.device_resources)

    def is_memory(self, index: int) -> bool:
        """Tell whether an index of the first axis is that of a memory type."""
        return CPU < index <= CPU + len(self.memory_types)

    @cached_property
    def localities(self) -> tuple[ZoneLocality, ...]:
        """Return the locality of each index of the first axis."""
        devices = tuple(self._locality(resource) for resource in self.device_resources)
        return (ZoneLocality.EXACT,) * (1 + len(self.memory_types)) + devices

    def _locality(self, resource: str) -> ZoneLocality:
        zone_sets = [zones for name, zones in self.devices if name == resource]
        if not any(zone_sets):
            return ZoneLocality.ANYWHERE
        known = sum(1 << zone for zone in self.zones)
        in_one_zone = all(zones & ~known == 0 and zones.bit_count() <= 1 for zones in zone_sets)
        # with one zone, single-numa-node reduces the hint to none at all; the kubelet then allocates any device
        return (
            ZoneLocality.EXACT if in_one_zone and not (len(self.zones) == 1 and 0 in zone_sets) else ZoneLocality.MIXED
        )

    def to_positions(self, zones: int) -> int:
        """Return a set of zones by position instead of by id; ids reach 255 even on nodes with few zones."""
        if not zones or self.zones[-1] < len(self.zones):
            return zones
        return sum(1 << position for position, zone in enumerate(self.zones) if zones >> zone & 1)

    @cached_property
    def device_cells(self) -> tuple[tuple[int, int], ...]:
        """Return pairs of a device class and a cell that counts it: resource index times zones plus zone position."""
        cells: list[tuple[int, int]] = []
        for device_class, (resource, zones) in enumerate(self.devices):
            index = self.device_index[resource]
            in_all_zones = self.localities[index] is ZoneLocality.ANYWHERE
            positions = (position for position, zone in enumerate(self.zones) if in_all_zones or zones >> zone & 1)
            cells += [(device_class, index * len(self.zones) + position) for position in positions]
        return tuple(cells)

    @cached_property
    def cpu_bytes(self) -> int:
        """Return how many bytes the bits of all CPUs need, in whole words of 8."""
        return max(1, -(-self.cpus.cpus.bit_length() // 64)) * 8

    @cached_property
    def zone_words(self) -> I64:
        """Return the CPUs of each zone: (zones, words) of 64 bits."""
        cpus_of_zone = dict(self.cpus.zones)
        bits = b"".join(cpus_of_zone.get(zone, 0).to_bytes(self.cpu_bytes, "little") for zone in self.zones)
        return np.frombuffer(bits, np.uint64).reshape(len(self.zones), -1).view(np.int64)

    @cached_property
    def cpu_totals(self) -> I64:
        """Return the number of CPUs of each zone, reserved ones included."""
        return np.bitwise_count(self.zone_words.view(np.uint64)).sum(axis=1, dtype=np.int64)

    @cached_property
    def partly_reserved(self) -> int:
        """Return the unreserved CPUs of cores that are partly reserved; full-pcpus-only does not count them."""
        return self.cpus.reserved_cores & ~self.cpus.reserved
