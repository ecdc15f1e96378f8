"""The score of zonewise: a weighted mean of fragmentation, closeness and whole core groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.block import packed_fit, zone_fit_key
from zonewise_scheduler.nodes.arrays.stacked_blocks import StackedPart
from zonewise_scheduler.nodes.arrays.verdict_cache import ResultKey
from zonewise_scheduler.nodes.arrays.zone_fit import REJECTED, ZoneFit
from zonewise_scheduler.nodes.score.fragmentation import (
    MAX_NODE_SCORE,
    PendingShape,
    PossibleLoss,
    ScoredStep,
    least_fragmentation,
    lossy_amounts,
    scored_steps,
    whole_groups,
    zone_changes,
    zone_fullness,
)
from zonewise_scheduler.nodes.score.zone_values import ZoneValues, free_percents, pod_counts_in_zones

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.block import Block
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.nodes.arrays.types import F64, I8, I64, Bools
    from zonewise_scheduler.nodes.score.fragmentation import ZoneChange


FULLNESS_PERCENT = 10
"""Often, all nodes cost pending pods the same number of placements. This holds especially for pods whose containers may
be in several zones. The fuller zones then decide, so that other zones remain whole for pods that arrive later."""


class ScoreWeights(NamedTuple):
    """Weights of the three parts; integers, of which at least one is more than 0."""

    fragmentation: int = 6
    """Weight of placements that pending pods keep and, with FULLNESS_PERCENT of it, of filling zones in use. Without
    pending pods, only the latter counts."""
    closeness: int = 3
    """Weight of containers that are allocated from one zone."""
    whole_groups: int = 1
    """Weight of cores and L3 groups that remain whole."""


DEFAULT_WEIGHTS = ScoreWeights()
"""A lost placement remains lost as long as the pod runs, so fragmentation weighs most. Closeness differs only between
nodes that do not require one zone. A broken L3 group costs speed, not placements."""


def score(
    table: NodeStateTable,
    shape: PodShape,
    pending: tuple[PendingShape, ...] = (),
    weights: ScoreWeights = DEFAULT_WEIGHTS,
) -> I64:
    """Return (rows,): the score of each node for a pod, 0 to 100 (best); 0 if its kubelet rejects the pod.

    Rows that the arrays do not decide are scored as if the kubelet admitted the pod from no zone in particular.
    """
    key, fit_key = ResultKey("score", shape, pending, weights), zone_fit_key(shape)

    def score_parts(view: ArrayView, parts: Sequence[StackedPart]) -> I8:
        fits = [block.zone_fit(shape, fit_key).select(slots) for block, slots in parts]
        zone_fit = fits[0] if len(fits) == 1 else ZoneFit.from_packed(np.hstack([fit.packed for fit in fits]))
        rows = np.flatnonzero(zone_fit.fits != REJECTED)
        steps = scored_steps(alignment_request(view.layout, shape), zone_fit, rows)
        scores = np.zeros(view.rows, np.int8)
        if not steps:  # the pod requests nothing that belongs to zones
            scores[rows] = MAX_NODE_SCORE
        elif rows.size:
            scores[rows] = _weighted(view, parts, steps, rows, pending, weights)
        return scores

    def score_block(block: Block) -> I8:
        return block.get_or_compute(key, lambda view, slots: score_parts(view, [StackedPart(block, slots)]))

    table.renew(fit_key, [shape], lambda view, _: packed_fit(view, shape), padded=True)
    table.renew(key, [shape, *(entry.shape for entry in pending)], score_parts, padded=False)
    return table.gather(np.zeros(table.rows, np.int64), score_block)


def _weighted(
    view: ArrayView,
    parts: Sequence[StackedPart],
    steps: Sequence[ScoredStep],
    rows: I64,
    pending: tuple[PendingShape, ...],
    weights: ScoreWeights,
) -> I8:
    changes = zone_changes(view, steps, rows)
    values = _zone_values(parts, changes)
    total = zone_fullness(changes, _free_percents(values, changes))
    if pending:
        total *= FULLNESS_PERCENT
        losses = [_possible_loss(view.layout, values, entry) for entry in pending]
        total += least_fragmentation(changes, losses) * (100 - FULLNESS_PERCENT)
        total //= 100
    total *= weights.fragmentation
    if weights.closeness:
        total += closeness(view, steps, rows) * weights.closeness
    if weights.whole_groups:
        total += whole_groups(changes) * weights.whole_groups
    total //= sum(weights)
    return total.astype(np.int8)


def _zone_values(parts: Sequence[StackedPart], changes: Sequence[ZoneChange]) -> ZoneValues | None:
    """Return the cached values of all slots of a block; None for fewer rows, which do not repay the lookups."""
    ((block, slots), *others) = parts
    if others or not isinstance(slots, slice):
        return None
    return ZoneValues(block, slots, changes[0].zone, changes[0].rows)


def _free_percents(values: ZoneValues | None, changes: Sequence[ZoneChange]) -> F64 | None:
    if values is None or len(changes) > 1:
        return None
    indices = tuple(changes[0].amounts)
    return values.compute(("free_percents", indices), lambda view: free_percents(view, indices))


def _possible_loss(layout: Layout, values: ZoneValues | None, entry: PendingShape) -> PossibleLoss:
    amounts = lossy_amounts(layout, entry.shape)
    if values is None or not amounts:
        return PossibleLoss(amounts, None, entry.pod_count)
    counts = values.compute(("pod_counts_in_zones", amounts), lambda view: pod_counts_in_zones(view, amounts))
    return PossibleLoss(amounts, counts, entry.pod_count)


def closeness(view: ArrayView, steps: Sequence[ScoredStep], rows: I64) -> I64:
    """Return a score of some rows: 100 if each step is allocated from one zone, or else 100 divided by the zones.

    The array is (rows,), or (1,) if all rows have the same score, which is the mean over the steps. A step counts as
    spread over all zones if the kubelet matches nothing to zones, or if the arrays do not determine the zones. The
    policy best-effort uses one zone if one has enough, so the steps of such pods are compared with the zones.
    """
    all_zones = MAX_NODE_SCORE // view.zones
    total = np.zeros(1, np.int64)
    for step, zone in steps:
        if step.hinted == step.amounts:
            total = total + _best_if(zone >= 0, all_zones)
        elif view.layout.policies.topology == "best-effort":
            fits = np.ones((view.zones, rows.size), np.bool_)
            for index, amount in step.amounts:
                fits &= view.free[index][:, rows] >= amount
            total = total + _best_if(np.logical_or.reduce(fits), all_zones)
        else:
            total = total + all_zones
    return total // len(steps)


def _best_if(flags: Bools, otherwise: int) -> I64 | int:
    """Return the best score where a flag is set, and another score elsewhere; one number if all flags are set."""
    return MAX_NODE_SCORE if flags.all() else np.where(flags, MAX_NODE_SCORE, otherwise)
