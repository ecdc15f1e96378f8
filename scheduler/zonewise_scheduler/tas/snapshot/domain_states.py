"""How many pods and slices each domain of each level could take: worked out in the leaves and added up.

pkg/cache/scheduler/tas_flavor_snapshot.go fillInCounts, fillInCountsHelper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_FAR = np.iinfo(np.int64).max


class LeafCounts(NamedTuple):
    """What the leaves could take; all (leaves,)."""

    pod_count: NDArray[np.int64]
    pod_count_with_leader: NDArray[np.int64]
    """Pods beside the leader; where that has no room, or there is none, as many as without it."""
    leader_count: NDArray[np.int64]
    """1 where the leader has room, else 0."""
    affinity_score: NDArray[np.int64]


class DomainStates(NamedTuple):
    """What the domains of one level could take; all (domains,), in the order of the level."""

    pod_count: NDArray[np.int64]
    """Below the outermost slices' level: pods of whole inner slices."""
    slice_count: NDArray[np.int64]
    """Of the outermost layer; 0 below its level."""
    pod_count_with_leader: NDArray[np.int64]
    """Pods beside the leader, where that costs least; 0 where no leaf of the domain has room for it."""
    slice_count_with_leader: NDArray[np.int64]
    leader_count: NDArray[np.int64]
    affinity_score: NDArray[np.int64]
    """The sum of the leaves' scores."""


def fill_in_counts(
    leaves: LeafCounts, child_offsets: Sequence[NDArray[np.int64]], level: int, shape: TopologyAssignmentParameters
) -> list[DomainStates]:
    """Return the counts of a level and of all further in; begins as of a Tree, from that level on."""
    found = [_of_leaves(leaves, level + len(child_offsets), shape)]
    for at in range(len(child_offsets) - 1, -1, -1):
        found.append(_of_parents(found[-1], child_offsets[at][:-1], level + at, shape))
    return found[::-1]


def update_counts(
    levels: Sequence[DomainStates],
    tree: TopologyTree,
    rows: NDArray[np.int64],
    leaves: LeafCounts,
    shape: TopologyAssignmentParameters,
) -> None:
    """Write what some leaves of a tree, ascending, take now into the counts of all levels; scores are as they were."""
    inmost = len(levels) - 1
    _write(levels[inmost], rows, _of_leaves(leaves, inmost, shape))
    for level in range(inmost - 1, -1, -1):
        rows = np.unique(tree.parents[level + 1][rows])
        children, firsts = _children(tree.child_offsets[level], rows)
        inner = DomainStates(*(part[children] for part in levels[level + 1]))
        _write(levels[level], rows, _of_parents(inner, firsts, level, shape))


def _write(counts: DomainStates, rows: NDArray[np.int64], new: DomainStates) -> None:
    """Write the counts of some domains of a level."""
    for part, own in zip(counts[:-1], new[:-1], strict=True):
        part[rows] = own


def _children(begins: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the domains one level in of some domains, and the places of the first ones."""
    sizes = begins[rows + 1] - begins[rows]
    firsts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + np.repeat(begins[rows] - firsts, sizes), firsts


def _of_leaves(leaves: LeafCounts, level: int, shape: TopologyAssignmentParameters) -> DomainStates:
    none = np.zeros_like(leaves.pod_count)
    whole = level == shape.slice_level
    slices = leaves.pod_count // shape.slice_size if whole else none
    beside = leaves.pod_count_with_leader // shape.slice_size if whole else none
    return DomainStates(
        leaves.pod_count, slices, leaves.pod_count_with_leader, beside, leaves.leader_count, leaves.affinity_score
    )


def _of_parents(
    inner: DomainStates, firsts: NDArray[np.int64], level: int, shape: TopologyAssignmentParameters
) -> DomainStates:
    """Return the counts of a level from those one level in; firsts are the places of first children."""
    if not len(firsts):
        return DomainStates(*(firsts for _ in DomainStates._fields))
    size = shape.slice_size_at_level.get(level + 1, 1)
    pods, beside = inner.pod_count // size * size, inner.pod_count_with_leader // size * size
    hosts = inner.leader_count > 0 if shape.has_leader else np.ones(len(pods), np.bool_)
    able = np.logical_or.reduceat(hosts, firsts)
    total, best = _summed(pods, beside, hosts, firsts)
    if level == shape.slice_level:
        slices, slices_best = total // shape.slice_size, best // shape.slice_size
    else:
        slices, slices_best = _summed(inner.slice_count, inner.slice_count_with_leader, hosts, firsts)
    return DomainStates(
        total,
        slices,
        np.where(able, best, 0),
        np.where(able, slices_best, 0),
        np.maximum.reduceat(inner.leader_count, firsts),
        np.add.reduceat(inner.affinity_score, firsts),
    )


def _summed(
    alone: NDArray[np.int64], beside: NDArray[np.int64], hosts: NDArray[np.bool_], firsts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sums of children, and those with the leader in the child where it costs least."""
    total = np.add.reduceat(alone, firsts)
    cost = np.minimum.reduceat(np.where(hosts, alone - beside, _FAR), firsts)
    return total, total - cost
