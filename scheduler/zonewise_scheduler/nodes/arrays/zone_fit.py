"""Which rows take a pod, and from which zone: the lowest that can give all of a step.

A zone with enough of everything that is free has enough of everything in total, so no set of zones is narrower, and it
is preferred by all (pkg/kubelet/cm/topologymanager/policy.go: of preferred sets the narrowest, then the lowest). Only
where there is none do widths matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.multi_zone import multi_zone_rows

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, AlignmentStep, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I8, I64, Bools

_KEEPS_GROUPS = (1, 32)
"""The first release that looks whether a set of zones fits to the groups (isAffinityViolatingNUMAAllocations)."""

REJECTED, ADMITTED, UNDECIDED = 0, 1, -1
NO_ZONE = -1

FreeArrays = list["I64"]
"""By resource: (zones, rows), as the steps so far have left it; shared with a view until it is changed."""


class ZoneFit(NamedTuple):
    """The answer of rows to one pod."""

    fits: I8
    """(rows,): 1 admitted, 0 refused, -1 the arrays do not suffice."""
    zones: I8
    """(steps, rows): the position of the zone that gives all that is matched to zones; -1 where no single one does."""

    def select(self, rows: slice | I64) -> ZoneFit:
        """Return the answer of some of the rows."""
        return ZoneFit(self.fits[rows], self.zones[:, rows])


def fit_zones(view: ArrayView, request: AlignmentRequest, free: FreeArrays | None = None) -> ZoneFit:
    """Return which rows take a pod; take it from free where that is given."""
    zones = np.full((len(request.steps), view.rows), NO_ZONE, np.int8)
    if request.impossible:
        return ZoneFit(np.zeros(view.rows, np.int8), zones)
    if not request.exact:
        return ZoneFit(_necessary(view, request), zones)
    free = free if free is not None else list(view.free)
    alive, doubt = _enough(view, request), np.zeros(view.rows, np.bool_)
    for number, step in enumerate(request.steps):
        last = number + 1 == len(request.steps)
        zone = _lowest(free, step.hinted, zones[number])
        if step.hinted:
            wide, unclear = _otherwise(view, free, step, (zone < 0) & alive & ~doubt, first=number == 0)
            alive &= (zone >= 0) | doubt | wide | unclear
            doubt |= unclear if last else unclear | wide
        if not last:
            subtract_step(free, step.hinted, zone, view.layout)
    fits = alive.astype(np.int8)
    fits[doubt & alive] = UNDECIDED
    return ZoneFit(fits, zones)


def _lowest(free: FreeArrays, wanted: IndexedAmounts, zone: I8) -> I8:
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


def subtract_step(free: FreeArrays, amounts: IndexedAmounts, zone: I8, layout: Layout) -> None:
    """Take a step from its zone in each row that has one."""
    rows = np.flatnonzero(zone >= 0)
    at = zone[rows]
    for index, amount in amounts:
        left = free[index].copy()
        if layout.localities[index] is ZoneLocality.ANYWHERE:
            left[:, rows] -= amount
        else:
            left[at, rows] -= amount
        free[index] = left


def _enough(view: ArrayView, asked: AlignmentRequest) -> Bools:
    """Tell which rows have enough in sum, which is all that is asked of what is not matched to zones."""
    alive = np.ones(view.rows, np.bool_)
    matched = ()
    if len(asked.steps) == 1 and is_strict(view.layout, asked.steps[0].hinted):
        matched = asked.steps[0].hinted  # a zone that has enough is in a node that has
    for index, amount in asked.node_amounts:
        if (index, amount) not in matched:
            alive &= view.node_free[index] >= amount
    if asked.exclusive_cpus and view.layout.policies.full_cores and view.layout.partly_reserved:
        alive &= view.whole_cores >= asked.exclusive_cpus
    return alive


def _otherwise(
    view: ArrayView, free: FreeArrays, step: AlignmentStep, failed: Bools, *, first: bool
) -> tuple[Bools, Bools]:
    """Return which of the failed rows several zones serve, and of which the arrays cannot tell."""
    none = np.zeros(view.rows, np.bool_)
    if not is_strict(view.layout, step.hinted):
        return none, failed
    unclear = none
    if step.sums_memory:
        memory = tuple(one for one in step.hinted if view.layout.is_memory(one[0]))
        unclear = failed & (_lowest(free, memory, np.full(view.rows, NO_ZONE, np.int8)) < 0)
        failed = failed & ~unclear
    if view.layout.policies.topology == "single-numa-node":
        return none, unclear
    wide, more = multi_zone_rows(view, free, step.hinted, failed, first=first)
    return wide, unclear | more


def is_strict(layout: Layout, hinted: IndexedAmounts) -> bool:
    """Tell whether a kubelet refuses what its zones' counts do not allow.

    Under none and best-effort it does not insist on one zone; with align-by-socket it takes CPUs of a whole package
    (isHintSocketAligned); before 1.32 it gives memory across its own groups (kubernetes#128669).
    """
    policies = layout.policies
    indices = {index for index, _ in hinted}
    if policies.topology in {"none", "best-effort"} or (policies.align_by_package and CPU in indices):
        return False
    return policies.release >= _KEEPS_GROUPS or not any(layout.is_memory(index) for index in indices)


def _necessary(view: ArrayView, asked: AlignmentRequest) -> I8:
    """Return doubt where each step would fit alone, and refused elsewhere."""
    fits = np.full(view.rows, UNDECIDED, np.int8)
    for step in asked.steps:
        alone = asked._replace(steps=(step,), node_amounts=step.amounts, exact=True)
        fits[fit_zones(view, alone).fits == REJECTED] = REJECTED
    return fits
