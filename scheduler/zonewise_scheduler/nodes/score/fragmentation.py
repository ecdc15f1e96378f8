"""What a pod leaves of the zone that it is foretold to get.

The kubelet takes the lowest zone that fits, so a scheduler cannot choose the zone, only the node: by what remains.
Counts are of the one zone that changes; all others stay as they are. Where no single zone is foretold (sets of several
zones, policies without zones, rows that arrays do not decide), the node counts as one zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, alignment_request
from zonewise_scheduler.nodes.arrays.layout import CPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64
    from zonewise_scheduler.nodes.arrays.zone_fit import ZoneFit

MAX_NODE_SCORE = 100
"""The best score; the worst is 0 (pkg/scheduler/framework MaxNodeScore)."""


class PendingShape(NamedTuple):
    """Pods of one shape that wait to be placed."""

    shape: PodShape
    pod_count: int
    """How many: the weight among the shapes that wait; more than 0."""


class ZoneChange(NamedTuple):
    """One step of a pod: what the zone that gives it has before and after."""

    before: dict[int, I64]
    """By the resource's index (rows,)."""
    amounts: dict[int, int]


def zone_changes(
    view: ArrayView, request: AlignmentRequest, zone_fit: ZoneFit, rows: I64, other_indices: set[int]
) -> list[ZoneChange]:
    """Return what each step of a pod changes in some rows, of what it asks for and of others."""
    done: list[ZoneChange] = []
    for number, step in enumerate(request.steps):
        taken = dict(step.amounts)
        zones = [zone[rows] for zone in zone_fit.zones[: number + 1]]
        spots = view.flat_indices(zones[-1], rows)
        elsewhere = zones[-1] < 0 if step.hinted == step.amounts else np.ones(rows.size, np.bool_)
        some_elsewhere = bool(elsewhere.any())
        before: dict[int, I64] = {}
        for index in other_indices | taken.keys():
            here = before[index] = view.free_at(index, spots)
            if some_elsewhere:
                np.copyto(here, view.node_free[index][rows], where=elsewhere)
            for zone, earlier in zip(zones, done, strict=False):
                if amount := earlier.amounts.get(index, 0):
                    np.subtract(here, amount, out=here, where=elsewhere | (zone == zones[-1]))
        done.append(ZoneChange(before, taken))
    return done


def pod_amounts(request: AlignmentRequest) -> dict[int, int]:
    """Return what one pod needs in all, by the resource's index."""
    return {index: amount for index, amount in request.node_amounts if amount}


def least_fragmentation(layout: Layout, changes: Sequence[ZoneChange], pending: Sequence[PendingShape]) -> I64:
    """Return (rows,): 100 where the pods that wait lose no place, 0 where they lose as many as the pod can cost.

    A shape's loss is the number of its pods that the zone could take before, less those that it can take after; it is
    weighed by the number of pods that wait.
    """
    rows = _length(changes)
    total, weights = np.zeros(rows, np.int64), sum(one.pod_count for one in pending)
    for one in pending:
        other = alignment_request(layout, one.shape)
        need = pod_amounts(other) if other.exact and not other.impossible else {}
        worst = sum(_most(change.amounts, need) for change in changes)
        lost = np.zeros(rows, np.int64)
        if worst:
            for change in changes:
                lost += _lost(change, need)
            np.minimum(lost, worst, out=lost)
        total += one.pod_count * (MAX_NODE_SCORE - lost * MAX_NODE_SCORE // max(worst, 1))
    return total // weights


def zone_fullness(view: ArrayView, rows: I64, changes: Sequence[ZoneChange]) -> I64:
    """Return (rows,): how full the zone is afterwards, in the mean of what the pod asks for; 0 where all is free.

    With nothing known to wait, whole zones and whole nodes are what is scarce: a pod belongs beside others.
    """
    free = np.zeros(_length(changes))
    for change in changes:
        for index, taken in change.amounts.items():
            free += (change.before[index] - taken) * view.percent_per_unit[index][rows]
    free /= sum(len(change.amounts) for change in changes)
    np.clip(free, 0, MAX_NODE_SCORE, out=free)  # a whole node is more than its largest zone
    return MAX_NODE_SCORE - free.astype(np.int64)


def whole_groups(layout: Layout, changes: Sequence[ZoneChange]) -> I64:
    """Return (rows,): 100 where as few cores and L3 groups are broken up as the number of CPUs allows, 0 for as many.

    Counted as if free CPUs were in whole groups as far as their number allows; which they are is in the exact score.
    """
    caches = layout.cpus.caches
    sizes = {layout.cpus.cpus_per_core, max((bits.bit_count() for _, bits in caches), default=0)}
    scores = [score for size in sizes if size > 1 for score in _groups(changes, size)]
    if not scores:
        return np.full(_length(changes), MAX_NODE_SCORE, np.int64)
    return sum(scores[1:], scores[0]) // len(scores)


def _groups(done: Sequence[ZoneChange], size: int) -> Iterator[I64]:
    for change in done:
        cpus = change.amounts.get(CPU, 0)
        if cpus % size:  # otherwise any zone loses as many groups
            before = change.before[CPU]
            broken = before // size - (before - cpus) // size - cpus // size
            yield MAX_NODE_SCORE - MAX_NODE_SCORE * broken


def _length(done: Sequence[ZoneChange]) -> int:
    """Return the number of rows."""
    return next(iter(done[0].before.values())).size


def _most(taken: dict[int, int], need: dict[int, int]) -> int:
    """Return how many pods of a need can lose their place at most by what is taken."""
    return max((-(-taken.get(index, 0) // amount) for index, amount in need.items()), default=0)


def _lost(change: ZoneChange, need: dict[int, int]) -> I64:
    """Return how many pods of a need fewer the zone can take; the need is of one resource at least."""
    had: list[I64] = []
    has: list[I64] = []
    for index, amount in need.items():
        before = change.before[index]
        had.append(before // amount)
        taken = change.amounts.get(index)
        has.append((before - taken) // amount if taken else had[-1])
    return np.maximum(_least(had), 0) - np.maximum(_least(has), 0)


def _least(counts: Sequence[I64]) -> I64:
    least = counts[0]
    for count in counts[1:]:
        least = np.minimum(least, count)
    return least
