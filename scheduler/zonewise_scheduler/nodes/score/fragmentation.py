"""Scores the free amounts that a pod leaves in the zone from which it is predicted to be allocated.

The kubelet allocates from the lowest zone that fits. So a scheduler cannot choose the zone, but it can choose a node by
the amounts that remain in that zone. Only this zone counts, since the other zones are unchanged. If no single zone is
predicted, the node counts as one zone. This applies to sets of several zones, policies without zones, and rows that the
arrays do not decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, AlignmentStep, alignment_request
from zonewise_scheduler.nodes.arrays.layout import CPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I8, I64
    from zonewise_scheduler.nodes.arrays.zone_fit import ZoneFit

MAX_NODE_SCORE = 100
"""The best score; the worst is 0 (pkg/scheduler/framework MaxNodeScore)."""
_MAX_SCORED_STEPS = 8
"""Maximum steps that are scored: the work grows with their square."""


class PendingShape(NamedTuple):
    """Pending pods of one shape."""

    shape: PodShape
    pod_count: int
    """Number of pods, the weight of this shape among the pending shapes; more than 0."""


class ScoredStep(NamedTuple):
    """A step that holds its amounts as long as the pod runs."""

    step: AlignmentStep
    zone: I8
    """(rows,): the position of the zone in each scored row; -1 if no single zone is predicted."""


class ZoneChange(NamedTuple):
    """One step of a pod: the free amounts of its zone before the step, and the amounts of the step."""

    before: dict[int, I64]
    """Free amounts by resource index, (rows,)."""
    amounts: dict[int, int]


def scored_steps(request: AlignmentRequest, zone_fit: ZoneFit, rows: I64) -> list[ScoredStep]:
    """Return the steps to be scored in some rows: all but ordinary init containers, which end.

    A pod of many containers is scored as one step from the node as a whole.
    """
    lasting = [(index, step) for index, step in enumerate(request.steps) if not step.is_init]
    if len(lasting) > _MAX_SCORED_STEPS:
        return [ScoredStep(AlignmentStep((), request.node_amounts), np.full(rows.size, -1, np.int8))]
    return [ScoredStep(step, zone_fit.zones[index].take(rows)) for index, step in lasting]


def zone_changes(view: ArrayView, steps: Sequence[ScoredStep], rows: I64, extra_indices: set[int]) -> list[ZoneChange]:
    """Return the change by each step of a pod in some rows, for the requested resources and for `extra_indices`."""
    changes: list[ZoneChange] = []
    for count, (step, zone) in enumerate(steps):
        flat_indices = view.flat_indices(zone, rows)
        from_node = zone < 0 if step.hinted == step.amounts else np.ones(rows.size, np.bool_)
        any_from_node = bool(from_node.any())
        shared = [from_node | (zone == earlier.zone) for earlier in steps[:count]]
        amounts, before = dict(step.amounts), dict[int, "I64"]()
        for index in extra_indices | amounts.keys():
            free = before[index] = view.free_at(index, flat_indices)
            if any_from_node:
                np.copyto(free, view.node_free[index][rows], where=from_node)
            for in_same_zone, change in zip(shared, changes, strict=True):
                if amount := change.amounts.get(index, 0):
                    free -= in_same_zone * np.int64(amount)
        changes.append(ZoneChange(before, amounts))
    return changes


def pod_amounts(request: AlignmentRequest) -> dict[int, int]:
    """Return the sum of a pod's amounts, by resource index."""
    return {index: amount for index, amount in request.node_amounts if amount}


def least_fragmentation(layout: Layout, changes: Sequence[ZoneChange], pending: Sequence[PendingShape]) -> I64:
    """Return (rows,): 100 if pending pods lose no placement, 0 if they lose as many as the pod can cost.

    The loss of a shape is the number of its pods that fit in the zone before, less the number that fit after. It is
    weighted by the number of pending pods.
    """
    pod_count = sum(entry.pod_count for entry in pending)
    total = np.full(_row_count(changes), MAX_NODE_SCORE * pod_count)
    for entry in pending:
        request = alignment_request(layout, entry.shape)
        required = pod_amounts(request) if request.exact and not request.impossible else {}
        if worst := sum(_max_lost_pods(change.amounts, required) for change in changes):
            lost = _lost_pods(changes[0], required)
            for change in changes[1:]:
                lost += _lost_pods(change, required)
            lost *= MAX_NODE_SCORE
            lost //= worst
            lost *= entry.pod_count
            total -= lost
    total //= pod_count
    return total


def zone_fullness(view: ArrayView, rows: I64, changes: Sequence[ZoneChange]) -> I64:
    """Return (rows,): how full the zone is afterwards, averaged over the requested resources; 0 if all is free.

    Without pending pods, whole zones and whole nodes are the scarce resource. So a pod is best placed beside other
    pods.
    """
    free = np.zeros(_row_count(changes))
    for change in changes:
        for index, amount in change.amounts.items():
            percent = (change.before[index] - amount).astype(np.float64)  # faster than a product of two types
            percent *= view.percent_per_unit[index].take(rows)
            free += percent
    free /= sum(len(change.amounts) for change in changes)
    np.clip(free, 0, MAX_NODE_SCORE, out=free)  # a whole node may have more free than its largest zone
    return MAX_NODE_SCORE - free.astype(np.int64)


def whole_groups(view: ArrayView, rows: I64, changes: Sequence[ZoneChange]) -> I64:
    """Return (rows,): 100 if as few cores and L3 groups as possible are broken, 0 if one more is.

    Free CPUs are counted as if they formed whole groups, as far as their number allows.
    """
    core, cache = (sizes[rows] for sizes in view.group_sizes)
    if (core == core[0]).all() and (cache == cache[0]).all():  # dividing by a single number is faster
        return _whole_groups(changes, np.array([int(core[0]), int(cache[0])])[:, None])
    return _whole_groups(changes, np.stack([core, cache]))


def _whole_groups(changes: Sequence[ZoneChange], sizes: I64) -> I64:
    """Return the mean over changes and types of groups; `sizes`: (2, rows) or (2, 1)."""
    core, cache = np.maximum(sizes, 1)
    whole, count = np.zeros(_row_count(changes), np.int64), np.zeros(core.shape, np.int64)
    for size, counts in ((core, core > 1), (cache, (cache > 1) & (cache != core))):
        for change in changes:
            rest = change.amounts.get(CPU, 0) % size
            counted = counts & (rest > 0)  # otherwise each zone loses the same number of groups
            if counted.any():
                before = change.before[CPU]
                whole += counted & (before - before // size * size >= rest)  # faster than a remainder
                count += counted
    whole += count == 0
    return MAX_NODE_SCORE * whole // np.maximum(count, 1)


def _row_count(changes: Sequence[ZoneChange]) -> int:
    """Return the number of rows."""
    return next(iter(changes[0].before.values())).size


def _max_lost_pods(allocated: dict[int, int], required: dict[int, int]) -> int:
    """Return the maximum number of pods of the required amounts that lose their placement through an allocation."""
    return max((-(-allocated.get(index, 0) // amount) for index, amount in required.items()), default=0)


def _lost_pods(change: ZoneChange, required: dict[int, int]) -> I64:
    """Return how many pods fewer the zone can admit; `required` has at least one resource."""
    counts_before: list[I64] = []
    counts_after: list[I64] = []
    for index, amount in required.items():
        before = change.before[index]
        counts_before.append(before // amount)
        allocated = change.amounts.get(index)
        counts_after.append((before - allocated) // amount if allocated else counts_before[-1])
    return np.maximum(_minimum(counts_before), 0) - np.maximum(_minimum(counts_after), 0)


def _minimum(counts: Sequence[I64]) -> I64:
    minimum = counts[0]
    for count in counts[1:]:
        minimum = np.minimum(minimum, count)
    return minimum
