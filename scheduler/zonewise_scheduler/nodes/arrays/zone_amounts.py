"""Tracks the amounts of zones while the steps of a pod are allocated one after another.

Ordinary init containers leave amounts that later containers of the pod may reuse (cpusToReuse, devicesToReuse,
initContainersReusableMemory). So an init container does not change what the pod can still get from a zone. But a hint
for CPUs or devices must contain all zones with reusable ones. These are in one zone, since the next step with the same
resource is bound to that zone.

With align-by-socket, CPUs come from all zones of a package, so reusable ones are counted by zone. In each zone, whole
cores are taken in one order. So the reusable ones are always the first, and a step that takes `n` CPUs takes `n` of
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.package_order import take_from_packages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentStep, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I8, I64, Bools

    ZoneBits = NDArray[Any]
    """(rows,): a set of zones by position, in 8 bits, or in 64 bits if there are more zones."""

NO_DEVICE = -1
"""Free devices of a zone that the hints for a resource exclude: less than any request."""


def zones_near(totals: I64) -> Bools:
    """Return the zones that hints for a resource contain, (zones, rows): those near its devices, or all of the node.

    These are all zones if no zone is near a device: the devices are then in zones that the node lacks
    (pkg/kubelet/cm/devicemanager topology_hints.go generateDeviceTopologyHints).
    """
    near: Bools = totals > 0
    return near | ~near.any(axis=0)


@dataclass
class ZoneAmounts:
    """The amounts that each zone of some rows can give to one pod, whose steps are subtracted as they are allocated."""

    layout: Layout
    available: dict[int, I64]
    """By resource, (zones, rows): free or reusable amounts. These are arrays of a view until they are changed."""
    assigned: I64
    """(rows,): the set of zones with assigned memory, by position."""
    zone_cpus: I64
    """(rows,): the CPUs of the largest zone, including allocated ones."""
    changed: set[int] = field(default_factory=set[int])
    """Indices of the arrays that are no longer those of the view."""
    reusable: dict[int, I64] = field(default_factory=dict[int, "I64"])
    """By resource, (rows,): reusable CPUs or devices."""
    reusable_zones: dict[int, ZoneBits] = field(default_factory=dict[int, "ZoneBits"])
    """By resource: the zone with reusable units; all zones if there are no such units; no zone if several have some."""
    reusable_cpus: I64 | None = None
    """(zones, rows): reusable CPUs with align-by-socket; None if there are none."""

    @classmethod
    def from_view(cls, view: ArrayView) -> ZoneAmounts:
        """Return the amounts of a view, which remains unchanged."""
        return cls(view.layout, dict(enumerate(view.free)), view.assigned, view.largest_total[CPU])

    def hide_far_zones(self, view: ArrayView, indices: Iterable[int]) -> None:
        """Set zones without devices of some resources to fewer than a request for 0 devices."""
        for index in indices:
            self.available[index] = np.where(zones_near(view.total[index]), self.available[index], NO_DEVICE)
            self.changed.add(index)

    def select(self, rows: I64, indices: Iterable[int] | None = None) -> ZoneAmounts:
        """Return the amounts of some rows, for all resources or for some: each costs a copy of its zones."""
        selected = self.available if indices is None else dict.fromkeys(indices)
        return ZoneAmounts(
            self.layout,
            {index: self.available[index].take(rows, axis=1) for index in selected},
            self.assigned[rows],
            self.zone_cpus[rows],
            set(selected),
            {index: reusable[rows] for index, reusable in self.reusable.items() if index in selected},
            {index: zones[rows] for index, zones in self.reusable_zones.items() if index in selected},
            None if self.reusable_cpus is None else self.reusable_cpus.take(rows, axis=1),
        )

    def suffices(self, amounts: IndexedAmounts) -> Bools:
        """Return (zones, rows): whether the zone by itself has all amounts; there must be at least one amount."""
        (index, amount), *rest = amounts
        suffices: Bools = self.available[index] >= amount
        if rest:
            buffer = np.empty_like(suffices)
            for index, amount in rest:
                np.greater_equal(self.available[index], amount, out=buffer)
                suffices &= buffer
        return suffices

    def lowest_zones(self, amounts: IndexedAmounts, out: I8) -> I8:
        """Write the position of each row's lowest zone that serves all amounts: -1 if none does, 0 without amounts."""
        if not amounts:
            out[:] = 0
            return out
        bits = _bits(self.suffices(amounts))
        for index, _ in amounts:
            if index in self.reusable_zones:
                bits &= self.reusable_zones[index]
        np.bitwise_count(~bits & (bits - 1), out=out, casting="unsafe")
        out |= -(bits == 0).view(np.int8)  # ten times as fast as a mask
        return out

    def subtract(self, step: AlignmentStep, zone: I8) -> None:
        """Allocate a step from its zone in each row that has one."""
        rows = np.flatnonzero(zone >= 0)
        positions = zone[rows].astype(np.int64)
        cells = positions * zone.size + rows
        for index, amount in step.hinted:
            if index == CPU and self.layout.packages:
                self._subtract_from_packages(amount, zone, is_init=step.is_init)
                continue
            anywhere = self.layout.localities[index] is ZoneLocality.ANYWHERE
            if not step.is_init:
                available = self._own(index)
                if anywhere:
                    available[:, rows] -= amount
                else:
                    available.reshape(-1)[cells] -= amount
            if not anywhere and not self.layout.is_memory(index) and (step.is_init or index in self.reusable):
                self._reuse(index, amount, zone, is_init=step.is_init)
        if any(self.layout.is_memory(index) for index, _ in step.hinted):
            self.assigned = self.assigned.copy()
            self.assigned[rows] |= 1 << positions

    def _subtract_from_packages(self, amount: int, zone: I8, *, is_init: bool) -> None:
        """Allocate CPUs from the packages of zones."""
        if self.reusable_cpus is None:
            if not is_init:
                take_from_packages(self.layout.packages, self._own(CPU), self.zone_cpus, amount, zone)
                return
            self.reusable_cpus = np.zeros_like(self.available[CPU])
        before = self.available[CPU]
        after = before.copy()
        take_from_packages(self.layout.packages, after, self.zone_cpus, amount, zone)
        taken = before - after
        if is_init:
            reusable = np.maximum(self.reusable_cpus, taken)
        else:
            reusable = np.maximum(self.reusable_cpus - taken, 0)
            self.available[CPU] = after
            self.changed.add(CPU)
        self.reusable_cpus = reusable
        zones = _bits(reusable > 0)
        is_empty, has_several = zones == 0, zones & (zones - 1) > 0
        zones[is_empty], zones[has_several] = _bits(np.ones((len(before), 1), np.bool_))[0], 0
        self.reusable_zones[CPU] = zones

    def _own(self, index: int) -> I64:
        """Return an array that may be changed; its cells are contiguous."""
        if index not in self.changed:
            self.available[index] = self.available[index].copy()
            self.changed.add(index)
        return self.available[index]

    def _reuse(self, index: int, amount: int, zone: I8, *, is_init: bool) -> None:
        """Update the reusable units after a step that takes reusable units first."""
        single = _single_zones(self.available[index].shape[0])
        before = self.reusable.get(index, np.zeros(zone.size, np.int64))
        after = np.maximum(before, amount) if is_init else np.maximum(before - amount, 0)
        self.reusable[index] = after
        self.reusable_zones[index] = np.where(after > 0, single.take(zone, mode="clip"), single.sum(dtype=single.dtype))


def _bits(flags: Bools) -> ZoneBits:
    """Return the set of zones in each row from flags, (zones, rows)."""
    single = _single_zones(flags.shape[0])
    numbers = flags.view(np.uint8) if single.dtype == np.uint8 else flags.astype(np.uint64)
    bits = numbers[0].copy()
    for position in range(1, flags.shape[0]):
        bits |= numbers[position] * single[position]
    return bits


@lru_cache(maxsize=64)
def _single_zones(zones: int) -> ZoneBits:
    """Return the single-zone set of each zone."""
    return np.left_shift(np.uint64(1), np.arange(zones, dtype=np.uint64)).astype(np.uint8 if zones <= 8 else np.uint64)
