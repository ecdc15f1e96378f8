"""How many equal pods, one after another, each row takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, REJECTED, UNDECIDED, fit_zones, is_strict, subtract_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64

UNDECIDED_COUNT = -1


def pod_counts(view: ArrayView, request: AlignmentRequest, limit: int) -> I64:
    """Return (rows,): the number of pods, at most the limit; -1 where the arrays do not suffice."""
    fits = fit_zones(view, request).fits
    if not request.node_amounts or limit == 0:
        return np.where(fits == ADMITTED, limit, fits.astype(np.int64))
    if limit == 1 or not is_repeatable(view.layout, request):
        return np.where((fits == ADMITTED) & (limit > 1), UNDECIDED_COUNT, fits.astype(np.int64))
    found = _one_by_one(view, request, limit) if len(request.steps) > 1 else _in_one(view, request, limit)
    found[fits == UNDECIDED] = UNDECIDED_COUNT
    found[fits == REJECTED] = 0
    return found


def zone_pod_counts(free: Sequence[I64] | I64, amounts: IndexedAmounts) -> I64:
    """Return how often what is wanted can be taken from the same zone: in the shape of the arrays of free.

    All amounts are more than 0.
    """
    (index, amount), *rest = amounts
    found = free[index] // amount
    for index, amount in rest:
        np.minimum(found, free[index] // amount, out=found)
    return np.maximum(found, 0, out=found)


def is_repeatable(layout: Layout, request: AlignmentRequest) -> bool:
    """Tell whether counts foretell a second pod after the first."""
    hinted = {index for step in request.steps for index, _ in step.hinted}
    if any(layout.localities[index] is ZoneLocality.MIXED for index in hinted):
        return False
    if not all(amount for step in request.steps for _, amount in step.hinted):
        return False
    policies = layout.policies
    if policies.align_by_package and CPU in hinted:
        return False
    return not (policies.full_cores and request.exclusive_cpus and layout.partly_reserved)


def _in_one(view: ArrayView, asked: AlignmentRequest, limit: int) -> I64:
    """Return the number of pods of one step: each zone is filled before the next, so the zones' numbers add up."""
    (step,) = asked.steps
    zoned = tuple(one for one in step.hinted if view.layout.localities[one[0]] is not ZoneLocality.ANYWHERE)
    found = np.full(view.rows, limit, np.int64)
    for index, amount in asked.node_amounts:
        if (index, amount) not in zoned:
            np.minimum(found, view.node_free[index] // amount, out=found)
    if not zoned:
        return found
    by_zone = zone_pod_counts(view.free, zoned).sum(axis=0)
    clear = np.minimum(found, by_zone)
    if step.sums_memory or not is_strict(view.layout, step.hinted):
        clear[by_zone < found] = UNDECIDED_COUNT  # more may come from several zones
    elif view.layout.policies.topology == "restricted":
        clear[by_zone == 0] = UNDECIDED_COUNT  # admitted all the same: from several zones
    return clear


def _one_by_one(view: ArrayView, asked: AlignmentRequest, limit: int) -> I64:
    """Return the number of pods of several steps, by taking them."""
    found = np.zeros(view.rows, np.int64)
    rows = np.arange(view.rows)
    free, node_free = list(view.free), view.node_free.copy()
    for count in range(1, limit + 1):
        view = replace(view, node_free=node_free)
        placed = fit_zones(view, asked, free)
        found[rows[placed.fits == UNDECIDED]] = UNDECIDED_COUNT
        going = (placed.fits == ADMITTED) & (placed.zones >= 0).all(axis=0)
        found[rows[(placed.fits == ADMITTED) & ~going]] = UNDECIDED_COUNT
        found[rows[going]] = count
        if not going.any() or count == limit:
            break
        subtract_step(free, asked.steps[-1].hinted, placed.zones[-1], view.layout)
        for index, amount in asked.node_amounts:
            node_free[index] -= amount
        if not going.all():
            kept = np.flatnonzero(going)
            rows, view, node_free = rows[kept], view.select(kept), node_free[:, kept]
            free = [one[:, kept] for one in free]
    return found
