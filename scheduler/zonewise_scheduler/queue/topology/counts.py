"""How many pods and slices each domain of each level could take: worked out in the leaves and added up.

pkg/cache/scheduler/tas_flavor_snapshot.go fillInCounts, fillInCountsHelper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.shape import Shape
    from zonewise_scheduler.queue.topology.tree import Tree

_FAR = np.iinfo(np.int64).max


class Leaves(NamedTuple):
    """What the leaves could take; all (leaves,)."""

    pods: NDArray[np.int64]
    beside: NDArray[np.int64]
    """Pods beside the leader; where that has no room, or there is none, as many as without it."""
    leaders: NDArray[np.int64]
    """1 where the leader has room, else 0."""
    score: NDArray[np.int64]


class Counts(NamedTuple):
    """What the domains of one level could take; all (domains,), in the order of the level."""

    pods: NDArray[np.int64]
    """Below the outermost slices' level: pods of whole inner slices."""
    slices: NDArray[np.int64]
    """Of the outermost layer; 0 below its level."""
    beside: NDArray[np.int64]
    """Pods beside the leader, where that costs least; 0 where no leaf of the domain has room for it."""
    slices_beside: NDArray[np.int64]
    leaders: NDArray[np.int64]
    score: NDArray[np.int64]
    """The sum of the leaves' scores."""


def roll_up(leaves: Leaves, begins: Sequence[NDArray[np.int64]], level: int, shape: Shape) -> list[Counts]:
    """Return the counts of a level and of all further in; begins as of a Tree, from that level on."""
    found = [_of_leaves(leaves, level + len(begins), shape)]
    for at in range(len(begins) - 1, -1, -1):
        found.append(_of_parents(found[-1], begins[at][:-1], level + at, shape))
    return found[::-1]


def renew(levels: Sequence[Counts], tree: Tree, rows: NDArray[np.int64], leaves: Leaves, shape: Shape) -> None:
    """Write what some leaves of a tree, ascending, take now into the counts of all levels; scores are as they were."""
    inmost = len(levels) - 1
    _write(levels[inmost], rows, _of_leaves(leaves, inmost, shape))
    for level in range(inmost - 1, -1, -1):
        rows = np.unique(tree.parents[level + 1][rows])
        children, firsts = _children(tree.begins[level], rows)
        inner = Counts(*(part[children] for part in levels[level + 1]))
        _write(levels[level], rows, _of_parents(inner, firsts, level, shape))


def _write(counts: Counts, rows: NDArray[np.int64], new: Counts) -> None:
    """Write the counts of some domains of a level."""
    for part, own in zip(counts[:-1], new[:-1], strict=True):
        part[rows] = own


def _children(begins: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the domains one level in of some domains, and the places of the first ones."""
    sizes = begins[rows + 1] - begins[rows]
    firsts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + np.repeat(begins[rows] - firsts, sizes), firsts


def _of_leaves(leaves: Leaves, level: int, shape: Shape) -> Counts:
    none = np.zeros_like(leaves.pods)
    whole = level == shape.slice_level
    slices = leaves.pods // shape.size if whole else none
    beside = leaves.beside // shape.size if whole else none
    return Counts(leaves.pods, slices, leaves.beside, beside, leaves.leaders, leaves.score)


def _of_parents(inner: Counts, firsts: NDArray[np.int64], level: int, shape: Shape) -> Counts:
    """Return the counts of a level from those one level in; firsts are the places of first children."""
    if not len(firsts):
        return Counts(*(firsts for _ in Counts._fields))
    size = shape.sizes.get(level + 1, 1)
    pods, beside = inner.pods // size * size, inner.beside // size * size
    hosts = inner.leaders > 0 if shape.leader else np.ones(len(pods), np.bool_)
    able = np.logical_or.reduceat(hosts, firsts)
    total, best = _summed(pods, beside, hosts, firsts)
    if level == shape.slice_level:
        slices, slices_best = total // shape.size, best // shape.size
    else:
        slices, slices_best = _summed(inner.slices, inner.slices_beside, hosts, firsts)
    return Counts(
        total,
        slices,
        np.where(able, best, 0),
        np.where(able, slices_best, 0),
        np.maximum.reduceat(inner.leaders, firsts),
        np.add.reduceat(inner.score, firsts),
    )


def _summed(
    alone: NDArray[np.int64], beside: NDArray[np.int64], hosts: NDArray[np.bool_], firsts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sums of children, and those with the leader in the child where it costs least."""
    total = np.add.reduceat(alone, firsts)
    cost = np.minimum.reduceat(np.where(hosts, alone - beside, _FAR), firsts)
    return total, total - cost
