"""Determines which rows admit a pod, and from which zone: the lowest zone that has all amounts of a step.

If a single zone has enough free of everything, the kubelet allocates from the lowest such zone:

1. The zone's totals also suffice, so no set of zones is narrower, and every resource prefers the zone.
2. Of the preferred sets, the kubelet takes the narrowest, then the lowest (pkg/kubelet/cm/topologymanager/policy.go).

Widths matter only if no single zone has enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.failed_rows import FailedRows
from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.memory_capacity import lacks_memory_sets
from zonewise_scheduler.nodes.arrays.memory_sets import memory_sets_rows, memory_steps, own_memory_rows
from zonewise_scheduler.nodes.arrays.multi_zone import multi_zone_rows, reuse_misaligns, unextended_rows
from zonewise_scheduler.nodes.arrays.unaligned_memory import (
    CHECKS_GROUPS_SINCE,
    hints_near_devices,
    no_memory_set_rows,
    unaligned_memory_rows,
)
from zonewise_scheduler.nodes.arrays.uncounted_cpus import with_necessary_cpus
from zonewise_scheduler.nodes.arrays.unhinted_memory import unhinted_memory_rows
from zonewise_scheduler.nodes.arrays.zone_amounts import ZoneAmounts

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, AlignmentStep, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I8, I64, Bools

_FULL_SHARE = 0.75
"""Copying the rows that are still judged pays if they are less than this fraction of all rows."""

REJECTED, ADMITTED, UNDECIDED = 0, 1, -1
NO_ZONE = -1


class ZoneFit(NamedTuple):
    """The verdict of rows on one pod."""

    fits: I8
    """(rows,): 1: admitted, 0: rejected, -1: the arrays do not suffice."""
    zones: I8
    """(steps, rows): the position of the zone that serves all hinted amounts; -1 if no single zone does."""

    @classmethod
    def from_packed(cls, packed: I8) -> ZoneFit:
        """Return the verdict from an array of `packed`."""
        return cls(packed[0], packed[1:])

    @property
    def packed(self) -> I8:
        """Return both fields in one array, (1 + steps, rows)."""
        return np.vstack([self.fits, self.zones])

    def select(self, rows: slice | I64) -> ZoneFit:
        """Return the verdict of some of the rows."""
        return ZoneFit(self.fits[rows], self.zones[:, rows])


def fit_zones(view: ArrayView, request: AlignmentRequest, amounts: ZoneAmounts | None = None) -> ZoneFit:
    """Return which rows admit a pod; subtract all steps except the last from `amounts` if given."""
    zones = np.full((len(request.steps), view.rows), NO_ZONE, np.int8)
    if request.impossible:
        return ZoneFit(np.zeros(view.rows, np.int8), zones)
    fits = _fit_request(view, request, zones, amounts)
    undecided = np.flatnonzero(fits == UNDECIDED)
    if undecided.size and amounts is None:
        fits[undecided[lacks_memory_sets(view, undecided, request)]] = REJECTED
    return ZoneFit(fits, zones)


def _fit_request(view: ArrayView, request: AlignmentRequest, zones: I8, amounts: ZoneAmounts | None) -> I8:
    """Return the verdict of rows step by step; write the zones of each step as far as they are determined."""
    if not request.counts_cpus:
        request = with_necessary_cpus(view.layout, request)
    possible, cores_unclear = _node_suffices(view, request)
    if not request.exact:
        return _necessary_fits(view, request) * possible
    fits = _fit_steps(view, request, possible & ~_order_unclear(view, request), zones, amounts)
    fits[possible & _order_unclear(view, request)] = UNDECIDED
    undecided = np.flatnonzero(fits == UNDECIDED)
    if undecided.size and len(request.steps) > 1:
        few = 2 * undecided.size < view.rows  # a copy costs more than it saves otherwise
        fits[undecided] = (
            _necessary_fits(view.select(undecided), request) if few else _necessary_fits(view, request)[undecided]
        )
    _decide_memory_sets(view, request, fits)
    if request.steps and request.steps[0].unhinted_memory:
        rows = np.flatnonzero(fits == ADMITTED)
        has_memory, unclear = unhinted_memory_rows(view, request.steps[0], rows, zones[0, rows])
        fits[rows] = np.where(unclear, UNDECIDED, has_memory)
    fits[cores_unclear & (fits == ADMITTED)] = UNDECIDED
    return fits


def _decide_memory_sets(view: ArrayView, request: AlignmentRequest, fits: I8) -> None:
    """Decide the undecided rows for a pod if only its memory determines the zones."""
    steps = memory_steps(view.layout, request)
    if steps is None or request.steps[0].unhinted_memory:
        return
    rows = np.flatnonzero((fits == UNDECIDED) & ~view.grouped)
    if rows.size:
        fits[rows] = memory_sets_rows(view, rows, steps)


def _fit_steps(
    view: ArrayView, request: AlignmentRequest, possible: Bools, zones: I8, amounts: ZoneAmounts | None = None
) -> I8:
    """Return the verdict of rows on all steps; write the zones of each step as far as they are determined.

    `possible`: the rows that have enough as whole nodes. The other rows are rejected.
    """
    fits, deciding = possible.astype(np.int8), possible.copy()
    rows: slice | I64 = slice(None)
    drops_rows = amounts is None
    left = amounts or ZoneAmounts.from_view(view)
    left.hide_far_zones(view, _zero_counts(view.layout, request))
    for index, step in enumerate(request.steps):
        is_last = index + 1 == len(request.steps)
        if drops_rows and not is_last and np.count_nonzero(deciding) < _FULL_SHARE * deciding.size:
            remaining = np.flatnonzero(deciding)
            later = {resource for later in request.steps[index:] for resource, _ in later.hinted}
            rows = _select(rows, remaining)
            left, deciding = left.select(remaining, later), deciding[remaining]
        lowest = left.lowest_zones(step.hinted, np.empty(deciding.size, np.int8))
        failed = np.flatnonzero((lowest < 0) & deciding)
        if failed.size:
            in_view = _select(rows, failed)
            failed_rows = FailedRows(view, step, in_view, left, failed)
            several, unclear = _fit_several_zones(
                failed_rows, may_reuse=request.reuses and index > 0, counts_cpus=request.counts_cpus
            )
            fits[in_view] = np.where(unclear | (several & (not is_last)), UNDECIDED, several)
            deciding[failed] = False
        zones[index, rows] = lowest | (deciding.view(np.int8) - 1)  # NO_ZONE if not deciding; faster than a mask
        if not is_last:
            left.subtract(step, lowest)
    return fits


def _select(rows: slice | I64, indices: I64) -> I64:
    """Return the rows at the given indices; `rows`: a slice that selects all rows in their order, or an array."""
    return indices if isinstance(rows, slice) else rows[indices]


def _zero_counts(layout: Layout, request: AlignmentRequest) -> set[int]:
    """Return the resources of which some step requests 0 devices, and whose hints contain only zones with devices.

    A limit of 0 produces hints that prefer single zones (generateDeviceTopologyHints).
    """
    indices = {index for step in request.steps for index, amount in step.hinted if not amount}
    return {index for index in indices if hints_near_devices(layout, index)}


def _node_suffices(view: ArrayView, request: AlignmentRequest) -> tuple[Bools, Bools]:
    """Return which rows have enough in total, the only condition for amounts that are not matched to zones.

    Also return the rows for which the arrays do not determine whether full-pcpus-only finds enough CPUs.
    """
    suffices, unclear = np.ones(view.rows, np.bool_), np.zeros(view.rows, np.bool_)
    implied = ()
    if len(request.steps) == 1 and is_strict(view.layout, request.steps[0].hinted):
        implied = view.layout.with_zones(request.steps[0].hinted)  # if a zone has enough, its node has
    for index, amount in request.node_amounts:
        if not amount or (index, amount) not in implied:
            suffices &= view.node_free[index] >= amount
    cpus = request.cpus
    if cpus.largest and view.layout.cpus_per_core and (view.layout.partly_reserved or request.reuses):
        suffices &= (view.whole_cores >= cpus.largest) & (view.node_free[CPU] >= cpus.whole_at_least)
        unclear = suffices & (view.whole_cores < cpus.whole_at_most)
    return suffices, unclear


def _order_unclear(view: ArrayView, request: AlignmentRequest) -> Bools:
    """Return the rows in which several steps take CPUs from whole packages in an order that depends on CPU ids."""
    with_cpus = sum(any(index == CPU for index, _ in step.hinted) for step in request.steps)
    return view.split_cores if with_cpus > 1 else np.zeros(view.rows, np.bool_)


def _fit_several_zones(failed: FailedRows, *, may_reuse: bool, counts_cpus: bool) -> tuple[Bools, Bools]:
    """Return the failed rows that several zones serve, and those that the arrays cannot decide.

    `counts_cpus`: the step contains all CPUs that have hints.
    """
    step, layout = failed.step, failed.view.layout
    if layout.policies.topology in {"none", "best-effort"}:
        several, unclear = unaligned_memory_rows(failed)
        if layout.policies.topology == "best-effort" and step.sums_memory and counts_cpus:
            unclear &= ~unextended_rows(failed)
        return several, unclear
    checks_groups, in_one_zone = _checks_groups(layout, step.hinted), layout.policies.topology == "single-numa-node"
    if not (checks_groups or in_one_zone) or (_aligns_by_package(layout, step.hinted) and not layout.packages):
        return failed.none(), failed.every()
    several, unclear = failed.none(), failed.none()
    if step.sums_memory or not checks_groups:
        unclear = failed.view.grouped[failed.in_view]
    if step.sums_memory and not _is_aligned_without_memory(layout, step.hinted):
        rows = np.flatnonzero(~unclear & no_memory_set_rows(failed))
        several[rows], unclear[rows] = own_memory_rows(failed.select(rows))
    if in_one_zone:
        return several, unclear
    several, undecided = multi_zone_rows(failed, may_reuse=may_reuse)
    if step.sums_memory:
        undecided &= ~unextended_rows(failed)
    return several & ~unclear, undecided | unclear


def is_strict(layout: Layout, hinted: IndexedAmounts) -> bool:
    """Return whether a kubelet rejects a pod that does not fit by the counts of the zones.

    Under none and best-effort, it does not require one zone. With align-by-socket, it allocates CPUs of a whole package
    (isHintSocketAligned). Before 1.32, it allocates memory across its own groups (kubernetes#128669). Under
    single-numa-node, nodes without groups still reject such a pod.
    """
    if layout.policies.topology in {"none", "best-effort"} or _aligns_by_package(layout, hinted):
        return False
    return _checks_groups(layout, hinted)


def _aligns_by_package(layout: Layout, hinted: IndexedAmounts) -> bool:
    return layout.policies.align_by_package and any(index == CPU for index, _ in hinted)


def _checks_groups(layout: Layout, hinted: IndexedAmounts) -> bool:
    """Return whether the kubelet allocates no memory across groups, because it checks this or the pod has no memory."""
    return layout.policies.release >= CHECKS_GROUPS_SINCE or not any(layout.is_memory(index) for index, _ in hinted)


def _is_aligned_without_memory(layout: Layout, hinted: IndexedAmounts) -> bool:
    """Return whether a pod is aligned to some zones although its memory has no hint.

    Under single-numa-node, no hint at all means any zones; otherwise it means all zones as one set.
    """
    if layout.policies.topology != "single-numa-node":
        return True
    return any(
        not layout.is_memory(index) and layout.localities[index] is not ZoneLocality.ANYWHERE for index, _ in hinted
    )


def _necessary_fits(view: ArrayView, request: AlignmentRequest) -> I8:
    """Return UNDECIDED for rows where each step would fit by itself, and REJECTED for the others."""
    fits = np.full(view.rows, UNDECIDED, np.int8)
    aligned = view.layout.policies.topology not in {"none", "best-effort"}
    for step in request.steps if aligned else _largest_steps(request, view.layout):
        single, zones = request._replace(steps=(step,), exact=True), np.empty((1, view.rows), np.int8)
        fits[_fit_steps(view, single, fits != REJECTED, zones) == REJECTED] = REJECTED
    if aligned:
        fits[reuse_misaligns(view, request)] = REJECTED
    return fits


def _largest_steps(request: AlignmentRequest, layout: Layout) -> set[AlignmentStep]:
    """Return the steps with the most of each type of memory: the other steps rarely fail by themselves."""
    amounts = [(dict(step.hinted), step) for step in request.steps]
    indices = layout.memory_index.values() if amounts else ()
    return {max(amounts, key=lambda entry, index=index: entry[0].get(index, 0))[1] for index in indices}
