"""Allocates the memory of containers one after another, each from the set of zones that the Memory Manager chooses.

The Memory Manager chooses by itself if nothing else affects the zones. This is the case under policy none, for
containers with hints only for memory, and for whole pods without any hint. It takes the narrowest set that its totals
allow, then the narrowest, and of these the lowest (pkg/kubelet/cm/memorymanager/policy_static.go findBestHint). With
prefer-closest-numa-nodes it is the closest of these (Layout.closest_first). A set of several zones is a group from then
on: its zones allocate only together.

Invariant: for rows that have no groups at first, the result is the kubelet's.

1. A set that fits has enough free, or free and reusable from exactly this set (calculateHints).
2. Such a set is never extended: it is the narrowest set that contains it (isAffinitySatisfyRequest, findBestHint).
3. It never cuts across groups, since only groups and zones without assigned memory are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.multi_zone import MAX_ZONES
from zonewise_scheduler.nodes.arrays.set_order import NO_SET, NOT_PREFERRED, set_order, sets_of_size
from zonewise_scheduler.nodes.arrays.unaligned_memory import CHECKS_GROUPS_SINCE, memory_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.failed_rows import FailedRows
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.set_order import SetOrder
    from zonewise_scheduler.nodes.arrays.types import I64, Bools


class MemoryStep(NamedTuple):
    """The memory of one container."""

    amounts: IndexedAmounts
    is_init: bool
    preferred_only: bool
    """True if the kubelet rejects a set that is wider than the container's memory needs by the totals of zones."""


def memory_steps(layout: Layout, request: AlignmentRequest) -> list[MemoryStep] | None:
    """Return the memory of a pod's containers, or None if anything but memory affects its zones.

    Under single-numa-node, only single zones count. Under best-effort, hints of two types of memory may intersect in a
    set that has neither. Before 1.32, a kubelet aligns a container that fits no set to all zones, and allocates across
    the groups.
    """
    topology = layout.policies.topology
    preferred_only = topology == "restricted"
    steps = [MemoryStep(memory_of(step, layout), step.is_init, preferred_only) for step in request.steps]
    if not steps or layout.zone_count > MAX_ZONES or topology == "single-numa-node":
        return None
    if topology == "none":
        return [step for step in steps if step.amounts]
    memory_only = all(step.hinted == memory.amounts for step, memory in zip(request.steps, steps, strict=True))
    by_container = not any(step.sums_memory for step in request.steps)
    one_type = topology != "best-effort" or all(len(step.amounts) == 1 for step in steps)
    is_checked = layout.policies.release >= CHECKS_GROUPS_SINCE
    return steps if memory_only and by_container and one_type and is_checked else None


def own_memory_rows(failed: FailedRows) -> tuple[Bools, Bools]:
    """Return the rows in which each container gets memory of its own, and those that the arrays cannot decide.

    Under single-numa-node, no hint at all aligns the pod. The kubelet then requires a preferred set of zones for each
    container (policy_static.go Allocate, findBestHint).
    """
    if failed.view.zones > MAX_ZONES:
        return failed.none(), failed.every()
    steps = [MemoryStep(step.hinted, step.is_init, preferred_only=True) for step in failed.step.own_memory]
    return memory_sets_rows(failed.view, failed.in_view, steps), failed.none()


def memory_sets_rows(view: ArrayView, rows: I64, steps: Sequence[MemoryStep]) -> Bools:
    """Return which of some rows without memory groups have a set of zones for one container after another."""
    fits = np.zeros(rows.size, np.bool_)
    memory = _Memory.from_view(view, rows, {index for step in steps for index, _ in step.amounts})
    remaining = np.arange(rows.size)
    for step in steps:
        chosen = memory.best_sets(step)
        has_set = np.flatnonzero(chosen)
        if has_set.size < remaining.size:
            memory, remaining, chosen = memory.select(has_set), remaining[has_set], chosen[has_set]
        if not remaining.size:
            return fits
        memory.allocate(step, chosen)
    fits[remaining] = True
    return fits


class _Reusable(NamedTuple):
    """The memory that an ended init container leaves."""

    masks: I64
    """(rows,): the set of zones from which the memory comes; 0: none."""
    left: dict[int, I64]
    """By type, (rows,): the remaining amount."""


class _MemoryGroup(NamedTuple):
    """A set of several zones that allocate together: only their sum matters from then on."""

    masks: I64
    """(rows,): the set; 0: none."""
    free: dict[int, I64]
    """By type, (rows,): the sum of its zones."""

    def select(self, rows: I64) -> _MemoryGroup:
        """Return some of the rows."""
        return _MemoryGroup(self.masks[rows], {index: free[rows] for index, free in self.free.items()})


@dataclass
class _Memory:
    """The memory of some rows during allocation. Zones that a node lacks have none, and count as assigned."""

    closest_first: tuple[int, ...]
    zone_counts: I64
    """(rows,): the number of zones of each node."""
    free: dict[int, I64]
    """By type, (zones, rows): free amounts of zones in no group."""
    total: dict[int, I64]
    largest: dict[int, I64]
    """By type, (zones, rows): the total of the largest zone, of the two largest ones, and so on."""
    assigned: I64
    """(rows,): zones with assigned memory."""
    grouped: I64
    """(rows,): the zones of all groups."""
    groups: list[_MemoryGroup] = field(default_factory=list[_MemoryGroup])
    """Groups, which are disjoint in each row."""
    reusable: list[_Reusable] = field(default_factory=list[_Reusable])
    """Reusable amounts, from distinct sets in each row."""

    @classmethod
    def from_view(cls, view: ArrayView, rows: I64, types: Iterable[int]) -> _Memory:
        """Return the memory of some rows without groups."""
        total = {index: view.total[index].take(rows, axis=1) for index in types}
        missing = 0 if view.padding is None else np.count_nonzero(view.padding[:, rows], axis=0)
        return cls(
            view.layout.closest_first,
            np.full(rows.size, view.zones) - missing,
            {index: view.free[index].take(rows, axis=1) for index in total},
            total,
            {index: np.cumsum(np.sort(array, axis=0)[::-1], axis=0) for index, array in total.items()},
            view.assigned[rows],
            np.zeros(rows.size, np.int64),
        )

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.assigned.size

    @property
    def zones(self) -> int:
        """Return the largest number of zones of a node."""
        return next(iter(self.free.values())).shape[0]

    @property
    def order(self) -> SetOrder:
        """Return the order in which the kubelets try sets."""
        return set_order(self.zones, self.closest_first)

    def select(self, rows: I64) -> _Memory:
        """Return some of the rows."""
        free, total, largest = (
            {index: array.take(rows, axis=1) for index, array in arrays.items()}
            for arrays in (self.free, self.total, self.largest)
        )
        return _Memory(
            self.closest_first,
            self.zone_counts[rows],
            free,
            total,
            largest,
            self.assigned[rows],
            self.grouped[rows],
            [group.select(rows) for group in self.groups],
            [
                _Reusable(entry.masks[rows], {index: left[rows] for index, left in entry.left.items()})
                for entry in self.reusable
            ],
        )

    def widths(self, amounts: IndexedAmounts) -> I64:
        """Return (rows,): how many zones suffice by their totals, or all zones if not even these suffice.

        For several types the largest zones are a bound, which is exact if all zones are equal.
        """
        narrower = [np.sum(self.largest[index] < amount, axis=0, dtype=np.int8) for index, amount in amounts]
        widths: I64 = np.minimum(np.maximum.reduce(narrower) + 1, self.zone_counts)
        if len(amounts) == 1:
            return widths
        sums = [(self.largest[index][0], self.largest[index][-1]) for index, _ in amounts]
        uneven = np.logical_or.reduce([every != self.zone_counts * largest for largest, every in sums])
        rows = np.flatnonzero(uneven & (widths < self.zone_counts))
        for size in range(1, self.zones) if rows.size else ():
            members = sets_of_size(self.zones, (), self.zones, size).members
            enough = [members @ self.total[index].take(rows, axis=1) >= amount for index, amount in amounts]
            suffices = np.logical_or.reduce(np.logical_and.reduce(enough))
            widths[rows[suffices]] = size
            rows = rows[~suffices]
            if not rows.size:
                return widths
        widths[rows] = self.zone_counts[rows]
        return widths

    def best_sets(self, step: MemoryStep) -> I64:
        """Return (rows,): the set from which a container gets its memory, or 0 if there is none."""
        amounts, widths = step.amounts, self.widths(step.amounts)
        ranks = self._zone_ranks(amounts, widths)
        for group in self.groups:
            self._rank_group(ranks, group, amounts, widths)
        self._rank_unassigned(ranks, amounts, widths, preferred_only=step.preferred_only)
        has_set = ranks < (NOT_PREFERRED if step.preferred_only else NO_SET)
        return np.where(has_set, self.order.masks[ranks & (NOT_PREFERRED - 1)], 0)

    def _zone_ranks(self, amounts: IndexedAmounts, widths: I64) -> I64:
        """Return (rows,): the rank of the first zone in no group that has all amounts."""
        fits = np.ones((self.zones, self.rows), np.bool_)
        zones = 1 << np.arange(self.zones, dtype=np.int64)[:, None]
        for index, amount in amounts:
            available = self.free[index]
            for entry in self.reusable:
                available = available + np.where(entry.masks == zones, entry.left[index], 0)
            fits &= available >= amount
        bits = np.left_shift(fits.view(np.uint8), np.arange(self.zones, dtype=np.uint8)[:, None])
        sets = np.bitwise_or.reduce(bits) & ~self.grouped  # eight times as fast as packbits
        ranks = self.order.first_zones[sets]
        ranks[widths > 1] += NOT_PREFERRED
        return ranks

    def _rank_group(self, ranks: I64, group: _MemoryGroup, amounts: IndexedAmounts, widths: I64) -> None:
        """Lower the ranks of the rows in which a group comes first."""
        fits: Bools = group.masks > 0
        for index, amount in amounts:
            available = group.free[index]
            for entry in self.reusable:
                available = available + np.where(entry.masks == group.masks, entry.left[index], 0)
            fits &= available >= amount
        rows = np.flatnonzero(fits)
        masks = group.masks[rows]
        is_wide = np.bitwise_count(masks) != widths[rows]
        ranks[rows] = np.minimum(ranks[rows], self.order.ranks[masks] + NOT_PREFERRED * is_wide)

    def _rank_unassigned(self, ranks: I64, amounts: IndexedAmounts, widths: I64, *, preferred_only: bool) -> None:
        """Lower the ranks of the rows in which a set of several zones without assigned memory comes first.

        Sets narrower than the totals allow never suffice.
        """
        counts = self.zones - np.bitwise_count(self.assigned).astype(np.int64)
        tried = (counts > 1) & (counts >= widths) & ((widths > 1) | (ranks >= NOT_PREFERRED))
        if preferred_only:
            tried &= widths > 1
        if not tried.any():
            return
        unassigned: I64 = ~(self.assigned >> np.arange(self.zones, dtype=np.int64)[:, None]) & 1
        for index, amount in amounts:
            tried &= np.sum(self.free[index] * unassigned, axis=0) >= amount
        for zones in np.flatnonzero(np.bincount(self.zone_counts[tried])).tolist():
            for size in range(2, zones + 1):
                searched = tried & (self.zone_counts == zones) & (counts >= size)
                searched &= (widths == size) if preferred_only else (widths <= size)
                self._rank_sets(ranks, np.flatnonzero(searched), amounts, widths, (zones, size))

    def _rank_sets(
        self, ranks: I64, rows: I64, amounts: IndexedAmounts, widths: I64, zones_and_size: tuple[int, int]
    ) -> None:
        """Lower the ranks of those rows in which a set of the given size among the first zones comes first."""
        sets = sets_of_size(self.zones, self.closest_first, *zones_and_size)
        possible = sets.ranks[0] + NOT_PREFERRED * (widths[rows] != zones_and_size[1])
        rows = rows[ranks[rows] > possible]
        if not rows.size:
            return
        fits: Bools = (self.assigned[rows] & sets.masks[:, None]) == 0
        for index, amount in amounts:
            fits &= sets.members @ self.free[index].take(rows, axis=1) >= amount
        first = fits.argmax(axis=0)
        found = fits[first, np.arange(rows.size)]
        rows, first = rows[found], first[found]
        is_wide = widths[rows] != zones_and_size[1]
        ranks[rows] = np.minimum(ranks[rows], sets.ranks[first] + NOT_PREFERRED * is_wide)

    def allocate(self, step: MemoryStep, chosen: I64) -> None:
        """Allocate amounts from the set of each row (updateMachineState)."""
        is_single = chosen & (chosen - 1) == 0
        is_new = ~is_single & (self.grouped & chosen == 0)
        self._add_groups(np.where(is_new, chosen, 0))
        single = np.flatnonzero(is_single)
        cells = np.bitwise_count(chosen[single] - 1).astype(np.int64) * self.rows + single
        for index, amount in step.amounts:
            required = np.full(self.rows, amount)
            for entry in self.reusable:
                required -= np.where(entry.masks == chosen, entry.left[index], 0)
            np.maximum(required, 0, out=required)
            self.free[index].reshape(-1)[cells] -= required[single]
            for group in self.groups:
                group.free[index] -= np.where(group.masks == chosen, required, 0)
        self._update_reusable(step, chosen)
        self.assigned = self.assigned | chosen

    def _add_groups(self, new: I64) -> None:
        """Add a group to each row that has a new one."""
        rows = np.flatnonzero(new)
        if not rows.size:
            return
        self.grouped = self.grouped | new
        members: I64 = new[rows] >> np.arange(self.zones, dtype=np.int64)[:, None] & 1
        sums = {index: np.sum(free.take(rows, axis=1) * members, axis=0) for index, free in self.free.items()}
        for group in self.groups:
            vacant = group.masks[rows] == 0
            self._write_group(group, rows[vacant], new, {index: values[vacant] for index, values in sums.items()})
            rows, sums = rows[~vacant], {index: values[~vacant] for index, values in sums.items()}
        if rows.size:
            zeros = {index: np.zeros(self.rows, np.int64) for index in self.free}
            self.groups.append(_MemoryGroup(np.zeros(self.rows, np.int64), zeros))
            self._write_group(self.groups[-1], rows, new, sums)

    @staticmethod
    def _write_group(group: _MemoryGroup, rows: I64, masks: I64, sums: dict[int, I64]) -> None:
        group.masks[rows] = masks[rows]
        for index, values in sums.items():
            group.free[index][rows] = values

    def _update_reusable(self, step: MemoryStep, chosen: I64) -> None:
        """Update what ended init containers leave (updatePodReusableMemory)."""
        is_new = np.ones(self.rows, np.bool_)
        for entry in self.reusable:
            same = entry.masks == chosen
            is_new &= ~same
            for index, amount in step.amounts:
                left = entry.left[index]
                after = np.maximum(left, amount) if step.is_init else np.maximum(left - amount, 0)
                entry.left[index] = np.where(same, after, left)
        if step.is_init and is_new.any():
            left_of = {index: np.zeros(self.rows, np.int64) for index in self.free}
            left_of |= {index: np.where(is_new, amount, 0) for index, amount in step.amounts}
            self.reusable.append(_Reusable(np.where(is_new, chosen, 0), left_of))
