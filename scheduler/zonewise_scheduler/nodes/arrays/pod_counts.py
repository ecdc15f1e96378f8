"""Counts how many equal pods, one after another, each row admits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.zone_amounts import ZoneAmounts
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, REJECTED, UNDECIDED, fit_zones, is_strict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64

UNDECIDED_COUNT = -1


def pod_counts(view: ArrayView, request: AlignmentRequest, limit: int) -> I64:
    """Return (rows,): the number of pods, up to the limit; -1 if the arrays do not suffice."""
    fits = fit_zones(view, request).fits
    if not request.exact or not request.steps or limit == 0:
        return np.where(fits == ADMITTED, limit, fits.astype(np.int64))
    if limit == 1 or not is_repeatable(view.layout, request):
        return np.where((fits == ADMITTED) & (limit > 1), UNDECIDED_COUNT, fits.astype(np.int64))
    counts = (
        _count_one_by_one(view, request, limit) if len(request.steps) > 1 else _count_single_step(view, request, limit)
    )
    counts[fits == UNDECIDED] = UNDECIDED_COUNT
    counts[fits == REJECTED] = 0
    return counts


def zone_pod_counts(free: Sequence[I64] | Mapping[int, I64] | I64, amounts: IndexedAmounts) -> I64:
    """Return how often the amounts fit in the same zone, in the shape of the arrays of `free`.

    All amounts are more than 0, and there is at least one.
    """
    (index, amount), *rest = amounts
    counts = free[index] // amount
    for index, amount in rest:
        np.minimum(counts, free[index] // amount, out=counts)
    return np.maximum(counts, 0, out=counts)


def is_repeatable(layout: Layout, request: AlignmentRequest) -> bool:
    """Tell whether counts determine a second pod after the first."""
    if request.reuses or any(step.unhinted_memory for step in request.steps):
        return False
    hinted = {index for step in request.steps for index, _ in step.hinted}
    if any(layout.localities[index] is ZoneLocality.MIXED for index in hinted):
        return False
    if not all(amount for step in request.steps for _, amount in step.hinted):
        return False
    policies = layout.policies
    if policies.align_by_package and CPU in hinted:
        return False
    return not request.cpus.largest or (layout.counts_cpus and not layout.partly_reserved)


def _count_single_step(view: ArrayView, request: AlignmentRequest, limit: int) -> I64:
    """Return the number of pods with one step: zones are filled one after another, so their numbers add up."""
    (step,) = request.steps
    zone_amounts = view.layout.with_zones(step.hinted)
    counts = np.full(view.rows, limit, np.int64)
    for index, amount in request.node_amounts:
        if amount and (index, amount) not in zone_amounts:
            np.minimum(counts, view.node_free[index] // amount, out=counts)
    if not zone_amounts:
        return counts
    zone_counts = zone_pod_counts(view.free, zone_amounts).sum(axis=0)
    decided = np.minimum(counts, zone_counts)
    if step.sums_memory or not is_strict(view.layout, step.hinted):
        decided[zone_counts < counts] = UNDECIDED_COUNT  # several zones together may admit more
    elif view.layout.policies.topology == "restricted":
        decided[zone_counts == 0] = UNDECIDED_COUNT  # a pod may be admitted from several zones
    return decided


def _count_one_by_one(view: ArrayView, request: AlignmentRequest, limit: int) -> I64:
    """Return the number of pods of several steps, by subtracting them one by one."""
    counts = np.zeros(view.rows, np.int64)
    rows = np.arange(view.rows)
    amounts, node_free = ZoneAmounts.from_view(view), view.node_free.copy()
    for count in range(1, limit + 1):
        view = replace(view, node_free=node_free)
        placed = fit_zones(view, request, amounts)
        counts[rows[placed.fits == UNDECIDED]] = UNDECIDED_COUNT
        continuing = (placed.fits == ADMITTED) & (placed.zones >= 0).all(axis=0)
        counts[rows[(placed.fits == ADMITTED) & ~continuing]] = UNDECIDED_COUNT
        counts[rows[continuing]] = count
        if not continuing.any() or count == limit:
            break
        amounts.subtract(request.steps[-1], placed.zones[-1])
        for index, amount in request.node_amounts:
            node_free[index] -= amount
        if not continuing.all():
            remaining = np.flatnonzero(continuing)
            rows, view, node_free = rows[remaining], view.select(remaining), node_free[:, remaining]
            amounts = amounts.select(remaining)
    return counts
