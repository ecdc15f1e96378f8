"""Memory of containers one after another, each from whatever set of zones the Memory Manager takes.

The Memory Manager chooses alone where nothing else has a say in the zones: under policy none, for containers whose only
hints are those of memory, and for whole pods without any hint. It takes the narrowest set that its totals allow, then
the narrowest, of these the lowest (pkg/kubelet/cm/memorymanager/policy_static.go findBestHint). A set of several zones
is a group from then on: its zones allocate only together.

Invariant: the result is the kubelet's for rows without groups at first.

1. A set that fits has enough free, or free and reusable from exactly this set (calculateHints).
2. Such a set is never extended: the narrowest set that contains it is itself (isAffinitySatisfyRequest, findBestHint).
3. It never cuts across groups, since only groups and zones without assigned memory are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.multi_zone import MAX_ZONES
from zonewise_scheduler.nodes.arrays.unaligned_memory import CHECKS_GROUPS_SINCE, memory_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.failed_rows import FailedRows
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import F64, I64, Bools


class MemoryStep(NamedTuple):
    """The memory of one container."""

    amounts: IndexedAmounts
    is_init: bool
    preferred_only: bool
    """The kubelet rejects a set that is wider than the container's memory needs by the totals of zones."""


def memory_steps(layout: Layout, request: AlignmentRequest) -> list[MemoryStep] | None:
    """Return the memory of a pod's containers where nothing else has a say in its zones; None where something has.

    Under best-effort, hints of two types of memory may meet in a set that has neither. Before 1.32 a kubelet aligns a
    container that no set fits to all zones, and allocates across the groups.
    """
    topology = layout.policies.topology
    preferred_only = topology in {"restricted", "single-numa-node"}
    steps = [MemoryStep(memory_of(step, layout), step.is_init, preferred_only) for step in request.steps]
    if not steps or layout.zone_count > MAX_ZONES:
        return None
    if topology == "none":
        return [step for step in steps if step.amounts]
    memory_only = all(step.hinted == memory.amounts for step, memory in zip(request.steps, steps, strict=True))
    by_container = not any(step.sums_memory for step in request.steps)
    one_type = topology != "best-effort" or all(len(step.amounts) == 1 for step in steps)
    lowest_first = topology == "single-numa-node" or not layout.policies.prefer_closest
    is_checked = topology == "single-numa-node" or layout.policies.release >= CHECKS_GROUPS_SINCE
    return steps if memory_only and by_container and one_type and lowest_first and is_checked else None


def own_memory_rows(failed: FailedRows) -> tuple[Bools, Bools]:
    """Return the rows in which each container gets memory of its own, and those that the arrays cannot decide.

    No hint of anything aligns the pod, under single-numa-node. The kubelet then requires a preferred set of zones for
    each container (policy_static.go Allocate, findBestHint).
    """
    if failed.view.zones > MAX_ZONES:
        return failed.none(), failed.every()
    steps = [MemoryStep(step.hinted, step.is_init, preferred_only=True) for step in failed.step.own_memory]
    return memory_sets_rows(failed.view, failed.in_view, steps), failed.none()


def memory_sets_rows(view: ArrayView, rows: I64, steps: Sequence[MemoryStep]) -> Bools:
    """Tell which of some rows without memory groups have a set of zones for each container in turn."""
    fits = np.zeros(rows.size, np.bool_)
    for zones, indices in _by_zone_count(view, rows):
        selected = rows[indices]
        types = {index for step in steps for index, _ in step.amounts}
        free = {index: view.free[index, :zones].take(selected, axis=1) for index in types}
        total = {index: view.total[index, :zones].take(selected, axis=1) for index in types}
        assigned = view.assigned[selected] & ((1 << zones) - 1)
        fits[indices] = _fit_all(_Memory(zones, free, total, assigned), steps)
    return fits


def _by_zone_count(view: ArrayView, rows: I64) -> Iterator[tuple[int, I64]]:
    """Yield numbers of zones, and the indices of the rows whose nodes have so many."""
    if view.padding is None:
        yield view.zones, np.arange(rows.size)
        return
    counts = view.zones - np.count_nonzero(view.padding[:, rows], axis=0)
    for zones in np.unique(counts).tolist():
        yield zones, np.flatnonzero(counts == zones)


class _Sets(NamedTuple):
    """The sets of so many zones, the lowest first."""

    masks: I64
    members: F64
    """(sets, zones): 1 where the set has the zone. Sums of bytes are exact below 8 PiB."""


@lru_cache(maxsize=MAX_ZONES * MAX_ZONES)
def _sets(zones: int, size: int) -> _Sets:
    masks = np.array([mask for mask in range(1 << zones) if mask.bit_count() == size], np.int64)
    return _Sets(masks, (masks[:, None] >> np.arange(zones) & 1).astype(np.float64))


class _Reusable(NamedTuple):
    """What an ended init container leaves of memory."""

    masks: I64
    """(rows,): the set from which the memory comes."""
    left: dict[int, I64]
    """By type, (rows,)."""


@dataclass
class _Memory:
    """Some rows of one number of zones."""

    zones: int
    free: dict[int, I64]
    """By type, (zones, rows)."""
    total: dict[int, I64]
    assigned: I64
    """(rows,): zones with assigned memory."""
    groups: list[I64] = field(default_factory=list["I64"])
    """(rows,): sets of several zones that allocate together; 0: none."""
    grouped: I64 | None = None
    """(rows,): the zones of all these sets; None: there are none."""
    reusable: list[_Reusable] = field(default_factory=list[_Reusable])
    """Of distinct sets in each row."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.assigned.size

    def select(self, rows: I64) -> _Memory:
        """Return some of the rows."""
        return _Memory(
            self.zones,
            {index: array.take(rows, axis=1) for index, array in self.free.items()},
            {index: array.take(rows, axis=1) for index, array in self.total.items()},
            self.assigned[rows],
            [groups[rows] for groups in self.groups],
            None if self.grouped is None else self.grouped[rows],
            [
                _Reusable(entry.masks[rows], {index: left[rows] for index, left in entry.left.items()})
                for entry in self.reusable
            ],
        )

    def widths(self, amounts: IndexedAmounts) -> I64:
        """Return (rows,): how many zones suffice by their totals; all zones if that is too little."""
        widths = np.full(self.rows, self.zones)
        in_one = [self.total[index] >= amount for index, amount in amounts]
        widths[np.logical_or.reduce(np.logical_and.reduce(in_one))] = 1
        wide = np.flatnonzero(widths > 1)
        for size in range(2, self.zones) if wide.size else ():
            members = _sets(self.zones, size).members
            enough = [members @ self.total[index].take(wide, axis=1) >= amount for index, amount in amounts]
            suffices = np.logical_or.reduce(np.logical_and.reduce(enough))
            widths[wide[suffices]] = size
            wide = wide[~suffices]
            if not wide.size:
                break
        return widths

    def best_sets(self, amounts: IndexedAmounts, widths: I64, *, preferred_only: bool) -> I64:
        """Return (rows,): the best set for all amounts; 0: there is none."""
        best = np.where(widths == 1, self.lowest_zones(amounts), 0)
        for size in range(2, self.zones + 1):
            self._complete(best, widths == size, amounts, size)
        for size in () if preferred_only else range(1, self.zones + 1):
            self._complete(best, (best == 0) & (widths != size), amounts, size)
        return best

    def _complete(self, best: I64, searched: Bools, amounts: IndexedAmounts, size: int) -> None:
        """Write the lowest set of so many zones of each searched row."""
        rows = np.flatnonzero(searched)
        if rows.size:
            memory = self.select(rows)
            best[rows] = memory.lowest_zones(amounts) if size == 1 else memory.lowest_sets(amounts, size)

    def lowest_zones(self, amounts: IndexedAmounts) -> I64:
        """Return (rows,): the lowest zone in no group that has all amounts, as a set; 0: there is none."""
        fits = np.ones((self.zones, self.rows), np.bool_)
        zones = 1 << np.arange(self.zones, dtype=np.int64)[:, None]
        for index, amount in amounts:
            available = self.free[index]
            for entry in self.reusable:
                available = available + np.where(entry.masks == zones, entry.left[index], 0)
            fits &= available >= amount
        sets = np.packbits(fits, axis=0, bitorder="little")[0].astype(np.int64)
        if self.grouped is not None:
            sets &= ~self.grouped
        return sets & -sets

    def lowest_sets(self, amounts: IndexedAmounts, size: int) -> I64:
        """Return (rows,): the lowest set of so many zones, of several, that has all amounts; 0: there is none."""
        sets = _sets(self.zones, size)
        fits = self._allowed(sets, size)
        for index, amount in amounts:
            sums: NDArray[Any] = sets.members @ self.free[index]
            for entry in self.reusable:
                rows = np.flatnonzero(np.bitwise_count(entry.masks) == size)
                sums[np.searchsorted(sets.masks, entry.masks[rows]), rows] += entry.left[index][rows]
            fits &= sums >= amount
        return np.where(np.logical_or.reduce(fits), sets.masks[fits.argmax(axis=0)], 0)

    def _allowed(self, sets: _Sets, size: int) -> Bools:
        """Tell, (sets, rows), which sets of several zones the groups allow (MemoryView.zone_sets)."""
        allowed: Bools = (self.assigned & sets.masks[:, None]) == 0
        for groups in self.groups:
            rows = np.flatnonzero(np.bitwise_count(groups) == size)
            allowed[np.searchsorted(sets.masks, groups[rows]), rows] = True
        return allowed

    def allocate(self, step: MemoryStep, chosen: I64) -> None:
        """Allocate amounts from the set of each row, the lowest zone first (updateMachineState)."""
        for index, amount in step.amounts:
            left = np.full(self.rows, amount)
            for entry in self.reusable:
                left -= np.where(entry.masks == chosen, entry.left[index], 0)
            self._take(index, np.maximum(left, 0), chosen)
        self._update_reusable(step, chosen)
        self.assigned = self.assigned | chosen
        several = np.where(np.bitwise_count(chosen) > 1, chosen, 0)
        if several.any():
            self.groups.append(several)
            self.grouped = several if self.grouped is None else self.grouped | several

    def _take(self, index: int, amounts: I64, chosen: I64) -> None:
        """Take an amount of each row from its set, the lowest zone first."""
        free = self.free[index]
        zones = np.bitwise_count(chosen - 1)  # the position, of a single zone
        is_single = chosen & (chosen - 1) == 0
        rows = np.flatnonzero(is_single)
        free[zones[rows], rows] -= amounts[rows]
        rows = np.flatnonzero(~is_single)
        left, sets = amounts[rows], chosen[rows]
        for zone in range(self.zones) if rows.size else ():
            taken = np.minimum(free[zone, rows], left) * (sets >> zone & 1)
            free[zone, rows] -= taken
            left -= taken

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


def _fit_all(memory: _Memory, steps: Sequence[MemoryStep]) -> Bools:
    """Tell which rows have a set of zones for each container in turn."""
    fits = np.zeros(memory.rows, np.bool_)
    remaining = np.arange(memory.rows)
    for step in steps:
        widths = memory.widths(step.amounts)
        chosen = memory.best_sets(step.amounts, widths, preferred_only=step.preferred_only)
        kept = np.flatnonzero(chosen)
        if kept.size < memory.rows:
            memory, remaining, chosen = memory.select(kept), remaining[kept], chosen[kept]
        if not kept.size:
            return fits
        memory.allocate(step, chosen)
    fits[remaining] = True
    return fits
