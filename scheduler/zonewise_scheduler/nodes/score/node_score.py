"""The score of zonewise: one number from what a pod leaves, how close its parts are, and which cores stay whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.zone_fit import REJECTED
from zonewise_scheduler.nodes.score.closeness import closeness
from zonewise_scheduler.nodes.score.fragmentation import (
    MAX_NODE_SCORE,
    PendingShape,
    least_fragmentation,
    pod_amounts,
    whole_groups,
    zone_changes,
    zone_fullness,
)

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.block import Block
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.nodes.arrays.types import I64
    from zonewise_scheduler.nodes.arrays.zone_fit import ZoneFit


class ScoreWeights(NamedTuple):
    """What counts how much; whole numbers of which one at least is more than 0."""

    fragmentation: int = 6
    """That waiting pods lose no place; with none waiting, that the pod fills up a zone in use."""
    closeness: int = 3
    """That all of a container comes from one zone."""
    whole_groups: int = 1
    """That no core and no L3 group is broken up without need."""


DEFAULT_WEIGHTS = ScoreWeights()
"""Places lost are lost to other jobs for as long as this one runs, so they weigh most; closeness differs only between
nodes that do not insist on it; a broken L3 group costs speed, not places."""


def score(
    table: NodeStateTable,
    shape: PodShape,
    pending: tuple[PendingShape, ...] = (),
    weights: ScoreWeights = DEFAULT_WEIGHTS,
) -> I64:
    """Return (rows,): 0 to 100, best, for a pod on each node; 0 where its kubelet refuses it.

    Rows that the arrays do not decide are scored as if the kubelet took the pod, from no zone in particular.
    """
    key = ("score", shape, pending, weights)

    def of_block(block: Block) -> I64:
        asked, placed = alignment_request(block.layout, shape), block.zone_fit(shape)
        return block.get_or_compute(key, lambda view, at: _score(view, asked, placed.select(at), pending, weights))

    return table.gather(np.zeros(table.rows, np.int64), of_block)


def _score(
    view: ArrayView, asked: AlignmentRequest, placed: ZoneFit, waiting: tuple[PendingShape, ...], weights: ScoreWeights
) -> I64:
    rows = np.flatnonzero(placed.fits != REJECTED)
    found = np.zeros(view.rows, np.int64)
    if not asked.steps:  # it asks for nothing that is given by zones
        found[rows] = MAX_NODE_SCORE
    elif rows.size:
        found[rows] = _weighted(view, asked, placed, rows, waiting, weights)
    return found


def _weighted(
    view: ArrayView,
    asked: AlignmentRequest,
    placed: ZoneFit,
    rows: I64,
    waiting: tuple[PendingShape, ...],
    weights: ScoreWeights,
) -> I64:
    layout = view.layout
    others = {index for one in waiting for index in pod_amounts(alignment_request(layout, one.shape))}
    done = zone_changes(view, asked, placed, rows, others)
    remains = least_fragmentation(layout, done, waiting) if waiting else zone_fullness(view, rows, done)
    total = remains * weights.fragmentation
    if weights.closeness:
        total += closeness(view, asked, placed, rows) * weights.closeness
    if weights.whole_groups:
        total += whole_groups(layout, done) * weights.whole_groups
    return total // sum(weights)
