"""Finds rows without enough sets of zones for the memory of all containers of a pod, whatever zones each of them gets.

The Memory Manager allocates a container's memory from one set of zones. A set of several zones is a group from then on:
its zones serve later containers only as part of the group. Zones that allocate by themselves join no group
(pkg/kubelet/cm/memorymanager/policy_static.go isAffinityViolatingNUMAAllocations). So the zones without assigned memory
are split into disjoint sets. Each container's memory comes from one of these sets or from a zone that was already in
use.

Invariant: a container that is allocated a new set of several zones gets at most its width of zones. The width is the
maximum of three numbers. The first is the least number n such that any n zones have the container's memory. The others
are the numbers of zones that its CPUs and its devices then need, given what is free.

1. If all resources prefer the set, no narrower set has the memory by its totals (policy.go).
2. Otherwise, under best-effort, the merged hint is no wider than the narrowest hint of the resource that needs the most
   zones. Reason: all zones are a hint for CPUs and for devices, so one intersection is the narrowest hint for memory.
3. If the merged hint has too little memory, it is extended to the narrowest set that has enough (findBestHint).

Under restricted, only the first case admits a container, so CPUs and devices do not matter. Under best-effort, they
matter from the first container on that may need more zones for them than for memory. Such a late container shares its
set only with later ones. A hint for CPUs also contains the zones with CPUs that an init container leaves. These are in
the zones to which the init container is aligned, so the width at most doubles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.admission.node import MAX_NODE_AMOUNT
from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.multi_zone import MAX_ZONES
from zonewise_scheduler.nodes.arrays.unaligned_memory import CHECKS_GROUPS_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, AlignmentStep
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64, Bools

_NO_AMOUNT = MAX_NODE_AMOUNT
"""An amount that exceeds that of any zone; the sum of eight is within 64 bits."""
_MAX_LATE = 4
"""Maximum number of late containers that are evaluated. A row with more is not rejected."""


def lacks_memory_sets(view: ArrayView, rows: I64, request: AlignmentRequest) -> Bools:
    """Return which of some rows reject a pod because they lack sets of zones with the memory of its containers."""
    lacks = np.zeros(rows.size, np.bool_)
    if not _is_bounded(view.layout, request):
        return lacks
    indices = np.flatnonzero(~view.grouped[rows] & _is_hinted_everywhere(view, rows, request))
    types = {index for step in request.steps for index, _ in step.hinted if view.layout.is_memory(index)}
    if not indices.size or not types:
        return lacks
    zones = _Zones.from_view(view, rows[indices])
    widths = np.maximum.reduce([_widths(zones, _largest(request, index), index) for index in types])
    late = _late_containers(zones, request, widths)
    if request.reuses and view.layout.policies.topology == "best-effort":
        late[~_keeps_to_hint(zones, request.steps[0])] = len(request.steps)
        widths = 2 * widths
    for index in types:
        for amounts in _amount_lists(request, index):
            capacities = _capacities(zones, index, np.cumsum(amounts), widths, late)
            lacks[indices] |= (capacities < len(amounts)) & (late <= _MAX_LATE)
    return lacks


class _Zones(NamedTuple):
    """The zones of some rows. Zones that a node lacks have less free than any request, and count as assigned."""

    view: ArrayView
    rows: I64
    unassigned: Bools
    """(zones, rows): whether the zone has no assigned memory."""
    counts: I64
    """(rows,): the number of zones without assigned memory."""

    @classmethod
    def from_view(cls, view: ArrayView, rows: I64) -> _Zones:
        """Return the zones of some rows."""
        positions = np.arange(view.zones, dtype=np.int64)[:, None]
        unassigned: Bools = (view.assigned[rows] >> positions & 1) == 0
        return cls(view, rows, unassigned, np.count_nonzero(unassigned, axis=0))

    def free(self, index: int) -> I64:
        """Return the free amounts of a resource, (zones, rows)."""
        return self.view.free[index].take(self.rows, axis=1)


def _is_bounded(layout: Layout, request: AlignmentRequest) -> bool:
    """Return whether the invariant holds for a pod.

    Under best-effort, later containers may reuse only CPUs and memory of one init container, which must be the first.
    """
    policies = layout.policies
    if len(request.steps) < 2 or layout.zone_count > MAX_ZONES or not layout.has_verdicts:
        return False
    if policies.release < CHECKS_GROUPS_SINCE or any(step.sums_memory for step in request.steps):
        return False
    if policies.topology != "best-effort":
        return policies.topology == "restricted"
    localities = {layout.localities[index] for step in request.steps for index, _ in step.hinted}
    if ZoneLocality.MIXED in localities:
        return False
    first, *others = request.steps
    reuses_cpus = all(index == CPU or layout.is_memory(index) for index, _ in first.amounts)
    reuses_first = first.is_init and reuses_cpus and not any(step.is_init for step in others)
    return not request.reuses or (reuses_first and (layout.takes_free_cpus or layout.counts_cpus))


def _is_hinted_everywhere(view: ArrayView, rows: I64, request: AlignmentRequest) -> Bools:
    """Return in which rows every zone has CPUs and devices of each type, so that all zones are a hint for each."""
    everywhere = np.ones(rows.size, np.bool_)
    if view.layout.policies.topology == "restricted":
        return everywhere
    for index in {index for step in request.steps for index, _ in step.hinted}:
        if not view.layout.is_memory(index) and view.layout.localities[index] is not ZoneLocality.ANYWHERE:
            has_units = view.total[index].take(rows, axis=1) > 0
            everywhere &= (has_units if view.padding is None else has_units | view.padding[:, rows]).all(axis=0)
    return everywhere


def _largest(request: AlignmentRequest, index: int) -> int:
    return max(dict(step.hinted).get(index, 0) for step in request.steps)


def _widths(zones: _Zones, amount: int, index: int) -> I64:
    """Return (rows,): the least number n such that any n zones without assigned memory have an amount."""
    smallest = np.sort(np.where(zones.unassigned, zones.free(index), _NO_AMOUNT), axis=0)
    return np.clip(np.count_nonzero(np.cumsum(smallest, axis=0) < amount, axis=0) + 1, 1, np.maximum(zones.counts, 1))


def _keeps_to_hint(zones: _Zones, step: AlignmentStep) -> Bools:
    """Return in which rows the first container takes its CPUs from the zones of its hint, whatever the hint is.

    A hint has at least as many zones as the memory needs by the totals.
    """
    narrowest = np.ones(zones.rows.size, np.int64)
    cpus = 0
    for index, amount in step.hinted:
        if index == CPU:
            cpus = amount
        else:
            largest = np.sort(zones.view.total[index].take(zones.rows, axis=1), axis=0)[::-1]
            narrower = np.count_nonzero(np.cumsum(largest, axis=0) < amount, axis=0)
            narrowest = np.maximum(narrowest, np.minimum(narrower + 1, len(largest)))
    smallest = np.cumsum(np.sort(np.maximum(zones.free(CPU), 0), axis=0), axis=0)
    return smallest[narrowest - 1, np.arange(zones.rows.size)] >= cpus


def _late_containers(zones: _Zones, request: AlignmentRequest, widths: I64) -> I64:
    """Return (rows,): the number of containers from the first whose CPUs or devices may need more than the width."""
    late = np.zeros(zones.rows.size, np.int64)
    layout = zones.view.layout
    if layout.policies.topology == "restricted":
        return late
    indices = {index for step in request.steps for index, amount in step.hinted if amount}
    for index in indices:
        if layout.is_memory(index) or layout.localities[index] is ZoneLocality.ANYWHERE:
            continue
        fullest = np.sort(zones.free(index), axis=0)[::-1]
        for width in np.flatnonzero(np.bincount(widths)).tolist():
            rows = np.flatnonzero(widths == width)
            late[rows] = np.maximum(late[rows], _late_for(fullest[:, rows], request.steps, index, width))
    return late


def _late_for(fullest: I64, steps: tuple[AlignmentStep, ...], index: int, width: int) -> I64:
    """Return (rows,): the number of containers from the first on that may need more zones for a resource than `width`.

    Disjoint sets of `width` zones are compared. One of them has enough unless earlier containers have left less than
    the amount in each.
    """
    starts = range(0, len(fullest) - width + 1, width)
    sets = np.array([fullest[start : start + width].sum(axis=0) for start in starts])
    late = np.zeros(fullest.shape[1], np.int64)
    taken = 0
    for number, step in enumerate(steps):
        if amount := dict(step.hinted).get(index, 0):
            may_lack = np.maximum(sets - amount + 1, 0).sum(axis=0) <= taken
            late = np.where(may_lack & (late == 0), len(steps) - number, late)
        taken += dict(step.amounts).get(index, 0)
    return late


def _amount_lists(request: AlignmentRequest, index: int) -> Iterator[list[int]]:
    """Yield the memory of containers that hold it to the end, ascending: of all, then of the largest ones."""
    amounts = sorted(dict(step.hinted).get(index, 0) for step in request.steps if not step.is_init)
    yield amounts
    large = [amount for amount in amounts if 2 * amount > amounts[-1]]
    if len(large) < len(amounts):
        yield large


def _capacities(zones: _Zones, index: int, sums: I64, widths: I64, late: I64) -> I64:
    """Return (rows,): the maximum number of containers that get memory.

    `sums`: the memory of the smallest container, of the two smallest ones, and so on. A set of zones holds the most
    containers if it holds the smallest ones.
    """
    free = zones.free(index)
    alone = np.where(zones.unassigned, 0, np.searchsorted(sums, free, side="right")).sum(axis=0)
    largest = np.where(zones.unassigned, free, 0).max(axis=0)
    by_size: list[I64] = [np.searchsorted(sums, size * largest, side="right") for size in range(len(free) + 1)]
    best = [np.zeros(zones.rows.size, np.int64)]
    for count in range(1, len(free) + 1):
        options = [np.where(widths >= size, best[count - size] + by_size[size], 0) for size in range(1, count + 1)]
        best.append(np.maximum.reduce(options))
    for number in range(min(int(late.max()), _MAX_LATE)):
        sharing = np.maximum(late - number, 0)
        best = [
            np.maximum.reduce([best[count - size] + np.minimum(by_size[size], sharing) for size in range(count + 1)])
            for count in range(len(best))
        ]
    return alone + np.array(best)[zones.counts, np.arange(zones.rows.size)]
