"""Requests for which a set of several zones is preferred, since no zone could serve them even if it were empty.

This matters under policy restricted. The kubelet prefers the sets with as few zones as are enough by totals
(generateCPUTopologyHints, calculateHints, generateDeviceTopologyHints). It admits a pod if every resource prefers the
same set (policy_restricted.go).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.nodes.arrays.alignment_request import IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64, Bools

MAX_ZONES = 8
"""With more zones, there are too many sets to try on all rows. By default the kubelet does not start with more."""


def multi_zone_rows(
    view: ArrayView, free: Sequence[I64], amounts: IndexedAmounts, failed: Bools, *, first: bool
) -> tuple[Bools, Bools]:
    """Return the failed rows that a set of several zones can serve, and the rows that the arrays cannot decide."""
    fits, undecided = np.zeros(view.rows, np.bool_), np.zeros(view.rows, np.bool_)
    layout = view.layout
    hinted = tuple(entry for entry in amounts if layout.localities[entry[0]] is not ZoneLocality.ANYWHERE)
    candidates = failed.copy()
    for index, amount in hinted:
        if not layout.is_memory(index):  # several types together may need more zones than each alone
            candidates &= view.largest_total[index] < amount
    rows = np.flatnonzero(candidates)
    if not rows.size or not hinted:
        return fits, undecided
    pinned = any(layout.is_memory(index) for index, _ in hinted)
    mixed = any(layout.localities[index] is ZoneLocality.MIXED for index, _ in hinted)
    if view.zones > MAX_ZONES or mixed or (pinned and not first):  # earlier steps have made zones allocate alone
        undecided[rows] = True
        return fits, undecided
    candidate_view = view.select(rows)
    candidate_free = [array[:, rows] for array in free]
    candidate_fits = _has_common_preference(candidate_view, candidate_free, hinted, pinned=pinned)
    for index, amount in amounts:
        if layout.localities[index] is ZoneLocality.ANYWHERE:
            candidate_fits &= candidate_free[index][0] >= amount
    if pinned:
        undecided[rows] = candidate_view.grouped
        candidate_fits &= ~candidate_view.grouped
    fits[rows] = candidate_fits
    return fits, undecided


def _has_common_preference(view: ArrayView, free: Sequence[I64], hinted: IndexedAmounts, *, pinned: bool) -> Bools:
    """Tell which rows have a set of zones that every resource prefers."""
    fits = np.zeros(view.rows, np.bool_)
    undecided = np.ones(view.rows, np.bool_)
    counted_lists = _counted_lists(view.layout, hinted)
    for size in range(1, view.zones + 1):
        zone_sets = list(combinations(range(view.zones), size))
        sufficient = [
            _any_zone_set(zone_sets, lambda zones, amounts=amounts: _suffices(view.total, zones, amounts))
            for amounts in counted_lists
        ]
        all_sufficient, any_sufficient = np.logical_and.reduce(sufficient), np.logical_or.reduce(sufficient)
        if (all_sufficient & undecided).any():
            preferred = _any_zone_set(
                zone_sets, lambda zones: _suffices(free, zones, hinted) & ~_has_assigned(view, zones, pinned=pinned)
            )
            fits |= all_sufficient & undecided & preferred
        undecided &= ~any_sufficient
        if not undecided.any():
            break
    return fits


def _counted_lists(layout: Layout, hinted: IndexedAmounts) -> list[IndexedAmounts]:
    """Return the amounts for which widths are counted: each resource alone, but all memory types as one."""
    memory = tuple(entry for entry in hinted if layout.is_memory(entry[0]))
    single_types = [(entry,) for entry in hinted if not layout.is_memory(entry[0])]
    return [memory, *single_types] if memory else single_types


def _any_zone_set(zone_sets: Sequence[tuple[int, ...]], test: Callable[[tuple[int, ...]], Bools]) -> Bools:
    result = test(zone_sets[0])
    for zones in zone_sets[1:]:
        result |= test(zones)
    return result


def _suffices(amounts: Sequence[I64] | I64, zones: tuple[int, ...], required: IndexedAmounts) -> Bools:
    """Tell which rows have all required amounts in some zones together."""
    result = np.ones(amounts[CPU].shape[-1], np.bool_)
    for index, amount in required:
        by_zone = amounts[index]
        total = by_zone[zones[0]]
        for zone in zones[1:]:
            total = total + by_zone[zone]
        result &= total >= amount
    return result


def _has_assigned(view: ArrayView, zones: tuple[int, ...], *, pinned: bool) -> Bools:
    """Tell which rows have memory assigned in one of the zones alone, which then joins no group."""
    if not pinned or len(zones) == 1:
        return np.zeros(view.rows, np.bool_)
    assigned: Bools = (view.assigned & sum(1 << zone for zone in zones)) != 0
    return assigned
