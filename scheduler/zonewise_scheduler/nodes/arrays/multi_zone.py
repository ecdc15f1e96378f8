"""Requests that prefer a set of several zones, since no single zone could serve them even if it were empty.

This matters under policy restricted. The kubelet prefers the sets with the fewest zones that suffice by totals
(generateCPUTopologyHints, calculateHints, generateDeviceTopologyHints). It admits a pod if every resource prefers the
same set (policy_restricted.go).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.unaligned_memory import CHECKS_GROUPS_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, AlignmentStep, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.failed_rows import FailedRows
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64, Bools
    from zonewise_scheduler.nodes.arrays.zone_amounts import ZoneAmounts

MAX_ZONES = 8
"""Maximum number of zones: with more, there are too many sets to try on all rows. By default the kubelet does not start
with more."""


_NOT_IN_SETS = -(1 << 58)
"""An amount so low that no set with this zone has enough, whatever the amounts of up to seven others."""


def multi_zone_rows(failed: FailedRows, *, may_reuse: bool) -> tuple[Bools, Bools]:
    """Return the failed rows that a set of several zones can serve, and the rows that the arrays cannot decide.

    A common preference is always necessary, but not sufficient in these cases:

    - `may_reuse`: an init container may have left amounts. Reusable amounts count as free, but not for every set.
    - CPUs are distributed across zones: the kubelet may not find the CPUs that it has counted.
    - The containers of a pod require more than their sum.
    """
    view, amounts = failed.view, failed.step.hinted
    fits, undecided = failed.none(), failed.none()
    layout = view.layout
    hinted = layout.with_zones(amounts)
    rows = _without_single_zones(failed, hinted)
    if not rows.size or not hinted:
        return fits, undecided
    pinned = any(layout.is_memory(index) for index, _ in hinted)
    unevenly = layout.policies.distribute_across_zones and any(index == CPU for index, _ in hinted)
    if view.zones > MAX_ZONES or _is_mixed(layout, hinted):
        undecided[rows] = True
        return fits, undecided
    candidates = failed.select(rows)
    candidate_view, left = view.select(candidates.in_view), candidates.amounts
    if layout.packages and any(index == CPU for index, _ in hinted):
        candidate_fits = _has_package_preference(candidate_view, left, hinted, pinned=pinned)
    else:
        candidate_fits = _has_common_preference(candidate_view, left, hinted, pinned=pinned)
    for index, amount in amounts:
        if layout.localities[index] is ZoneLocality.ANYWHERE:
            candidate_fits &= left.available[index][0] >= amount
    is_hint_only = unevenly or may_reuse or (pinned and _requires_more(failed.step.own_memory, dict(hinted)))
    unclear = candidate_fits.copy() if is_hint_only else np.zeros_like(candidate_fits)
    if pinned:
        unclear |= candidate_view.grouped
    undecided[rows] = unclear
    fits[rows] = candidate_fits & ~unclear
    return fits, undecided


def reuse_misaligns(view: ArrayView, request: AlignmentRequest) -> Bools:
    """Return which rows reject a pod because an ordinary init container needs more zones than the next step with CPUs.

    A hint of the next step must contain all zones with reusable CPUs. A preferred hint has no more zones than the
    step's own CPUs need (generateCPUTopologyHints). With align-by-socket a preferred hint may have more, but memory
    that a single zone could have prefers single zones. If no set has the memory, it prefers none, and the kubelet
    rejects the pod later. Before 1.32 it does not, since it allocates memory across groups.
    """
    misaligned = np.zeros(view.rows, np.bool_)
    policies = view.layout.policies
    if policies.align_by_package and policies.release < CHECKS_GROUPS_SINCE:
        return misaligned
    steps = [(step, amount) for step in request.steps for index, amount in step.hinted if index == CPU]
    for (step, cpus), (next_step, next_cpus) in pairwise(steps):
        if step.is_init and next_cpus < cpus:
            needed = _zones_needed(view, cpus)
            if policies.align_by_package:
                misaligned |= (needed > 1) & _prefers_single_zones(view, next_step)
            else:
                misaligned |= needed > _zones_needed(view, next_cpus)
    return misaligned


def unextended_rows(failed: FailedRows) -> Bools:
    """Return which rows reject a whole pod because a container lacks free memory in the pod's zones.

    1. All resources prefer the same sets, of several zones each. The kubelet aligns the pod to one of them.
    2. In each of them, some container finds too little free memory: memory that it may reuse does not count.
    3. The Memory Manager then extends the set. The result must be one that the container prefers (Allocate).
    4. But the container's memory prefers single zones.
    """
    step, layout = failed.step, failed.view.layout
    rejected = failed.none()
    hinted = layout.with_zones(step.hinted)
    if _is_mixed(layout, hinted) or layout.packages or failed.view.zones > MAX_ZONES:
        return rejected
    rows = _without_single_zones(failed, hinted)
    if not rows.size or not _requires_more(step.own_memory, dict(hinted)):
        return rejected
    for selected, narrow in _by_narrow_containers(failed.select(rows)):
        peaks = _own_peaks(step.own_memory, narrow)
        required = tuple((index, max(amount, peaks.get(index, 0))) for index, amount in hinted)
        candidates = failed.select(rows[selected])
        view = failed.view.select(candidates.in_view)
        is_aligned = _has_common_preference(view, candidates.amounts, hinted, pinned=True)
        suffices = _has_common_preference(view, candidates.amounts, hinted, pinned=True, required=required)
        rejected[rows[selected]] = is_aligned & ~suffices & ~view.grouped
    return rejected


def _is_mixed(layout: Layout, hinted: IndexedAmounts) -> bool:
    return any(layout.localities[index] is ZoneLocality.MIXED for index, _ in hinted)


def _by_narrow_containers(failed: FailedRows) -> Iterator[tuple[I64, list[bool]]]:
    """Yield failed rows, by index, and which containers of a pod have memory that prefers single zones there."""
    view = failed.view.select(failed.in_view)
    narrow = np.array([_prefers_single_zones(view, container) for container in failed.step.own_memory])
    patterns, inverse = np.unique(narrow, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T.tolist()):
        yield np.flatnonzero(inverse.reshape(-1) == number), pattern


def _prefers_single_zones(view: ArrayView, step: AlignmentStep) -> Bools:
    """Return in which rows a single zone could have the memory of a step by its totals."""
    suffices = [view.total[index] >= amount for index, amount in step.hinted if view.layout.is_memory(index)]
    return np.logical_or.reduce(np.logical_and.reduce(suffices)) if suffices else np.zeros(view.rows, np.bool_)


def _requires_more(containers: tuple[AlignmentStep, ...], amounts: dict[int, int]) -> bool:
    """Return whether containers of one pod require more free memory than the pod's amounts, or other types."""
    return any(peak > amounts.get(index, 0) for index, peak in _own_peaks(containers).items())


def _own_peaks(containers: tuple[AlignmentStep, ...], counted: Sequence[bool] = ()) -> dict[int, int]:
    """Return the most memory, by type, that must be free at first for all containers, or for some of them.

    All are allocated from the same zones. If there are several zones, the Memory Manager does not count reusable memory
    as free (isAffinitySatisfyRequest). Each container's own amount must be free before it takes what it may reuse.
    """
    held: dict[int, int] = defaultdict(int)
    reusable: dict[int, int] = defaultdict(int)
    peaks: dict[int, int] = defaultdict(int)
    for container, is_counted in zip(containers, counted or [True] * len(containers), strict=True):
        for index, amount in container.hinted:
            if is_counted:
                peaks[index] = max(peaks[index], held[index] + amount)
            held[index] += max(0, amount - reusable[index])
            reusable[index] = max(reusable[index], amount) if container.is_init else max(0, reusable[index] - amount)
    return peaks


def _without_single_zones(failed: FailedRows, hinted: IndexedAmounts) -> I64:
    """Return, by index, the failed rows that have enough and for which no resource prefers single zones.

    Types of memory count as one resource: together they may need more zones than each by itself.
    """
    view, rows = failed.view, failed.in_view
    candidates = failed.every()
    for index, amount in hinted:
        candidates &= view.node_free[index].take(rows) >= amount
        if not view.layout.is_memory(index) and not (index == CPU and view.layout.packages):
            candidates &= view.largest_total[index].take(rows) < amount
    remaining = np.flatnonzero(candidates)
    memory = [entry for entry in hinted if view.layout.is_memory(entry[0])]
    if not memory or not remaining.size:
        return remaining
    in_view = rows[remaining]
    suffices = [view.total[index].take(in_view, axis=1) >= amount for index, amount in memory]
    return remaining[~np.logical_and.reduce(suffices).any(axis=0)]


def _has_common_preference(
    view: ArrayView,
    left: ZoneAmounts,
    hinted: IndexedAmounts,
    *,
    pinned: bool,
    required: IndexedAmounts | None = None,
) -> Bools:
    """Return which rows have a set of zones that every resource prefers and that has the required amount of each."""
    fits = np.zeros(view.rows, np.bool_)
    for size, rows in _rows_by_width(view, hinted):
        fits[rows] = _any_set_suffices(_amounts_in_sets(left, rows, size, pinned=pinned), required or hinted, size)
    return fits


def _rows_by_width(view: ArrayView, hinted: IndexedAmounts) -> Iterator[tuple[int, I64]]:
    """Yield numbers of zones, each with the rows in which every resource needs that many zones by totals."""
    undecided = np.ones(view.rows, np.bool_)
    totals = {index: view.total[index] for index, _ in hinted}
    counted_lists = _counted_lists(view.layout, hinted)
    for size in range(1, view.zones + 1):
        sufficient = [_any_set_suffices(totals, amounts, size) for amounts in counted_lists]
        all_sufficient, any_sufficient = np.logical_and.reduce(sufficient), np.logical_or.reduce(sufficient)
        rows = np.flatnonzero(all_sufficient & undecided)
        if rows.size:
            yield size, rows
        undecided &= ~any_sufficient
        if not undecided.any():
            break


def _amounts_in_sets(left: ZoneAmounts, rows: I64, size: int, *, pinned: bool) -> dict[int, I64]:
    """Return the amounts that zones contribute to a set of `size` zones, by resource."""
    amounts = {index: array[:, rows] for index, array in left.available.items()}
    if pinned and size > 1:  # a single zone with assigned memory joins no group
        zones = np.arange(left.layout.zone_count, dtype=np.int64)[:, None]
        is_assigned: Bools = (left.assigned[rows] >> zones & 1).astype(np.bool_)
        amounts = {index: np.where(is_assigned, _NOT_IN_SETS, array) for index, array in amounts.items()}
    return amounts


def _has_package_preference(view: ArrayView, left: ZoneAmounts, hinted: IndexedAmounts, *, pinned: bool) -> Bools:
    """Return which rows have a set of zones that every resource prefers, with align-by-socket.

    For CPUs, a set is also preferred if it spans no more packages than the CPUs need (isHintSocketAligned).
    """
    (_, cpus), others = hinted[0], hinted[1:]
    widths, packages = _cpu_widths(view, cpus)
    if not others:
        return _any_package_suffices(view, left.available[CPU], cpus, widths, packages)
    fits = np.zeros(view.rows, np.bool_)
    for size, rows in _rows_by_width(view, others):
        amounts = _amounts_in_sets(left, rows, size, pinned=pinned)
        for zones in combinations(range(view.zones), size):
            reached = sum(any(package >> zone & 1 for zone in zones) for package in view.layout.packages)
            in_set = (widths[rows] == size) | (packages[rows] == reached)
            for index, amount in hinted:
                in_set &= sum((amounts[index][zone] for zone in zones[1:]), start=amounts[index][zones[0]]) >= amount
            fits[rows] |= in_set
    return fits


def _zones_needed(view: ArrayView, cpus: int) -> I64:
    """Return (rows,): the number of zones that CPUs need by totals (getCPUMinAffinitySize)."""
    largest = np.cumsum(np.sort(view.total[CPU], axis=0)[::-1], axis=0)
    return np.minimum(np.count_nonzero(largest < cpus, axis=0) + 1, view.zones)


def _cpu_widths(view: ArrayView, cpus: int) -> tuple[I64, I64]:
    """Return (rows,): the number of zones that CPUs need, and the number of packages of that many zones."""
    widths = _zones_needed(view, cpus)
    zones_per_package = view.zones // len(view.layout.packages)
    return widths, -(-widths // zones_per_package)


def _any_package_suffices(view: ArrayView, free: I64, cpus: int, widths: I64, packages: I64) -> Bools:
    """Return which rows have the CPUs in a preferred set, which spans only as many zones or packages as they need.

    The set of all zones of the packages has the most, so other sets within these packages need not be tried.
    """
    rows = np.arange(view.rows)
    by_zone = np.cumsum(np.sort(free, axis=0)[::-1], axis=0)
    of_packages = [
        free[[zone for zone in range(view.zones) if package >> zone & 1]].sum(axis=0)
        for package in view.layout.packages
    ]
    by_package = np.cumsum(np.sort(np.array(of_packages), axis=0)[::-1], axis=0)
    count = len(of_packages)
    in_packages = (packages <= count) & (by_package[np.minimum(packages, count) - 1, rows] >= cpus)
    return (by_zone[widths - 1, rows] >= cpus) | in_packages


def _counted_lists(layout: Layout, hinted: IndexedAmounts) -> list[IndexedAmounts]:
    """Return the amounts for which widths are counted: each resource by itself, but all memory types as one."""
    memory = tuple(entry for entry in hinted if layout.is_memory(entry[0]))
    single_types = [(entry,) for entry in hinted if not layout.is_memory(entry[0])]
    return [memory, *single_types] if memory else single_types


def _any_set_suffices(amounts: Mapping[int, I64], required: IndexedAmounts, size: int) -> Bools:
    """Return which rows have all required amounts in some set of `size` zones.

    The largest amounts of each resource are a bound. Sets are tried only in rows where it holds for several resources.
    """
    bounds = [np.sort(amounts[index], axis=0)[-size:].sum(axis=0) >= amount for index, amount in required]
    suffices: Bools = np.logical_and.reduce(bounds)
    rows = np.flatnonzero(suffices)
    if len(required) == 1 or not rows.size:
        return suffices
    selected = [(amounts[index][:, rows], amount) for index, amount in required]
    found = np.zeros(rows.size, np.bool_)
    for zones in combinations(range(selected[0][0].shape[0]), size):
        in_set = np.ones(rows.size, np.bool_)
        for by_zone, amount in selected:
            in_set &= sum((by_zone[zone] for zone in zones[1:]), start=by_zone[zones[0]]) >= amount
        found |= in_set
        if found.all():
            break
    suffices[rows] = found
    return suffices
