"""The order in which domains are filled, and the domain that fits best.

pkg/cache/scheduler/tas_flavor_snapshot.go sortedDomains, sortedDomainsWithLeader, findBestFitDomainBy,
prioritizeLeaderDomain. BestFit starts with the domains that hold the most, and ends in the one that holds just enough.
LeastFreeCapacity starts with the domains that hold the least. The order of the level breaks ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters


class DomainCounts(NamedTuple):
    """How many slices or pods fit in the domains of a level, and their scores; all arrays are (domains,)."""

    units: NDArray[np.int64]
    units_with_leader: NDArray[np.int64]
    leader_count: NDArray[np.int64]
    affinity_score: NDArray[np.int64]


def slice_counts(states: DomainStates) -> DomainCounts:
    """Return the counts in slices of the outermost layer."""
    return DomainCounts(states.slice_count, states.slice_count_with_leader, states.leader_count, states.affinity_score)


def pod_counts(states: DomainStates, slice_size: int) -> DomainCounts:
    """Return the counts in slices of an inner layer's size, or in pods."""
    return DomainCounts(
        states.pod_count // slice_size,
        states.pod_count_with_leader // slice_size,
        states.leader_count,
        states.affinity_score,
    )


def sorted_domains(
    states: DomainStates, domains: NDArray[np.int64], params: TopologyAssignmentParameters
) -> NDArray[np.int64]:
    """Return the domains in the order in which workers fill them."""
    slices = states.slice_count[domains]
    sort_keys = [domains, states.pod_count[domains], slices if params.least_free_capacity else -slices]
    if params.by_affinity_score:
        sort_keys.append(-states.affinity_score[domains])
    return domains[np.lexsort(sort_keys)]


def sorted_domains_with_leader(
    states: DomainStates, domains: NDArray[np.int64], params: TopologyAssignmentParameters
) -> NDArray[np.int64]:
    """Return the domains in the order of the search for one domain that holds the leader and all pods."""
    return domains[np.lexsort([domains, *(key[domains] for key in _leader_sort_keys(states, params))])]


def first_domain_with_leader(states: DomainStates, params: TopologyAssignmentParameters) -> int:
    """Return the first domain of a level in the order of `sorted_domains_with_leader`."""
    domains = np.arange(len(states.pod_count))
    for key in reversed(_leader_sort_keys(states, params)):
        values = key[domains]
        domains = domains[values == values.min()]
    return int(domains[0])


def _leader_sort_keys(states: DomainStates, params: TopologyAssignmentParameters) -> list[NDArray[np.int64]]:
    """Return the sort keys of a level's domains, the least significant first."""
    slices = states.slice_count_with_leader if params.least_free_capacity else -states.slice_count_with_leader
    scores = [-states.affinity_score] if params.by_affinity_score else []
    return [states.pod_count_with_leader, slices, *scores, -states.leader_count]


def prioritize_leader_domain(
    counts: DomainCounts, order: NDArray[np.int64], required: int, params: TopologyAssignmentParameters
) -> NDArray[np.int64]:
    """Return the order with the leader's domain first.

    This is the first domain that holds the leader and still leaves the required units in all domains together.
    """
    if not params.has_leader or len(order) < 2:
        return order
    units, units_with_leader = counts.units[order], counts.units_with_leader[order]
    fits = (counts.leader_count[order] > 0) & (units.sum() - (units - units_with_leader) >= required)
    i = int(fits.argmax())
    return np.concatenate([order[i : i + 1], order[:i], order[i + 1 :]]) if fits[i] else order


def find_best_fit_domain(
    units: NDArray[np.int64],
    counts: DomainCounts,
    order: NDArray[np.int64],
    required: int,
    params: TopologyAssignmentParameters,
) -> int:
    """Return the first domain with the fewest units that suffice; the first domain in order if none suffices.

    With affinity scores, only the leading domains that share the first domain's score are considered.
    """
    if params.by_affinity_score:
        scores = counts.affinity_score[order]
        order = order[: int(np.append(scores != scores[0], True).argmax())]
    candidates = units[order]
    sufficient = np.where(candidates >= required, candidates, np.iinfo(np.int64).max)
    return int(order[int(sufficient.argmin())])


def find_best_fit_leader_domain(
    counts: DomainCounts, order: NDArray[np.int64], required: int, params: TopologyAssignmentParameters
) -> int:
    """Return the best fit among the domains that hold the leader."""
    units = np.where(counts.leader_count > 0, counts.units_with_leader, -1)
    return find_best_fit_domain(units, counts, order, required, params)
