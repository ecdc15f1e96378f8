"""Maps the units of nodes to positions in the arrays of their layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.admission.admit import check_numa_nodes
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.topologymanager.numa_info import may_panic, prefers_closest, sets_by_closeness
from zonewise_scheduler.admission.topologymanager.zone_sums import MAX_HINTED_ZONES, MAX_LISTED_ZONES
from zonewise_scheduler.nodes.arrays.layout import Layout, ZoneLocality
from zonewise_scheduler.nodes.arrays.multi_zone import MAX_ZONES

if TYPE_CHECKING:
    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import NodeKind, Policies
    from zonewise_scheduler.nodes.arrays.types import I64


_MAX_DISTRIBUTED_ZONES = 3
"""Maximum size of a set of zones that is not overwritten while the kubelet tries sets
(numa_distributed.overwritten_at_end)."""


@dataclass(frozen=True)
class NodeModel:
    """A kind of node without the amounts of memory and devices, which differ between nodes of one model."""

    policies: Policies
    zones: tuple[int, ...]
    """The NUMA nodes, in the order of the second axis of all arrays."""
    cpus: CpuTopology
    memory_types: tuple[str, ...]
    devices: tuple[tuple[str, int], ...]
    """Resource and zone set of each class of devices."""
    distances: tuple[tuple[int, ...], ...]
    """Distances from zone to zone; empty if unknown."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.policies, self.zones, self.cpus, self.memory_types, self.devices))

    @classmethod
    def from_kind(cls, kind: NodeKind) -> NodeModel:
        """Return the model of a kind."""
        devices = tuple((device_class.resource, device_class.zones) for device_class in kind.devices)
        return cls(kind.policies, kind.zones, kind.cpus, kind.memory_types, devices, kind.distances)

    @cached_property
    def layout(self) -> Layout:
        """Return the layout whose arrays contain the rows of such nodes."""
        policies = self.policies
        full_cores = policies.full_cores and policies.cpu == "static"
        return Layout(
            policies._replace(
                strict_reservation=False, distribute_across_cores=False, align_by_cache=False,
                prefer_closest=self._uses_distances,
                distribute_across_zones=policies.distribute_across_zones and not self._distributes_evenly,
                align_by_package=self._aligns_by_package,
            ),
            len(self.zones),
            self.memory_types,
            tuple((resource, self._locality(resource)) for resource in self._device_resources),
            self.cpus.cpus_per_core if full_cores else 0,
            full_cores and bool(self.partly_reserved),
            self._kubelet_runs(pinned=False),
            self._kubelet_runs(pinned=True),
            self._has_verdicts,
            self._uses_distances and self._has_uneven_distances,
            self._closest_first,
            packages := self._packages,
            bool(packages) and full_cores and not self.partly_reserved and self._fills_packages,
            self._counts_cpus,
            self._is_even and self._zones_in_one_package,
            self._cpu_unit,
        )  # fmt: skip

    @property
    def _aligns_by_package(self) -> bool:
        """Return whether align-by-socket has an effect, which requires a package larger than a zone."""
        zones = [cpus for _, cpus in self.cpus.zones]
        within = all(any(not package & ~zone for zone in zones) for _, package in self.cpus.packages)
        return self.policies.align_by_package and not within

    @property
    def _packages(self) -> tuple[int, ...]:
        """Return Layout.packages: each zone must have CPUs, all in one package, and all packages must have one size."""
        cpus = self.cpus
        sizes = {bits.bit_count() for _, bits in cpus.packages}
        if not self._aligns_by_package or tuple(zone for zone, _ in cpus.zones) != self.zones or len(sizes) > 1:
            return ()
        packages = tuple(
            sum(1 << position for position, (_, zone) in enumerate(cpus.zones) if not zone & ~package)
            for _, package in cpus.packages
        )
        return packages if sum(packages) == (1 << len(self.zones)) - 1 and all(packages) else ()

    @property
    def _fills_packages(self) -> bool:
        """Return Layout.fills_packages for full cores, according to cpu_assignment.go takeByTopologyNUMAPacked.

        Zones of different sizes have other orders, and so do the options below.
        """
        policies, cpus = self.policies, self.cpus
        by_number = policies.align_by_cache or policies.distribute_across_zones or policies.distribute_across_cores
        sizes = {bits.bit_count() for _, bits in cpus.zones}
        return cpus.uniform and not by_number and not cpus.numa_first and len(sizes) == 1

    def _kubelet_runs(self, *, pinned: bool) -> bool:
        try:
            check_numa_nodes(self.policies, self.zones, pinned=pinned)
        except AdmissionError:
            return False
        return True

    @property
    def _has_verdicts(self) -> bool:
        """Return Layout.has_verdicts; with many zones all of them count, even those without CPUs and devices."""
        zones = len(self.zones)
        if may_panic(self.policies, self.zones):
            return False
        return zones <= MAX_LISTED_ZONES or (zones <= MAX_HINTED_ZONES and not self.policies.distribute_across_zones)

    @property
    def _has_uneven_distances(self) -> bool:
        """Return whether prefer_closest may prefer a single zone other than the lowest.

        Zones may have different distances to themselves. If ids have gaps, the kubelet reads distances of the wrong
        zones (numa_info.go CalculateAverageFor).
        """
        local_distances = {row[index] for index, row in enumerate(self.distances)}
        return len(local_distances) > 1 or self.zones != tuple(range(len(self.zones)))

    @property
    def _uses_distances(self) -> bool:
        """Return whether the kubelet compares sets of zones by their distances."""
        return prefers_closest(self.policies) and self.policies.topology != "none"

    @property
    def _closest_first(self) -> tuple[int, ...]:
        """Return Layout.closest_first; empty also if the arrays try no sets."""
        decides = self._uses_distances and not may_panic(self.policies, self.zones)
        return sets_by_closeness(self.distances) if decides and len(self.zones) <= MAX_ZONES else ()

    @property
    def _counts_cpus(self) -> bool:
        """Return Layout.counts_cpus, according to cpu_assignment.go.

        For isSocketFree and isCoreFree, a package or core is free if it has as many free CPUs as the average one has
        CPUs. A larger one is then taken with its busy CPUs. The function takeByTopologyNUMADistributed counts a zone of
        two packages twice, so it may not find the CPUs that it has counted. If there are many zones, it may take other
        CPUs than it has counted; multi_zone_rows() determines when, under aligned policies.
        """
        policies = self.policies
        if not policies.distribute_across_zones or self._distributes_evenly:
            return self._is_even
        is_aligned = policies.topology in {"restricted", "single-numa-node"}
        return self._is_even and self._zones_in_one_package and is_aligned

    @property
    def _distributes_evenly(self) -> bool:
        """Return whether the kubelet distributes exactly the CPUs that it has counted across zones."""
        return self._is_even and self._zones_in_one_package and len(self.zones) <= _MAX_DISTRIBUTED_ZONES

    @property
    def _is_even(self) -> bool:
        """Return whether all cores have the same number of CPUs, and all packages too."""
        return self.cpus.uniform and len({bits.bit_count() for _, bits in self.cpus.packages}) <= 1

    @property
    def _cpu_unit(self) -> int:
        """Return Layout.cpu_unit, according to cpu_assignment.go takeByTopologyNUMAPacked.

        Within a zone, whole free cores are taken by id, then CPUs of the cores with the fewest free CPUs. For a zone of
        several packages, cores of different sizes and groups of caches, the order depends on the number of CPUs. With
        distribute-cpus-across-numa, CPUs of a single zone are taken in the same order.
        """
        policies, cpus = self.policies, self.cpus
        by_number = policies.align_by_cache or self._aligns_by_package
        if by_number or not self._is_even or not self._zones_in_one_package:
            return 0
        return 1 if policies.distribute_across_cores else cpus.cpus_per_core

    @property
    def _zones_in_one_package(self) -> bool:
        """Return whether no zone has CPUs of several packages."""
        packages = [package for _, package in self.cpus.packages]
        return all(any(not zone & ~package for package in packages) for _, zone in self.cpus.zones)

    @property
    def _device_resources(self) -> tuple[str, ...]:
        """Return the device resources in the order of their indices."""
        return tuple(dict.fromkeys(resource for resource, _ in self.devices))

    def _locality(self, resource: str) -> ZoneLocality:
        zone_sets = [zones for name, zones in self.devices if name == resource]
        if not any(zone_sets):
            return ZoneLocality.ANYWHERE
        known = sum(1 << zone for zone in self.zones)
        in_one_zone = all(zones & ~known == 0 and zones.bit_count() <= 1 for zones in zone_sets)
        # with one zone, single-numa-node reduces the hint to no hint; the kubelet then allocates any device
        return (
            ZoneLocality.EXACT if in_one_zone and not (len(self.zones) == 1 and 0 in zone_sets) else ZoneLocality.MIXED
        )

    def to_positions(self, zones: int) -> int:
        """Return a set of zones by position instead of by id; ids may reach 255 even on nodes with few zones."""
        if not zones or self.zones[-1] < len(self.zones):
            return zones
        return sum(1 << position for position, zone in enumerate(self.zones) if zones >> zone & 1)

    @cached_property
    def device_cells(self) -> tuple[tuple[int, int], ...]:
        """Return pairs of a device class and the cell that counts it: resource index times zones plus zone position."""
        cells: list[tuple[int, int]] = []
        for device_class, (resource, zones) in enumerate(self.devices):
            index = self.layout.device_index[resource]
            in_all_zones = self.layout.localities[index] is ZoneLocality.ANYWHERE
            positions = (position for position, zone in enumerate(self.zones) if in_all_zones or zones >> zone & 1)
            cells += [(device_class, index * len(self.zones) + position) for position in positions]
        return tuple(cells)

    @cached_property
    def group_sizes(self) -> tuple[int, int]:
        """Return the number of CPUs per core, and of the largest L3 cache; 0 if unknown."""
        return self.cpus.cpus_per_core, max((bits.bit_count() for _, bits in self.cpus.caches), default=0)

    @cached_property
    def cpu_bytes(self) -> int:
        """Return how many bytes the bits of all CPUs need, rounded up to words of 8 bytes."""
        return max(1, -(-self.cpus.cpus.bit_length() // 64)) * 8

    @cached_property
    def zone_words(self) -> I64:
        """Return the CPUs of each zone: (zones, words) of 64 bits."""
        cpus_of_zone = dict(self.cpus.zones)
        bits = b"".join(cpus_of_zone.get(zone, 0).to_bytes(self.cpu_bytes, "little") for zone in self.zones)
        return np.frombuffer(bits, np.uint64).reshape(len(self.zones), -1).view(np.int64)

    @cached_property
    def cpu_totals(self) -> I64:
        """Return the number of CPUs of each zone, including reserved ones."""
        return np.bitwise_count(self.zone_words.view(np.uint64)).sum(axis=1, dtype=np.int64)

    @cached_property
    def partly_reserved(self) -> int:
        """Return the unreserved CPUs of cores that are partly reserved; full-pcpus-only does not count them."""
        return self.cpus.reserved_cores & ~self.cpus.reserved
