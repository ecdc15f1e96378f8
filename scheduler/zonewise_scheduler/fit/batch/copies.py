"""How many equal pods, one after another, each row takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.fit.batch.layout import CPU, Nature
from zonewise_scheduler.fit.batch.place import ADMITTED, DOUBT, REFUSED, is_strict, place, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.fit.batch.asks import Asks, Wanted
    from zonewise_scheduler.fit.batch.layout import Layout
    from zonewise_scheduler.fit.batch.types import I64
    from zonewise_scheduler.fit.batch.view import View

UNCLEAR = -1


def copies(view: View, asked: Asks, limit: int) -> I64:
    """Return (rows,): the number of pods, at most the limit; -1 where the arrays do not suffice."""
    fits = place(view, asked).fits
    if not asked.whole or limit == 0:
        return np.where(fits == ADMITTED, limit, fits.astype(np.int64))
    if limit == 1 or not is_repeatable(view.layout, asked):
        return np.where((fits == ADMITTED) & (limit > 1), UNCLEAR, fits.astype(np.int64))
    found = _one_by_one(view, asked, limit) if len(asked.steps) > 1 else _in_one(view, asked, limit)
    found[fits == DOUBT] = UNCLEAR
    found[fits == REFUSED] = 0
    return found


def zone_copies(free: Sequence[I64] | I64, wanted: Wanted) -> I64:
    """Return how often what is wanted can be taken from the same zone: in the shape of the arrays of free.

    All amounts are more than 0.
    """
    (index, amount), *rest = wanted
    found = free[index] // amount
    for index, amount in rest:
        np.minimum(found, free[index] // amount, out=found)
    return np.maximum(found, 0, out=found)


def is_repeatable(layout: Layout, asked: Asks) -> bool:
    """Tell whether counts foretell a second pod after the first."""
    hinted = {index for step in asked.steps for index, _ in step.hinted}
    if any(layout.natures[index] is Nature.MIXED for index in hinted):
        return False
    if not all(amount for step in asked.steps for _, amount in step.hinted):
        return False
    policies = layout.policies
    if policies.align_by_package and CPU in hinted:
        return False
    return not (policies.full_cores and asked.cpus and layout.cut)


def _in_one(view: View, asked: Asks, limit: int) -> I64:
    """Return the number of pods of one step: each zone is filled before the next, so the zones' numbers add up."""
    (step,) = asked.steps
    zoned = tuple(one for one in step.hinted if view.layout.natures[one[0]] is not Nature.ANYWHERE)
    found = np.full(view.rows, limit, np.int64)
    for index, amount in asked.whole:
        if (index, amount) not in zoned:
            np.minimum(found, view.node_free[index] // amount, out=found)
    if not zoned:
        return found
    by_zone = zone_copies(view.free, zoned).sum(axis=0)
    clear = np.minimum(found, by_zone)
    if step.in_parts or not is_strict(view.layout, step.hinted):
        clear[by_zone < found] = UNCLEAR  # more may come from several zones
    elif view.layout.policies.topology == "restricted":
        clear[by_zone == 0] = UNCLEAR  # admitted all the same: from several zones
    return clear


def _one_by_one(view: View, asked: Asks, limit: int) -> I64:
    """Return the number of pods of several steps, by taking them."""
    found = np.zeros(view.rows, np.int64)
    rows = np.arange(view.rows)
    free, node_free = list(view.free), view.node_free.copy()
    for count in range(1, limit + 1):
        view = replace(view, node_free=node_free)
        placed = place(view, asked, free)
        found[rows[placed.fits == DOUBT]] = UNCLEAR
        going = (placed.fits == ADMITTED) & (placed.zones >= 0).all(axis=0)
        found[rows[(placed.fits == ADMITTED) & ~going]] = UNCLEAR
        found[rows[going]] = count
        if not going.any() or count == limit:
            break
        take(free, asked.steps[-1].hinted, placed.zones[-1], view.layout)
        for index, amount in asked.whole:
            node_free[index] -= amount
        if not going.all():
            kept = np.flatnonzero(going)
            rows, view, node_free = rows[kept], view.at(kept), node_free[:, kept]
            free = [one[:, kept] for one in free]
    return found
