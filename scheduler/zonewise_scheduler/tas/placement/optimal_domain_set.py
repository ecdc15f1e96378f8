"""The fewest domains that take all, and of those the ones with the least to spare.

pkg/cache/scheduler/tas_balanced_placement.go evaluateGreedyAssignment, selectOptimalDomainSetToFit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.placement.domain_order import sorted_domains, sorted_domains_with_leader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters


class GreedyAssignment(NamedTuple):
    """The fewest domains that take all."""

    domain_count: int
    leader_domain: int | None
    """The one with the leader."""
    last_domain: int | None
    """The last and smallest of those without."""


def evaluate_greedy_assignment(
    counts: DomainStates, domains: NDArray[np.int64], shape: TopologyAssignmentParameters
) -> GreedyAssignment | None:
    """Return how many domains it takes, the largest first; None where all have too little room."""
    need, host = shape.slice_count, None
    order = sorted_domains(counts, domains, shape)
    if shape.has_leader:
        order = sorted_domains_with_leader(counts, domains, shape)
        if not len(order) or counts.leader_count[order[0]] == 0:
            return None
        host = int(order[0])
        need -= int(counts.slice_count_with_leader[host])
        order = sorted_domains(counts, order[1:], shape)
    if need <= 0:
        return GreedyAssignment(int(shape.has_leader), host, None)
    slices = counts.slice_count[order]
    last = int(np.searchsorted(np.cumsum(slices), need))
    # of a higher score than others, a domain that was pruned comes before them: it ends the list, as in Kueue
    if last == len(order) or not slices[: last + 1].all():
        return None
    return GreedyAssignment(int(shape.has_leader) + last + 1, host, int(order[last]))


_MOST = 1 << 29
"""Steps of fewest(), the product of domains, chosen ones and pods, which take about a second."""


def select_optimal_domain_set_to_fit(
    counts: DomainStates, domains: Sequence[int], shape: TopologyAssignmentParameters
) -> list[int] | None:
    """Return as few domains as take all, of those the ones with the least room, of those the first in the order given.

    None where all have too little room, and where it would take too long to tell.
    """
    found = evaluate_greedy_assignment(counts, np.array(domains, np.int64), shape)
    most = (
        found.domain_count * max((int(counts.pod_count[domain]) for domain in domains), default=0)
        if found is not None
        else 0
    )
    if found is None or len(domains) * (found.domain_count + 1) * 2 * max(most, shape.pod_count) > _MOST:
        return None
    steps = _Steps(counts, max(most - shape.pod_count, 0), found.domain_count, shape)
    for domain in domains:
        steps.add(domain)
    return steps.chosen()


class _Steps:
    """What remains of pods, and whether of the leader, after any so many of the domains so far."""

    def __init__(self, counts: DomainStates, spare: int, number: int, shape: TopologyAssignmentParameters) -> None:
        self._counts = counts
        self._zero = spare
        """The place of 0 remaining pods; as many may be to spare."""
        self.via = np.full((number + 1, 2, spare + shape.pod_count + 1), -1, np.int32)
        """(number of domains, leader remains, place of remaining pods): 2 * the last domain, + 1 if it has the leader.

        -1: it cannot be; the first way to get there stays.
        """
        self.via[0, int(shape.has_leader), -1] = 0

    def add(self, domain: int) -> None:
        """Choose one more domain, or do not."""
        goes_on = self.via[:-1] >= 0
        goes_on[:, 0, : self._zero + 1] = False
        if self._counts.slice_count[domain]:
            for leader in (0, 1):
                self._reach(goes_on[:, leader], leader, int(self._counts.pod_count[domain]), 2 * domain)
        if self._counts.leader_count[domain]:
            self._reach(goes_on[:, 1], 0, int(self._counts.pod_count_with_leader[domain]), 2 * domain + 1)

    def _reach(self, goes_on: NDArray[np.bool_], leader: int, pods: int, code: int) -> None:
        via = self.via[1:, leader, : self.via.shape[2] - pods]
        via[goes_on[:, pods:] & (via < 0)] = code

    def chosen(self) -> list[int] | None:
        """Return the domains that spare least, in the order in which they were added; None where there are none."""
        number, leader = len(self.via) - 1, 0
        ends = np.flatnonzero(self.via[number, 0, : self._zero + 1] >= 0)
        if not len(ends):
            return None
        place, found = int(ends[-1]), list[int]()
        for at in range(number, 0, -1):
            domain, with_leader = divmod(int(self.via[at, leader, place]), 2)
            place += int((self._counts.pod_count_with_leader if with_leader else self._counts.pod_count)[domain])
            leader = leader or with_leader
            found.append(domain)
        return found[::-1]
