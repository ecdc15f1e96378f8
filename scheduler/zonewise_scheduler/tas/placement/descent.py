"""The assignment of pods from the domains that hold them all down to the leaves, with the fewest domains per level.

pkg/cache/scheduler/tas_flavor_snapshot.go findTopologyAssignment (phase 2b), updateCountsToMinimumGeneric,
consumeWithLeadersGeneric. Down to the slice level, the children of all assigned domains are filled as one list. Below
it, each domain's pods go to its own children, in multiples of the inner layer's size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.placement.domain_order import (
    find_best_fit_domain,
    find_best_fit_leader_domain,
    pod_counts,
    prioritize_leader_domain,
    slice_counts,
    sorted_domains,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.placement.domain_order import DomainCounts
    from zonewise_scheduler.tas.placement.fit_domains import FitDomains
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


class DomainAllotment(NamedTuple):
    """The units and leaders that domains of one level are assigned; all arrays are (assigned domains,)."""

    domains: NDArray[np.int64]
    units: NDArray[np.int64]
    """Slices or pods."""
    leader_count: NDArray[np.int64]


def assign_down_to_leaves(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    fit: FitDomains,
    params: TopologyAssignmentParameters,
    *,
    per_domain: bool = False,
) -> DomainAllotment | None:
    """Return the pods of each leaf; None if the domains cannot hold all pods.

    `per_domain`: each domain's pods go to its own children above the slice level as well.
    """
    slice_count, has_leader = params.slice_count, params.has_leader
    counts = slice_counts(levels[fit.level])
    slices = update_counts_to_minimum(counts, fit.domains, slice_count, params, has_leader=has_leader)
    allotment = _in_pods(slices, params.slice_size)
    for level in range(fit.level, len(levels) - 1):
        if allotment is None:
            return None
        if level < params.slice_level and not per_domain:
            lower = levels[level + 1]
            order = sorted_domains(lower, tree.lower_level_domains(level, allotment.domains), params)
            slices = update_counts_to_minimum(slice_counts(lower), order, slice_count, params, has_leader=has_leader)
            allotment = _in_pods(slices, params.slice_size)
        else:
            allotment = _assign_children(tree, levels, level, allotment, params)
    return allotment


def update_counts_to_minimum(
    counts: DomainCounts,
    order: NDArray[np.int64],
    required: int,
    params: TopologyAssignmentParameters,
    *,
    has_leader: bool,
) -> DomainAllotment | None:
    """Return the allotment of the required units to domains, filled in order; None if they hold too few.

    The leader goes to the first domain that leaves enough units for all. The last domain without the leader is the best
    fit.
    """
    if not has_leader:
        return _assign_workers(counts, order, required, params)
    order = prioritize_leader_domain(counts, order, required, params)
    leader_domain = int(order[0])
    if counts.leader_count[leader_domain] == 0:
        return None
    if not params.least_free_capacity and counts.units_with_leader[leader_domain] >= required:
        leader_domain = find_best_fit_leader_domain(counts, order, required, params)
    with_leader = min(int(counts.units_with_leader[leader_domain]), required)
    workers = _EMPTY
    if required > with_leader:
        workers = _assign_workers(counts, order[1:], required - with_leader, params)
    if workers is None:
        return None
    return DomainAllotment(
        *(np.append(first, rest) for first, rest in zip((leader_domain, with_leader, 1), workers, strict=True))
    )


def _assign_workers(
    counts: DomainCounts, order: NDArray[np.int64], required: int, params: TopologyAssignmentParameters
) -> DomainAllotment | None:
    cumulative = np.cumsum(counts.units[order])
    last = int(np.searchsorted(cumulative, required))
    if last == len(order):
        return None
    last_units = required - (int(cumulative[last - 1]) if last else 0)
    last_domain = (
        int(order[last])
        if params.least_free_capacity
        else find_best_fit_domain(counts.units, counts, order[last:], last_units, params)
    )
    domains = np.append(order[:last], last_domain)
    units = np.append(counts.units[order[:last]], last_units)
    return DomainAllotment(domains, units, np.zeros(len(domains), np.int64))


_EMPTY = DomainAllotment(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _assign_children(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    level: int,
    allotment: DomainAllotment,
    params: TopologyAssignmentParameters,
) -> DomainAllotment | None:
    """Return the allotment of each domain's pods to its own children."""
    lower, offsets = levels[level + 1], tree.child_offsets[level]
    above_slices = level < params.slice_level
    slice_size = params.slice_size if above_slices else params.slice_size_at_level.get(level + 1, 1)
    counts = slice_counts(lower) if above_slices else pod_counts(lower, slice_size)
    allotments: list[DomainAllotment] = []
    for domain, pods, leaders in zip(
        allotment.domains.tolist(), allotment.units.tolist(), allotment.leader_count.tolist(), strict=True
    ):
        if pods or leaders:
            children = np.arange(int(offsets[domain]), int(offsets[domain + 1]))
            order = sorted_domains(lower, children, params)
            of_children = update_counts_to_minimum(counts, order, pods // slice_size, params, has_leader=leaders > 0)
            if of_children is None:
                return None
            allotments.append(of_children)
    if not allotments:
        return _EMPTY
    return _in_pods(DomainAllotment(*(np.concatenate(part) for part in zip(*allotments, strict=True))), slice_size)


def _in_pods(allotment: DomainAllotment | None, slice_size: int) -> DomainAllotment | None:
    return None if allotment is None else allotment._replace(units=allotment.units * slice_size)
