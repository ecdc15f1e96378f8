"""In which order domains are filled, and which one is the best to end in.

pkg/cache/scheduler/tas_flavor_snapshot.go sortedDomains, sortedDomainsWithLeader, findBestFitDomainBy,
prioritizeLeaderDomain. BestFit begins with the domain that takes most, and ends in the one that takes just enough;
LeastFreeCapacity begins with the one that takes least. Ties are decided by the order of the level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters


class DomainCounts(NamedTuple):
    """What the domains of a level take, in units of pods or slices; all (domains,)."""

    units: NDArray[np.int64]
    units_with_leader: NDArray[np.int64]
    """Beside the leader."""
    leader_count: NDArray[np.int64]
    affinity_score: NDArray[np.int64]


def slice_counts(counts: DomainStates) -> DomainCounts:
    """Return the room in slices of the outermost layer."""
    return DomainCounts(counts.slice_count, counts.slice_count_with_leader, counts.leader_count, counts.affinity_score)


def pod_counts(counts: DomainStates, slice_size: int) -> DomainCounts:
    """Return the room in slices of an inner layer's size, or in pods."""
    return DomainCounts(
        counts.pod_count // slice_size,
        counts.pod_count_with_leader // slice_size,
        counts.leader_count,
        counts.affinity_score,
    )


def sorted_domains(
    counts: DomainStates, domains: NDArray[np.int64], shape: TopologyAssignmentParameters
) -> NDArray[np.int64]:
    """Return the domains in the order in which workers fill them."""
    slices = counts.slice_count[domains]
    keys = [domains, counts.pod_count[domains], slices if shape.least_free_capacity else -slices]
    if shape.by_affinity_score:
        keys.append(-counts.affinity_score[domains])
    return domains[np.lexsort(keys)]


def sorted_domains_with_leader(
    counts: DomainStates, domains: NDArray[np.int64], shape: TopologyAssignmentParameters
) -> NDArray[np.int64]:
    """Return the domains in the order in which one that takes all, the leader too, is looked for."""
    return domains[np.lexsort([domains, *(key[domains] for key in _leader_keys(counts, shape))])]


def first_domain_with_leader(counts: DomainStates, shape: TopologyAssignmentParameters) -> int:
    """Return the first of all domains of a level in that order."""
    found = np.arange(len(counts.pod_count))
    for key in reversed(_leader_keys(counts, shape)):
        values = key[found]
        found = found[values == values.min()]
    return int(found[0])


def _leader_keys(counts: DomainStates, shape: TopologyAssignmentParameters) -> list[NDArray[np.int64]]:
    """Return by what the domains of a level are ordered, the least significant first."""
    slices = counts.slice_count_with_leader if shape.least_free_capacity else -counts.slice_count_with_leader
    return [
        counts.pod_count_with_leader,
        slices,
        *([-counts.affinity_score] if shape.by_affinity_score else []),
        -counts.leader_count,
    ]


def prioritize_leader_domain(
    counts: DomainCounts, order: NDArray[np.int64], need: int, shape: TopologyAssignmentParameters
) -> NDArray[np.int64]:
    """Return an order that begins with the first domain whose loss by the leader leaves room for all."""
    if not shape.has_leader or len(order) < 2:
        return order
    alone, beside = counts.units[order], counts.units_with_leader[order]
    fits = (counts.leader_count[order] > 0) & (alone.sum() - (alone - beside) >= need)
    place = int(fits.argmax())
    return np.concatenate([order[place : place + 1], order[:place], order[place + 1 :]]) if fits[place] else order


def find_best_fit_domain(
    available_units: NDArray[np.int64],
    counts: DomainCounts,
    order: NDArray[np.int64],
    need: int,
    shape: TopologyAssignmentParameters,
) -> int:
    """Return the first of the domains with the least room that is enough; the first of all where none has enough.

    Only those are looked at that have the score of the first.
    """
    if shape.by_affinity_score:
        scores = counts.affinity_score[order]
        order = order[: int(np.append(scores != scores[0], True).argmax())]
    amounts = available_units[order]
    enough = np.where(amounts >= need, amounts, np.iinfo(np.int64).max)
    return int(order[int(enough.argmin())])


def find_best_fit_leader_domain(
    counts: DomainCounts, order: NDArray[np.int64], need: int, shape: TopologyAssignmentParameters
) -> int:
    """Return the best fit of the domains that have room for the leader."""
    have = np.where(counts.leader_count > 0, counts.units_with_leader, -1)
    return find_best_fit_domain(have, counts, order, need, shape)
