"""The number of pods and slices that fit in each domain: counted in the leaves, then summed level by level.

pkg/cache/scheduler/tas_flavor_snapshot.go domainState, fillInCounts, fillInCountsHelper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_INFINITE = np.iinfo(np.int64).max


class LeafCounts(NamedTuple):
    """What fits in the leaves, and their scores; all arrays are (leaves,)."""

    pod_count: NDArray[np.int64]
    pod_count_with_leader: NDArray[np.int64]
    """Pods that fit with the leader; equal to `pod_count` if the leader does not fit, or without a leader."""
    leader_count: NDArray[np.int64]
    """1 if the leader fits, otherwise 0."""
    affinity_score: NDArray[np.int64]


class DomainStates(NamedTuple):
    """What fits in the domains of one level, and their scores; all arrays are (domains,), in the order of the level."""

    pod_count: NDArray[np.int64]
    """Pods that fit; below the slice level, only those in whole inner slices."""
    slice_count: NDArray[np.int64]
    """Slices of the outermost layer that fit; 0 below the slice level."""
    pod_count_with_leader: NDArray[np.int64]
    """Pods that fit with the leader in the leaf where it costs least; 0 if it fits in no leaf of the domain."""
    slice_count_with_leader: NDArray[np.int64]
    leader_count: NDArray[np.int64]
    affinity_score: NDArray[np.int64]
    """Sum of the leaves' scores."""


def fill_in_counts(
    leaves: LeafCounts, child_offsets: Sequence[NDArray[np.int64]], level: int, params: TopologyAssignmentParameters
) -> list[DomainStates]:
    """Return the states of a level and of all lower levels; `child_offsets`: the tree's, from that level down."""
    levels = [_leaf_states(leaves, level + len(child_offsets), params)]
    for i in range(len(child_offsets) - 1, -1, -1):
        levels.append(_sum_children(levels[-1], child_offsets[i][:-1], level + i, params))
    return levels[::-1]


def update_counts(
    levels: Sequence[DomainStates],
    tree: TopologyTree,
    domains: NDArray[np.int64],
    leaves: LeafCounts,
    params: TopologyAssignmentParameters,
) -> None:
    """Update the states of all levels in place after some leaves have changed; scores do not change.

    `domains`: the changed leaves, ascending; `leaves`: their new counts.
    """
    lowest = len(levels) - 1
    _write_states(levels[lowest], domains, _leaf_states(leaves, lowest, params))
    for level in range(lowest - 1, -1, -1):
        domains = np.unique(tree.parents[level + 1][domains])
        children, first_children = _children(tree.child_offsets[level], domains)
        child_states = DomainStates(*(counts[children] for counts in levels[level + 1]))
        _write_states(levels[level], domains, _sum_children(child_states, first_children, level, params))


def _write_states(states: DomainStates, domains: NDArray[np.int64], new_states: DomainStates) -> None:
    """Write the states, except the scores, of some domains of a level."""
    for counts, new_counts in zip(states[:-1], new_states[:-1], strict=True):
        counts[domains] = new_counts


def _children(
    child_offsets: NDArray[np.int64], domains: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the children of some domains, and the index in that list of each domain's first child."""
    sizes = child_offsets[domains + 1] - child_offsets[domains]
    first_children = np.cumsum(sizes) - sizes
    children = np.arange(int(sizes.sum())) + np.repeat(child_offsets[domains] - first_children, sizes)
    return children, first_children


def _leaf_states(leaves: LeafCounts, level: int, params: TopologyAssignmentParameters) -> DomainStates:
    zeros = np.zeros_like(leaves.pod_count)
    is_slice_level = level == params.slice_level
    return DomainStates(
        leaves.pod_count,
        leaves.pod_count // params.slice_size if is_slice_level else zeros,
        leaves.pod_count_with_leader,
        leaves.pod_count_with_leader // params.slice_size if is_slice_level else zeros,
        leaves.leader_count,
        leaves.affinity_score,
    )


def _sum_children(
    children: DomainStates, first_children: NDArray[np.int64], level: int, params: TopologyAssignmentParameters
) -> DomainStates:
    """Return the states of a level, computed from the states one level below (fillInCountsHelper)."""
    if not len(first_children):
        return DomainStates(*(first_children for _ in DomainStates._fields))
    slice_size = params.slice_size_at_level.get(level + 1, 1)
    pod_count = children.pod_count // slice_size * slice_size
    pod_count_with_leader = children.pod_count_with_leader // slice_size * slice_size
    leader_fits = children.leader_count > 0 if params.has_leader else np.ones(len(pod_count), np.bool_)
    leader_fits_in_parent = np.logical_or.reduceat(leader_fits, first_children)
    pods, pods_with_leader = _sum_with_leader(pod_count, pod_count_with_leader, leader_fits, first_children)
    if level == params.slice_level:
        slices, slices_with_leader = pods // params.slice_size, pods_with_leader // params.slice_size
    else:
        slices, slices_with_leader = _sum_with_leader(
            children.slice_count, children.slice_count_with_leader, leader_fits, first_children
        )
    return DomainStates(
        pods,
        slices,
        np.where(leader_fits_in_parent, pods_with_leader, 0),
        np.where(leader_fits_in_parent, slices_with_leader, 0),
        np.maximum.reduceat(children.leader_count, first_children),
        np.add.reduceat(children.affinity_score, first_children),
    )


def _sum_with_leader(
    counts: NDArray[np.int64],
    counts_with_leader: NDArray[np.int64],
    leader_fits: NDArray[np.bool_],
    first_children: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sums over children, and the sums with the leader in the child where it costs least."""
    total = np.add.reduceat(counts, first_children)
    leader_cost = np.minimum.reduceat(np.where(leader_fits, counts - counts_with_leader, _INFINITE), first_children)
    return total, total - leader_cost
