"""Requests that no zone of a node could give even if it were empty: sets of several zones, under policy restricted.

The kubelet prefers the sets of as few zones as are enough by totals (generateCPUTopologyHints, calculateHints,
generateDeviceTopologyHints), and admits if one set is preferred by every resource (policy_restricted.go).
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
"""With more, sets are too many to try on all rows; the kubelet itself starts with more only where told to."""


def multi_zone_rows(
    view: ArrayView, free: Sequence[I64], amounts: IndexedAmounts, failed: Bools, *, first: bool
) -> tuple[Bools, Bools]:
    """Return the failed rows that several zones can serve, and those of which the arrays cannot tell."""
    wide, unclear = np.zeros(view.rows, np.bool_), np.zeros(view.rows, np.bool_)
    layout = view.layout
    opinions = tuple(one for one in amounts if layout.localities[one[0]] is not ZoneLocality.ANYWHERE)
    candidates = failed.copy()
    for index, amount in opinions:
        if not layout.is_memory(index):  # several types together may need more zones than each alone
            candidates &= view.largest_total[index] < amount
    rows = np.flatnonzero(candidates)
    if not rows.size or not opinions:
        return wide, unclear
    pinned = any(layout.is_memory(index) for index, _ in opinions)
    mixed = any(layout.localities[index] is ZoneLocality.MIXED for index, _ in opinions)
    if view.zones > MAX_ZONES or mixed or (pinned and not first):  # earlier steps have made zones give alone
        unclear[rows] = True
        return wide, unclear
    some = view.select(rows)
    left = [one[:, rows] for one in free]
    found = _agreed(some, left, opinions, pinned=pinned)
    for index, amount in amounts:
        if layout.localities[index] is ZoneLocality.ANYWHERE:
            found &= left[index][0] >= amount
    if pinned:
        unclear[rows] = some.grouped
        found &= ~some.grouped
    wide[rows] = found
    return wide, unclear


def _agreed(view: ArrayView, left: Sequence[I64], opinions: IndexedAmounts, *, pinned: bool) -> Bools:
    """Tell which rows have a set of zones that every resource prefers."""
    agreed = np.zeros(view.rows, np.bool_)
    undecided = np.ones(view.rows, np.bool_)
    lists = _lists(view.layout, opinions)
    for size in range(1, view.zones + 1):
        sets = list(combinations(range(view.zones), size))
        reached = [_any_set(sets, lambda one, wanted=wanted: _has(view.total, one, wanted)) for wanted in lists]
        every, some = np.logical_and.reduce(reached), np.logical_or.reduce(reached)
        if (every & undecided).any():
            found = _any_set(sets, lambda one: _has(left, one, opinions) & ~_has_given(view, one, pinned=pinned))
            agreed |= every & undecided & found
        undecided &= ~some
        if not undecided.any():
            break
    return agreed


def _lists(layout: Layout, opinions: IndexedAmounts) -> list[IndexedAmounts]:
    """Return what widths are counted for: each resource, but all types of memory as one."""
    memory = tuple(one for one in opinions if layout.is_memory(one[0]))
    others = [(one,) for one in opinions if not layout.is_memory(one[0])]
    return [memory, *others] if memory else others


def _any_set(sets: Sequence[tuple[int, ...]], test: Callable[[tuple[int, ...]], Bools]) -> Bools:
    found = test(sets[0])
    for one in sets[1:]:
        found |= test(one)
    return found


def _has(amounts: Sequence[I64] | I64, zones: tuple[int, ...], wanted: IndexedAmounts) -> Bools:
    """Tell which rows have all that is wanted in some zones together."""
    found = np.ones(amounts[CPU].shape[-1], np.bool_)
    for index, amount in wanted:
        held = amounts[index]
        together = held[zones[0]]
        for zone in zones[1:]:
            together = together + held[zone]
        found &= together >= amount
    return found


def _has_given(view: ArrayView, zones: tuple[int, ...], *, pinned: bool) -> Bools:
    """Tell which rows have given memory from one of the zones alone, which then joins no group."""
    if not pinned or len(zones) == 1:
        return np.zeros(view.rows, np.bool_)
    given: Bools = (view.assigned & sum(1 << zone for zone in zones)) != 0
    return given
