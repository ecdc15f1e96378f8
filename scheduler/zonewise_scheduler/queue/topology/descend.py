"""From the domains that take all pods down to the leaves, with as few domains at each level as can be.

pkg/cache/scheduler/tas_flavor_snapshot.go findTopologyAssignment, phase 2b. Down to the level of the outermost slices,
the children of all chosen domains are filled as one; below it, each domain's pods go to its own children, in multiples
of the inner layer's size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.queue.topology.order import by_room, pods_of, slices_of
from zonewise_scheduler.queue.topology.spend import Share, spend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.queue.topology.counts import Counts
    from zonewise_scheduler.queue.topology.search import Found
    from zonewise_scheduler.queue.topology.shape import Shape
    from zonewise_scheduler.queue.topology.tree import Tree


def descend(tree: Tree, levels: Sequence[Counts], found: Found, shape: Shape, *, apart: bool = False) -> Share | None:
    """Return the pods that leaves get; None where the domains that were found have too little room after all.

    `apart`: each domain's pods go to its own children above the slices' level too.
    """
    need, leader = shape.slices, shape.leader
    share = _in_pods(spend(slices_of(levels[found.level]), found.domains, need, shape, leader=leader), shape.size)
    for level in range(found.level, len(levels) - 1):
        if share is None:
            return None
        if level < shape.slice_level and not apart:
            inner = levels[level + 1]
            order = by_room(inner, tree.children(level, share.domains), shape)
            share = _in_pods(spend(slices_of(inner), order, need, shape, leader=leader), shape.size)
        else:
            share = _each(tree, levels, level, share, shape)
    return share


def _each(tree: Tree, levels: Sequence[Counts], level: int, share: Share, shape: Shape) -> Share | None:
    """Return what the children of each domain get of its pods."""
    inner, begins = levels[level + 1], tree.begins[level]
    size = shape.size if level < shape.slice_level else shape.sizes.get(level + 1, 1)
    room = slices_of(inner) if level < shape.slice_level else pods_of(inner, size)
    found: list[Share] = []
    for domain, pods, leaders in zip(share.domains.tolist(), share.units.tolist(), share.leaders.tolist(), strict=True):
        if pods or leaders:
            order = by_room(inner, np.arange(int(begins[domain]), int(begins[domain + 1])), shape)
            one = spend(room, order, pods // size, shape, leader=leaders > 0)
            if one is None:
                return None
            found.append(one)
    if not found:
        return Share(*(np.zeros(0, np.int64) for _ in Share._fields))
    return _in_pods(Share(*(np.concatenate(part) for part in zip(*found, strict=True))), size)


def _in_pods(share: Share | None, size: int) -> Share | None:
    return None if share is None else share._replace(units=share.units * size)
