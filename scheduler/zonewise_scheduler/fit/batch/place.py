"""Which rows take a pod, and from which zone: the lowest that can give all of a step.

A zone with enough of everything that is free has enough of everything in total, so no set of zones is narrower, and it
is preferred by all (pkg/kubelet/cm/topologymanager/policy.go: of preferred sets the narrowest, then the lowest). Only
where there is none do widths matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.fit.batch.layout import CPU, Nature
from zonewise_scheduler.fit.batch.wide import wide_rows

if TYPE_CHECKING:
    from zonewise_scheduler.fit.batch.asks import Asks, Step, Wanted
    from zonewise_scheduler.fit.batch.layout import Layout
    from zonewise_scheduler.fit.batch.types import I8, I64, Bools
    from zonewise_scheduler.fit.batch.view import View

_KEEPS_GROUPS = (1, 32)
"""The first release that looks whether a set of zones fits to the groups (isAffinityViolatingNUMAAllocations)."""

REFUSED, ADMITTED, DOUBT = 0, 1, -1
NO_ZONE = -1

Free = list["I64"]
"""By resource: (zones, rows), as the steps so far have left it; shared with a view until it is changed."""


class Placed(NamedTuple):
    """The answer of rows to one pod."""

    fits: I8
    """(rows,): 1 admitted, 0 refused, -1 the arrays do not suffice."""
    zones: I8
    """(steps, rows): the position of the zone that gives all that is matched to zones; -1 where no single one does."""

    def at(self, rows: slice | I64) -> Placed:
        """Return the answer of some of the rows."""
        return Placed(self.fits[rows], self.zones[:, rows])


def place(view: View, asked: Asks, free: Free | None = None) -> Placed:
    """Return which rows take a pod; take it from free where that is given."""
    zones = np.full((len(asked.steps), view.rows), NO_ZONE, np.int8)
    if asked.impossible:
        return Placed(np.zeros(view.rows, np.int8), zones)
    if not asked.sure:
        return Placed(_necessary(view, asked), zones)
    free = free if free is not None else list(view.free)
    alive, doubt = _enough(view, asked), np.zeros(view.rows, np.bool_)
    for number, step in enumerate(asked.steps):
        last = number + 1 == len(asked.steps)
        zone = _lowest(free, step.hinted, zones[number])
        if step.hinted:
            wide, unclear = _otherwise(view, free, step, (zone < 0) & alive & ~doubt, first=number == 0)
            alive &= (zone >= 0) | doubt | wide | unclear
            doubt |= unclear if last else unclear | wide
        if not last:
            take(free, step.hinted, zone, view.layout)
    fits = alive.astype(np.int8)
    fits[doubt & alive] = DOUBT
    return Placed(fits, zones)


def _lowest(free: Free, wanted: Wanted, zone: I8) -> I8:
    """Write the position of the lowest zone of each row that has all of it; none where none has, 0 for nothing."""
    if not wanted:
        zone[:] = 0
        return zone
    (index, amount), *rest = wanted
    good: Bools = free[index] >= amount
    test = np.empty_like(good)
    for index, amount in rest:
        np.greater_equal(free[index], amount, out=test)
        good &= test
    for position in reversed(range(good.shape[0])):
        np.copyto(zone, np.int8(position), where=good[position])
    return zone


def take(free: Free, wanted: Wanted, zone: I8, layout: Layout) -> None:
    """Take a step from its zone in each row that has one."""
    rows = np.flatnonzero(zone >= 0)
    at = zone[rows]
    for index, amount in wanted:
        left = free[index].copy()
        if layout.natures[index] is Nature.ANYWHERE:
            left[:, rows] -= amount
        else:
            left[at, rows] -= amount
        free[index] = left


def _enough(view: View, asked: Asks) -> Bools:
    """Tell which rows have enough in sum, which is all that is asked of what is not matched to zones."""
    alive = np.ones(view.rows, np.bool_)
    matched = ()
    if len(asked.steps) == 1 and is_strict(view.layout, asked.steps[0].hinted):
        matched = asked.steps[0].hinted  # a zone that has enough is in a node that has
    for index, amount in asked.whole:
        if (index, amount) not in matched:
            alive &= view.node_free[index] >= amount
    if asked.cpus and view.layout.policies.full_cores and view.layout.cut:
        alive &= view.whole_cores >= asked.cpus
    return alive


def _otherwise(view: View, free: Free, step: Step, failed: Bools, *, first: bool) -> tuple[Bools, Bools]:
    """Return which of the failed rows several zones serve, and of which the arrays cannot tell."""
    none = np.zeros(view.rows, np.bool_)
    if not is_strict(view.layout, step.hinted):
        return none, failed
    unclear = none
    if step.in_parts:
        memory = tuple(one for one in step.hinted if view.layout.is_memory(one[0]))
        unclear = failed & (_lowest(free, memory, np.full(view.rows, NO_ZONE, np.int8)) < 0)
        failed = failed & ~unclear
    if view.layout.policies.topology == "single-numa-node":
        return none, unclear
    wide, more = wide_rows(view, free, step.hinted, failed, first=first)
    return wide, unclear | more


def is_strict(layout: Layout, hinted: Wanted) -> bool:
    """Tell whether a kubelet refuses what its zones' counts do not allow.

    Under none and best-effort it does not insist on one zone; with align-by-socket it takes CPUs of a whole package
    (isHintSocketAligned); before 1.32 it gives memory across its own groups (kubernetes#128669).
    """
    policies = layout.policies
    indices = {index for index, _ in hinted}
    if policies.topology in {"none", "best-effort"} or (policies.align_by_package and CPU in indices):
        return False
    return policies.release >= _KEEPS_GROUPS or not any(layout.is_memory(index) for index in indices)


def _necessary(view: View, asked: Asks) -> I8:
    """Return doubt where each step would fit alone, and refused elsewhere."""
    fits = np.full(view.rows, DOUBT, np.int8)
    for step in asked.steps:
        alone = asked._replace(steps=(step,), whole=step.whole, sure=True)
        fits[place(view, alone).fits == REFUSED] = REFUSED
    return fits
