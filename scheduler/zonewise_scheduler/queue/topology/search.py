"""At which level, and in which of its domains, the pods fit.

pkg/cache/scheduler/tas_flavor_snapshot.go findLevelWithFitDomains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.topology.order import (
    best_fit,
    best_host,
    by_leader,
    by_room,
    first_by_leader,
    leader_first,
    slices_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.counts import Counts
    from zonewise_scheduler.queue.topology.order import Room
    from zonewise_scheduler.queue.topology.shape import Shape


class Found(NamedTuple):
    """Domains of one level that take all, in the order in which they are filled."""

    level: int
    domains: NDArray[np.int64]


class Short(NamedTuple):
    """The level where too little fits."""

    level: int
    slices: int
    """How many fit: in the best domain where one must hold all, else in all together."""


def search(levels: Sequence[Counts], shape: Shape) -> Found | Short:
    """Return the domains that take all pods: one of the level where the search begins, or further out if need be.

    A required domain is found exactly if there is one; the same is true of several domains for all others.
    """
    level = shape.level
    while True:
        counts = levels[level]
        if not len(counts.pods):
            return Short(level, 0)
        one = _one(counts, shape)
        if one is not None:
            return Found(level, np.array([one]))
        if shape.required:
            return Short(level, int(counts.slices[first_by_leader(counts, shape)]))
        if level == 0 or shape.unconstrained:
            several = _several(counts, shape)
            return Short(level, several) if isinstance(several, int) else Found(level, several)
        level -= 1


def _one(counts: Counts, shape: Shape) -> int | None:
    """Return the domain that takes all and fits best, or, where least is free, the first one."""
    room = slices_of(counts)
    able = np.flatnonzero((room.beside >= shape.slices) & (room.leaders >= int(shape.leader)))
    if not able.size:
        return None
    order = by_leader(counts, able, shape)
    if shape.least_free:
        return int(order[0])
    if shape.by_score and not shape.required and first_by_leader(counts, shape) != order[0]:
        return None  # the domain of the best score has too little room: one further out may have enough of that score
    return _best(room, order, shape.slices, shape, leader=shape.leader)


def _several(counts: Counts, shape: Shape) -> NDArray[np.int64] | int:
    """Return the domains that take all together, or how many slices those of the level take."""
    room, need = slices_of(counts), shape.slices
    together = int(room.alone.sum())
    if not shape.leader and together < need:
        return together
    order = by_leader(counts, np.arange(len(counts.pods)), shape)
    chosen: list[int] = []
    if shape.leader:
        order = leader_first(room, order, need, shape)
        if room.leaders[order[0]] == 0:
            return 0
        enough = not shape.least_free and room.beside[order[0]] >= need
        chosen = [_best(room, order, need, shape, leader=True) if enough else int(order[0])]
        need -= int(room.beside[chosen[0]])
        order = by_room(counts, order[1:], shape)
    if need <= 0:
        return np.array(chosen)
    filled = np.cumsum(room.alone[order])
    last = int(np.searchsorted(filled, need))
    if last == len(order):
        return shape.slices - need + (int(filled[-1]) if last else 0)
    remains = need - (int(filled[last - 1]) if last else 0)
    end = int(order[last]) if shape.least_free else _best(room, order[last:], remains, shape, leader=False)
    return np.array([*chosen, *order[:last].tolist(), end])


def _best(room: Room, order: NDArray[np.int64], need: int, shape: Shape, *, leader: bool) -> int:
    return best_host(room, order, need, shape) if leader else best_fit(room.alone, room, order, need, shape)
