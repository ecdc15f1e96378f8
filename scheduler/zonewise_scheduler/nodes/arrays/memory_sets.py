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

from dataclasses import dataclass
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
    """All sets of zones, the narrowest first, of these the lowest."""

    masks: I64
    sizes: I64
    members: F64
    """(sets, zones): 1 where the set has the zone. Sums of bytes are exact below 8 PiB."""
    positions: I64
    """The index of each set, by mask."""


@lru_cache(maxsize=MAX_ZONES)
def _sets(zones: int) -> _Sets:
    masks = np.array(sorted(range(1, 1 << zones), key=lambda mask: (mask.bit_count(), mask)), np.int64)
    positions = np.zeros(1 << zones, np.int64)
    positions[masks] = np.arange(masks.size)
    members = (masks[:, None] >> np.arange(zones) & 1).astype(np.float64)
    return _Sets(masks, np.bitwise_count(masks).astype(np.int64), members, positions)


@dataclass
class _Memory:
    """Some rows of one number of zones."""

    zones: int
    free: dict[int, I64]
    """By type, (zones, rows)."""
    total: dict[int, I64]
    assigned: I64
    """(rows,): zones with assigned memory."""
    grouped: I64 | None = None
    """(rows,): zones in groups of several; None: there are none."""
    groups: Bools | None = None
    """(sets, rows): the groups."""
    reusable: dict[int, I64] | None = None
    """By type, (sets, rows): what ended init containers leave, by the set from which they had it."""

    @property
    def rows(self) -> int:
        return self.assigned.size

    def select(self, rows: I64) -> _Memory:
        return _Memory(
            self.zones,
            _columns(self.free, rows),
            _columns(self.total, rows),
            self.assigned[rows],
            None if self.grouped is None else self.grouped[rows],
            None if self.groups is None else self.groups[:, rows],
            None if self.reusable is None else _columns(self.reusable, rows),
        )

    def widths(self, amounts: IndexedAmounts) -> I64:
        """Return (rows,): how many zones suffice by their totals; all zones if that is too little."""
        single = np.logical_and.reduce([self.total[index] >= amount for index, amount in amounts]).any(axis=0)
        widths = np.ones(self.rows, np.int64)
        wide = np.flatnonzero(~single)
        if wide.size:
            sets = _sets(self.zones)
            enough = np.logical_and.reduce(
                [sets.members @ self.total[index][:, wide] >= amount for index, amount in amounts]
            )
            widths[wide] = np.where(enough.any(axis=0), sets.sizes[enough.argmax(axis=0)], self.zones)
        return widths

    def lowest_zones(self, amounts: IndexedAmounts) -> I64:
        """Return (rows,): the lowest zone that alone has all amounts, as a set; 0: there is none."""
        suffices = np.ones((self.zones, self.rows), np.bool_)
        for index, amount in amounts:
            free = self.free[index]
            if self.reusable is not None:
                free = free + self.reusable[index][: self.zones]  # the first sets are the single zones
            suffices &= free >= amount
        if self.grouped is not None:
            suffices &= (self.grouped >> np.arange(self.zones)[:, None] & 1) == 0
        lowest = np.left_shift(1, suffices.argmax(axis=0))
        return np.where(suffices.any(axis=0), lowest, 0)

    def best_sets(self, amounts: IndexedAmounts, widths: I64, *, preferred_only: bool) -> I64:
        """Return (rows,): the best set for all amounts; 0: there is none."""
        sets = _sets(self.zones)
        masks = sets.masks[:, None]
        allowed = (masks & self.assigned == 0) | (sets.sizes == 1)[:, None]
        if self.grouped is not None and self.groups is not None:
            allowed = (allowed & (masks & self.grouped == 0)) | self.groups
        for index, amount in amounts:
            sums: NDArray[Any] = sets.members @ self.free[index]
            if self.reusable is not None:
                sums += self.reusable[index]
            allowed &= sums >= amount
        preferred = allowed & (sets.sizes[:, None] == widths)
        has_preferred = preferred.any(axis=0)
        best = np.where(has_preferred, sets.masks[preferred.argmax(axis=0)], 0)
        if preferred_only:
            return best
        narrowest = np.where(allowed.any(axis=0), sets.masks[allowed.argmax(axis=0)], 0)
        return np.where(has_preferred, best, narrowest)

    def allocate(self, step: MemoryStep, chosen: I64) -> None:
        """Allocate amounts from the set of each row, the lowest zone first (updateMachineState)."""
        sets, rows = _sets(self.zones), np.arange(self.rows)
        indices = sets.positions[chosen]
        if step.is_init and self.reusable is None:
            self.reusable = {index: np.zeros((sets.masks.size, self.rows), np.int64) for index in self.free}
        for index, amount in step.amounts:
            left = np.full(self.rows, amount)
            if self.reusable is not None:
                reusable = self.reusable[index][indices, rows]
                left = np.maximum(amount - reusable, 0)
                after = np.maximum(reusable, amount) if step.is_init else np.maximum(reusable - amount, 0)
                self.reusable[index][indices, rows] = after
            for zone in range(self.zones):
                taken = np.minimum(self.free[index][zone], left) * (chosen >> zone & 1)
                self.free[index][zone] -= taken
                left -= taken
        self.assigned = self.assigned | chosen
        several = sets.sizes[indices] > 1
        if several.any():
            if self.grouped is None or self.groups is None:
                self.grouped = np.zeros(self.rows, np.int64)
                self.groups = np.zeros((sets.masks.size, self.rows), np.bool_)
            self.grouped = self.grouped | np.where(several, chosen, 0)
            self.groups[indices[several], rows[several]] = True


def _fit_all(memory: _Memory, steps: Sequence[MemoryStep]) -> Bools:
    """Tell which rows have a set of zones for each container in turn."""
    fits = np.zeros(memory.rows, np.bool_)
    remaining = np.arange(memory.rows)
    for step in steps:
        widths = memory.widths(step.amounts)
        chosen = np.where(widths == 1, memory.lowest_zones(step.amounts), 0)
        wide = np.flatnonzero((chosen == 0) & ((widths > 1) | (not step.preferred_only)))
        if wide.size:
            chosen[wide] = memory.select(wide).best_sets(step.amounts, widths[wide], preferred_only=step.preferred_only)
        kept = np.flatnonzero(chosen)
        if kept.size < memory.rows:
            memory, remaining, chosen = memory.select(kept), remaining[kept], chosen[kept]
        if not kept.size:
            return fits
        memory.allocate(step, chosen)
    fits[remaining] = True
    return fits


def _columns(arrays: dict[int, I64], rows: I64) -> dict[int, I64]:
    return {index: array.take(rows, axis=1) for index, array in arrays.items()}
