"""The level and the domains that hold all pods (tas_flavor_snapshot.go findLevelWithFitDomains)."""

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
    """Domains of one level that hold all pods, in the order in which they are filled."""

    level: int
    domains: NDArray[np.int64]


class InsufficientLevel(NamedTuple):
    """The level whose domains hold too few slices."""

    level: int
    fit_count: int
    """Slices that fit: in the best domain if one domain must hold all, otherwise in all domains together."""


def find_level_with_fit_domains(
    levels: Sequence[DomainStates], params: TopologyAssignmentParameters
) -> FitDomains | InsufficientLevel:
    """Return the domains that hold all pods, at the requested level or, if none does, at a higher level.

    For a required level, a domain is found if and only if one exists. For other requests, the same is true of a set of
    domains.
    """
    level = params.requested_level
    while True:
        states = levels[level]
        if not len(states.pod_count):
            return InsufficientLevel(level, 0)
        domain = _find_one_domain(states, params)
        if domain is not None:
            return FitDomains(level, np.array([domain]))
        if params.required:
            return InsufficientLevel(level, int(states.slice_count[first_domain_with_leader(states, params)]))
        if level == 0 or params.unconstrained:
            domains = _find_several_domains(states, params)
            return InsufficientLevel(level, domains) if isinstance(domains, int) else FitDomains(level, domains)
        level -= 1


def _find_one_domain(states: DomainStates, params: TopologyAssignmentParameters) -> int | None:
    """Return the domain that holds all pods: the best fit, or the first one for LeastFreeCapacity."""
    counts = slice_counts(states)
    fits = (counts.units_with_leader >= params.slice_count) & (counts.leader_count >= int(params.has_leader))
    candidates = np.flatnonzero(fits)
    if not candidates.size:
        return None
    order = sorted_domains_with_leader(states, candidates, params)
    if params.least_free_capacity:
        return int(order[0])
    if params.by_affinity_score and not params.required and first_domain_with_leader(states, params) != order[0]:
        return None  # the domain with the best score is too small; a higher one may hold enough with that score
    return _find_best_fit(counts, order, params.slice_count, params, has_leader=params.has_leader)


def _find_several_domains(states: DomainStates, params: TopologyAssignmentParameters) -> NDArray[np.int64] | int:
    """Return domains that together hold all pods, or the number of slices that fit in all domains."""
    counts, remaining = slice_counts(states), params.slice_count
    total = int(counts.units.sum())
    if not params.has_leader and total < remaining:
        return total
    order = sorted_domains_with_leader(states, np.arange(len(states.pod_count)), params)
    domains: list[int] = []
    if params.has_leader:
        order = prioritize_leader_domain(counts, order, remaining, params)
        if counts.leader_count[order[0]] == 0:
            return 0
        first_suffices = not params.least_free_capacity and counts.units_with_leader[order[0]] >= remaining
        domains = [
            _find_best_fit(counts, order, remaining, params, has_leader=True) if first_suffices else int(order[0])
        ]
        remaining -= int(counts.units_with_leader[domains[0]])
        order = sorted_domains(states, order[1:], params)
    if remaining <= 0:
        return np.array(domains)
    cumulative = np.cumsum(counts.units[order])
    last = int(np.searchsorted(cumulative, remaining))
    if last == len(order):
        return params.slice_count - remaining + (int(cumulative[-1]) if last else 0)
    last_units = remaining - (int(cumulative[last - 1]) if last else 0)
    last_domain = (
        int(order[last])
        if params.least_free_capacity
        else _find_best_fit(counts, order[last:], last_units, params, has_leader=False)
    )
    return np.array([*domains, *order[:last].tolist(), last_domain])


def _find_best_fit(
    counts: DomainCounts,
    order: NDArray[np.int64],
    required: int,
    params: TopologyAssignmentParameters,
    *,
    has_leader: bool,
) -> int:
    if has_leader:
        return find_best_fit_leader_domain(counts, order, required, params)
    return find_best_fit_domain(counts.units, counts, order, required, params)
