"""The score of zonewise: one number from what a pod leaves, how close its parts are, and which cores stay whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.fit.batch.asks import asks
from zonewise_scheduler.fit.batch.place import REFUSED
from zonewise_scheduler.fit.score.closeness import closeness
from zonewise_scheduler.fit.score.remains import (
    BEST,
    Waiting,
    changes,
    fullest,
    least_fragmentation,
    needs,
    whole_groups,
)

if TYPE_CHECKING:
    from zonewise_scheduler.fit.batch.asks import Asks
    from zonewise_scheduler.fit.batch.block import Block
    from zonewise_scheduler.fit.batch.place import Placed
    from zonewise_scheduler.fit.batch.table import Table
    from zonewise_scheduler.fit.batch.types import I64
    from zonewise_scheduler.fit.batch.view import View
    from zonewise_scheduler.fit.model.pod import PodShape


class Weights(NamedTuple):
    """What counts how much; whole numbers of which one at least is more than 0."""

    remains: int = 6
    """That waiting pods lose no place; with none waiting, that the pod fills up a zone in use."""
    closeness: int = 3
    """That all of a container comes from one zone."""
    groups: int = 1
    """That no core and no L3 group is broken up without need."""


DEFAULT = Weights()
"""Places lost are lost to other jobs for as long as this one runs, so they weigh most; closeness differs only between
nodes that do not insist on it; a broken L3 group costs speed, not places."""


def score(table: Table, shape: PodShape, waiting: tuple[Waiting, ...] = (), weights: Weights = DEFAULT) -> I64:
    """Return (rows,): 0 to 100, best, for a pod on each node; 0 where its kubelet refuses it.

    Rows that the arrays do not decide are scored as if the kubelet took the pod, from no zone in particular.
    """
    key = ("score", shape, waiting, weights)

    def of_block(block: Block) -> I64:
        asked, placed = asks(block.layout, shape), block.placed(shape)
        return block.recall(key, lambda view, at: _score(view, asked, placed.at(at), waiting, weights))

    return table.gather(np.zeros(table.rows, np.int64), of_block)


def _score(view: View, asked: Asks, placed: Placed, waiting: tuple[Waiting, ...], weights: Weights) -> I64:
    rows = np.flatnonzero(placed.fits != REFUSED)
    found = np.zeros(view.rows, np.int64)
    if not asked.steps:  # it asks for nothing that is given by zones
        found[rows] = BEST
    elif rows.size:
        found[rows] = _weighted(view, asked, placed, rows, waiting, weights)
    return found


def _weighted(
    view: View, asked: Asks, placed: Placed, rows: I64, waiting: tuple[Waiting, ...], weights: Weights
) -> I64:
    layout = view.layout
    others = {index for one in waiting for index in needs(asks(layout, one.shape))}
    done = changes(view, asked, placed, rows, others)
    remains = least_fragmentation(layout, done, waiting) if waiting else fullest(view, rows, done)
    total = remains * weights.remains
    if weights.closeness:
        total += closeness(view, asked, placed, rows) * weights.closeness
    if weights.groups:
        total += whole_groups(layout, done) * weights.groups
    return total // sum(weights)
