"""Which rows admit a pod, and from which zone: the lowest zone that has all amounts of a step.

If a single zone has enough free of everything, the kubelet allocates from the lowest such zone:

1. The zone also has enough of everything in total, so no set of zones is narrower, and every resource prefers it.
2. Of preferred sets the kubelet takes the narrowest, then the lowest (pkg/kubelet/cm/topologymanager/policy.go).

Only where no single zone has enough do widths matter.
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

_CHECKS_GROUPS_SINCE = (1, 32)
"""The first release that checks whether a set of zones fits to the groups (isAffinityViolatingNUMAAllocations)."""

REJECTED, ADMITTED, UNDECIDED = 0, 1, -1
NO_ZONE = -1

FreeArrays = list["I64"]
"""By resource: (zones, rows), as the steps so far have left it; shared with a view until it is changed."""


class ZoneFit(NamedTuple):
    """The verdict of rows on one pod."""

    fits: I8
    """(rows,): 1 admitted, 0 rejected, -1 the arrays do not suffice."""
    zones: I8
    """(steps, rows): the position of the zone that serves all hinted amounts; -1 where no single one does."""

    def select(self, rows: slice | I64) -> ZoneFit:
        """Return the verdict of some of the rows."""
        return ZoneFit(self.fits[rows], self.zones[:, rows])


def fit_zones(view: ArrayView, request: AlignmentRequest, free: FreeArrays | None = None) -> ZoneFit:
    """Return which rows admit a pod; subtract the pod from `free` if that is passed."""
    zones = np.full((len(request.steps), view.rows), NO_ZONE, np.int8)
    if request.impossible:
        return ZoneFit(np.zeros(view.rows, np.int8), zones)
    if not request.exact:
        return ZoneFit(_necessary_fits(view, request), zones)
    free = free if free is not None else list(view.free)
    possible, undecided = _node_suffices(view, request), np.zeros(view.rows, np.bool_)
    for index, step in enumerate(request.steps):
        is_last = index + 1 == len(request.steps)
        lowest = _lowest_zones(free, step.hinted, zones[index])
        if step.hinted:
            fits_several, unclear = _fit_several_zones(
                view, free, step, (lowest < 0) & possible & ~undecided, first=index == 0
            )
            possible &= (lowest >= 0) | undecided | fits_several | unclear
            undecided |= unclear if is_last else unclear | fits_several
        if not is_last:
            subtract_step(free, step.hinted, lowest, view.layout)
    fits = possible.astype(np.int8)
    fits[undecided & possible] = UNDECIDED
    return ZoneFit(fits, zones)


def _lowest_zones(free: FreeArrays, amounts: IndexedAmounts, zone: I8) -> I8:
    """Write the position of each row's lowest zone that has all amounts: -1 without such a zone, 0 without amounts."""
    if not amounts:
        zone[:] = 0
        return zone
    (index, amount), *rest = amounts
    suffices: Bools = free[index] >= amount
    buffer = np.empty_like(suffices)
    for index, amount in rest:
        np.greater_equal(free[index], amount, out=buffer)
        suffices &= buffer
    for position in reversed(range(suffices.shape[0])):
        np.copyto(zone, np.int8(position), where=suffices[position])
    return zone


def subtract_step(free: FreeArrays, amounts: IndexedAmounts, zone: I8, layout: Layout) -> None:
    """Subtract a step from its zone in each row that has one."""
    rows = np.flatnonzero(zone >= 0)
    positions = zone[rows]
    for index, amount in amounts:
        remaining = free[index].copy()
        if layout.localities[index] is ZoneLocality.ANYWHERE:
            remaining[:, rows] -= amount
        else:
            remaining[positions, rows] -= amount
        free[index] = remaining


def _node_suffices(view: ArrayView, request: AlignmentRequest) -> Bools:
    """Tell which rows have enough in sum, the only condition for amounts that are not matched to zones."""
    suffices = np.ones(view.rows, np.bool_)
    implied = ()
    if len(request.steps) == 1 and is_strict(view.layout, request.steps[0].hinted):
        implied = request.steps[0].hinted  # if a zone has enough, its node has
    for index, amount in request.node_amounts:
        if (index, amount) not in implied:
            suffices &= view.node_free[index] >= amount
    if request.exclusive_cpus and view.layout.policies.full_cores and view.layout.partly_reserved:
        suffices &= view.whole_cores >= request.exclusive_cpus
    return suffices


def _fit_several_zones(
    view: ArrayView, free: FreeArrays, step: AlignmentStep, failed: Bools, *, first: bool
) -> tuple[Bools, Bools]:
    """Return the failed rows that several zones serve, and the rows that the arrays cannot decide."""
    no_rows = np.zeros(view.rows, np.bool_)
    if not is_strict(view.layout, step.hinted):
        return no_rows, failed
    unclear = no_rows
    if step.sums_memory:
        memory = tuple(entry for entry in step.hinted if view.layout.is_memory(entry[0]))
        unclear = failed & (_lowest_zones(free, memory, np.full(view.rows, NO_ZONE, np.int8)) < 0)
        failed = failed & ~unclear
    if view.layout.policies.topology == "single-numa-node":
        return no_rows, unclear
    fits_several, undecided = multi_zone_rows(view, free, step.hinted, failed, first=first)
    return fits_several, unclear | undecided


def is_strict(layout: Layout, hinted: IndexedAmounts) -> bool:
    """Tell whether a kubelet rejects a pod that does not fit by its zones' counts.

    Under none and best-effort it does not require one zone. With align-by-socket it allocates CPUs of a whole package
    (isHintSocketAligned). Before 1.32 it allocates memory across its own groups (kubernetes#128669).
    """
    policies = layout.policies
    indices = {index for index, _ in hinted}
    if policies.topology in {"none", "best-effort"} or (policies.align_by_package and CPU in indices):
        return False
    return policies.release >= _CHECKS_GROUPS_SINCE or not any(layout.is_memory(index) for index in indices)


def _necessary_fits(view: ArrayView, request: AlignmentRequest) -> I8:
    """Return UNDECIDED where each step would fit alone, and REJECTED elsewhere."""
    fits = np.full(view.rows, UNDECIDED, np.int8)
    for step in request.steps:
        single = request._replace(steps=(step,), node_amounts=step.amounts, exact=True)
        fits[fit_zones(view, single).fits == REJECTED] = REJECTED
    return fits
