"""At which level, and in which of its domains, the pods fit.

pkg/cache/scheduler/tas_flavor_snapshot.go findLevelWithFitDomains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.placement.domain_order import (
    find_best_fit_domain,
    find_best_fit_leader_domain,
    first_domain_with_leader,
    prioritize_leader_domain,
    slice_counts,
    sorted_domains,
    sorted_domains_with_leader,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.placement.domain_order import DomainCounts
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters


class FitDomains(NamedTuple):
    """Domains of one level that take all, in the order in which they are filled."""

    level: int
    domains: NDArray[np.int64]


class InsufficientLevel(NamedTuple):
    """The level where too little fits."""

    level: int
    fit_count: int
    """How many fit: in the best domain where one must hold all, else in all together."""


def find_level_with_fit_domains(
    levels: Sequence[DomainStates], shape: TopologyAssignmentParameters
) -> FitDomains | InsufficientLevel:
    """Return the domains that take all pods: one of the level where the search begins, or further out if need be.

    A required domain is found exactly if there is one; the same is true of several domains for all others.
    """
    level = shape.requested_level
    while True:
        counts = levels[level]
        if not len(counts.pod_count):
            return InsufficientLevel(level, 0)
        one = _one(counts, shape)
        if one is not None:
            return FitDomains(level, np.array([one]))
        if shape.required:
            return InsufficientLevel(level, int(counts.slice_count[first_domain_with_leader(counts, shape)]))
        if level == 0 or shape.unconstrained:
            several = _several(counts, shape)
            return InsufficientLevel(level, several) if isinstance(several, int) else FitDomains(level, several)
        level -= 1


def _one(counts: DomainStates, shape: TopologyAssignmentParameters) -> int | None:
    """Return the domain that takes all and fits best, or, where least is free, the first one."""
    room = slice_counts(counts)
    able = np.flatnonzero((room.units_with_leader >= shape.slice_count) & (room.leader_count >= int(shape.has_leader)))
    if not able.size:
        return None
    order = sorted_domains_with_leader(counts, able, shape)
    if shape.least_free_capacity:
        return int(order[0])
    if shape.by_affinity_score and not shape.required and first_domain_with_leader(counts, shape) != order[0]:
        return None  # the domain of the best score has too little room: one further out may have enough of that score
    return _best(room, order, shape.slice_count, shape, leader=shape.has_leader)


def _several(counts: DomainStates, shape: TopologyAssignmentParameters) -> NDArray[np.int64] | int:
    """Return the domains that take all together, or how many slices those of the level take."""
    room, need = slice_counts(counts), shape.slice_count
    together = int(room.units.sum())
    if not shape.has_leader and together < need:
        return together
    order = sorted_domains_with_leader(counts, np.arange(len(counts.pod_count)), shape)
    chosen: list[int] = []
    if shape.has_leader:
        order = prioritize_leader_domain(room, order, need, shape)
        if room.leader_count[order[0]] == 0:
            return 0
        enough = not shape.least_free_capacity and room.units_with_leader[order[0]] >= need
        chosen = [_best(room, order, need, shape, leader=True) if enough else int(order[0])]
        need -= int(room.units_with_leader[chosen[0]])
        order = sorted_domains(counts, order[1:], shape)
    if need <= 0:
        return np.array(chosen)
    filled = np.cumsum(room.units[order])
    last = int(np.searchsorted(filled, need))
    if last == len(order):
        return shape.slice_count - need + (int(filled[-1]) if last else 0)
    remains = need - (int(filled[last - 1]) if last else 0)
    end = int(order[last]) if shape.least_free_capacity else _best(room, order[last:], remains, shape, leader=False)
    return np.array([*chosen, *order[:last].tolist(), end])


def _best(
    room: DomainCounts, order: NDArray[np.int64], need: int, shape: TopologyAssignmentParameters, *, leader: bool
) -> int:
    return (
        find_best_fit_leader_domain(room, order, need, shape)
        if leader
        else find_best_fit_domain(room.units, room, order, need, shape)
    )
