"""Scores the free amounts that a pod leaves in the zone from which it is predicted to be allocated.

The kubelet allocates from the lowest zone that fits. So a scheduler cannot choose the zone, but it can choose a node by
the amounts that remain in that zone. Only this zone counts, since the other zones are unchanged. If no single zone is
predicted, the node counts as one zone. This applies to sets of several zones, policies without zones, and rows that the
arrays do not decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, AlignmentStep, alignment_request
from zonewise_scheduler.nodes.arrays.layout import CPU
from zonewise_scheduler.nodes.arrays.pod_counts import zone_pod_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.alignment_request import IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import F64, I8, I64, Bools
    from zonewise_scheduler.nodes.arrays.zone_fit import ZoneFit

MAX_NODE_SCORE = 100
"""The best score; the worst is 0 (pkg/scheduler/framework MaxNodeScore)."""
_MAX_SCORED_STEPS = 8
"""Maximum number of steps that are scored: the work grows with their square."""
_FULL_SHARE = 0.75
"""Copying some rows pays if they are less than this fraction of all rows."""
_ROUNDING = 1e-6
"""Percent; more than the difference between two ways of adding percents of resources."""


class PendingShape(NamedTuple):
    """Pending pods of one shape."""

    shape: PodShape
    pod_count: int
    """Number of pods, the weight of this shape among the pending shapes; more than 0."""


class PossibleLoss(NamedTuple):
    """Pending pods of one shape that may lose placements."""

    amounts: IndexedAmounts
    """The amounts of a pod; none if no loss is determined."""
    counts: I64 | None
    """(rows,): how many of these pods fit in the zone before the first step; None: this is still to be computed."""
    pod_count: int


class ScoredStep(NamedTuple):
    """A step that holds its amounts as long as the pod runs."""

    step: AlignmentStep
    zone: I8
    """(rows,): the position of the zone in each scored row; -1 if no single zone is predicted."""


@dataclass(frozen=True)
class ZoneChange:
    """One step of a pod in some rows of a view: it takes amounts from a zone that earlier steps may have used."""

    view: ArrayView
    rows: I64
    zone: I8
    """(rows,): the position of the zone; -1: the node as a whole."""
    amounts: dict[int, int]
    """By resource index."""
    earlier: tuple[tuple[Bools, dict[int, int]], ...] = ()
    """Each earlier step: whether it uses the same zone, (rows,), and its amounts."""
    _free: dict[int, I64] = field(default_factory=dict[int, "I64"])

    def before(self, index: int) -> I64:
        """Return (rows,): the free amounts of a resource before the step; the array must not be changed."""
        if index not in self._free:
            self._free[index] = self._amounts_before(index)
        return self._free[index]

    def _amounts_before(self, index: int) -> I64:
        free = self.view.free_at(index, self._cells)
        if self._from_node is not None:
            np.copyto(free, self.view.node_free[index].take(self.rows), where=self._from_node)
        for in_same_zone, amounts in self.earlier:
            if amount := amounts.get(index, 0):
                free -= in_same_zone * np.int64(amount)
        return free

    def select(self, indices: I64) -> ZoneChange:
        """Return some of the rows, by index."""
        earlier = tuple((in_same_zone[indices], amounts) for in_same_zone, amounts in self.earlier)
        return ZoneChange(self.view, self.rows[indices], self.zone[indices], self.amounts, earlier)

    @cached_property
    def _cells(self) -> I64:
        return self.view.flat_indices(self.zone, self.rows)

    @cached_property
    def _from_node(self) -> Bools | None:
        """Return the rows whose zone is the node; None if there are none."""
        from_node: Bools = self.zone < 0
        return from_node if from_node.any() else None


def scored_steps(request: AlignmentRequest, zone_fit: ZoneFit, rows: I64) -> list[ScoredStep]:
    """Return the steps to be scored in some rows: all but ordinary init containers, which end.

    A pod of many containers is scored as one step from the node as a whole.
    """
    lasting = [(index, step) for index, step in enumerate(request.steps) if not step.is_init]
    if len(lasting) > _MAX_SCORED_STEPS:
        return [ScoredStep(AlignmentStep((), request.node_amounts), np.full(rows.size, -1, np.int8))]
    return [ScoredStep(step, zone_fit.zones[index].take(rows)) for index, step in lasting]


def zone_changes(view: ArrayView, steps: Sequence[ScoredStep], rows: I64) -> list[ZoneChange]:
    """Return the change by each step of a pod in some rows."""
    changes: list[ZoneChange] = []
    for count, (step, step_zone) in enumerate(steps):
        zone = step_zone if step.hinted == step.amounts else np.full(rows.size, -1, np.int8)
        earlier = tuple(
            ((zone < 0) | (zone == earlier.zone), change.amounts)
            for earlier, change in zip(steps[:count], changes, strict=True)
        )
        changes.append(ZoneChange(view, rows, zone, dict(step.amounts), earlier))
    return changes


def lossy_amounts(layout: Layout, shape: PodShape) -> IndexedAmounts:
    """Return the amounts by which a pending shape loses placements; none if counts do not determine its placements."""
    request = alignment_request(layout, shape)
    if not request.exact or request.impossible:
        return ()
    return tuple((index, amount) for index, amount in request.node_amounts if amount)


def least_fragmentation(changes: Sequence[ZoneChange], losses: Sequence[PossibleLoss]) -> I64:
    """Return (rows,): 100 if pending pods lose no placement, 0 if they lose as many as the pod can cost.

    The loss of a shape is the number of its pods that fit in the zone before, less the number that fit after. It is
    weighted by the number of pending pods.
    """
    pod_count = sum(loss.pod_count for loss in losses)
    total = np.full(changes[0].rows.size, MAX_NODE_SCORE * pod_count)
    for loss in losses:
        if worst := sum(_max_lost_pods(change.amounts, loss.amounts) for change in changes):
            counts = _counts(changes[0], {}, loss.amounts) if loss.counts is None else loss.counts
            rows, lost = _lost_pods(changes, loss.amounts, counts)
            lost *= MAX_NODE_SCORE
            lost //= worst
            lost *= loss.pod_count
            total[rows] -= lost
    total //= pod_count
    return total


def zone_fullness(changes: Sequence[ZoneChange], percents: F64 | None) -> I64:
    """Return (rows,): how full the zone is afterwards, averaged over the requested resources; 0 if all is free.

    Without pending pods, whole zones and whole nodes are the scarce resource. So a pod is best placed beside other
    pods. `percents`: free_percents() of the zone, at most if there is a single change; it is overwritten. It saves
    reading each resource, but its sum is rounded differently, which matters only near whole numbers.
    """
    if percents is None:
        return _exact_fullness(changes)
    (change,) = changes
    free = percents
    free -= sum(amount * change.view.percents(index, change.rows) for index, amount in change.amounts.items())
    free /= len(change.amounts)
    distance = np.rint(free)
    distance -= free
    near = np.flatnonzero(np.abs(distance, out=distance) < _ROUNDING)
    fullness = _in_percent(free)
    fullness[near] = _exact_fullness([change.select(near)])
    return fullness


def _exact_fullness(changes: Sequence[ZoneChange]) -> I64:
    """Return (rows,): how full the zone is afterwards, from the amounts themselves."""
    free = np.zeros(changes[0].rows.size)
    for change in changes:
        for index, amount in change.amounts.items():
            percent = change.before(index) - float(amount)
            percent *= change.view.percents(index, change.rows)
            free += percent
    free /= sum(len(change.amounts) for change in changes)
    return _in_percent(free)


def _in_percent(free: F64) -> I64:
    """Return how full zones are, by their free amounts in percent, which are overwritten."""
    free.clip(0, MAX_NODE_SCORE, out=free)  # a whole node may have more free than its largest zone
    return MAX_NODE_SCORE - free.astype(np.int64)


def whole_groups(changes: Sequence[ZoneChange]) -> I64:
    """Return (rows,): 100 if as few cores and L3 groups as possible are broken, 0 if one more is.

    Free CPUs are counted as if they formed whole groups, as far as their number allows.
    """
    view, rows = changes[0].view, changes[0].rows
    core, cache = np.maximum(view.group_sizes_of(rows), 1)
    whole, count = np.zeros(rows.size, np.int8), np.zeros(core.shape, np.int8)
    for size, counts in ((core, core > 1), (cache, (cache > 1) & (cache != core))):
        for change in changes:
            rest = change.amounts.get(CPU, 0) % size
            counted = counts & (rest > 0)  # otherwise each zone loses the same number of groups
            if counted.any():
                before = change.before(CPU)
                is_whole = before - before // size * size >= rest  # faster than a remainder
                whole += (counted & is_whole).view(np.int8)
                count += counted.view(np.int8)
    whole += (count == 0).view(np.int8)
    mean: I64 = MAX_NODE_SCORE * whole.astype(np.int16) // np.maximum(count, 1)
    return mean.astype(np.int64)


def _max_lost_pods(allocated: dict[int, int], amounts: IndexedAmounts) -> int:
    """Return the maximum number of pods of some amounts that lose their placement through an allocation."""
    return max((-(-allocated.get(index, 0) // amount) for index, amount in amounts), default=0)


def _lost_pods(changes: Sequence[ZoneChange], amounts: IndexedAmounts, counts: I64) -> tuple[slice | I64, I64]:
    """Return the rows in which a zone can admit a pod before, and how many pods fewer the zones can admit afterwards.

    `amounts`: of a pending pod. `counts`: (rows,), how many of these fit before the first change.
    """
    fits = counts > 0
    for change in changes[1:]:
        fits |= np.logical_and.reduce([change.before(index) >= amount for index, amount in amounts])
    rows: slice | I64 = slice(None)
    if np.count_nonzero(fits) < _FULL_SHARE * fits.size:
        rows = np.flatnonzero(fits)
        counts, changes = counts[rows], [change.select(rows) for change in changes]
    lost = counts - _counts(changes[0], changes[0].amounts, amounts)
    for change in changes[1:]:
        lost += _counts(change, {}, amounts)
        lost -= _counts(change, change.amounts, amounts)
    return rows, lost


def _counts(change: ZoneChange, allocated: dict[int, int], amounts: IndexedAmounts) -> I64:
    """Return (rows,): how many pods of some amounts fit in the zone after an allocation."""
    free = {index: change.before(index) for index, _ in amounts}
    for index in free.keys() & allocated.keys():
        free[index] = free[index] - allocated[index]
    return zone_pod_counts(free, amounts)
