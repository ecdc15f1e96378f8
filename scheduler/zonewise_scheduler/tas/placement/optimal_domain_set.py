"""The smallest set of domains that holds all slices; among such sets, the one with the fewest spare pods.

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
    """The result of filling the largest domains first."""

    domain_count: int
    """The smallest number of domains that can hold all slices."""
    leader_domain: int | None
    last_domain: int | None
    """The smallest filled domain without the leader."""


def evaluate_greedy_assignment(
    states: DomainStates, domains: NDArray[np.int64], params: TopologyAssignmentParameters
) -> GreedyAssignment | None:
    """Return the greedy assignment; None if the domains hold too few slices."""
    required, leader_domain = params.slice_count, None
    order = sorted_domains(states, domains, params)
    if params.has_leader:
        order = sorted_domains_with_leader(states, domains, params)
        if not len(order) or states.leader_count[order[0]] == 0:
            return None
        leader_domain = int(order[0])
        required -= int(states.slice_count_with_leader[leader_domain])
        order = sorted_domains(states, order[1:], params)
    if required <= 0:
        return GreedyAssignment(int(params.has_leader), leader_domain, None)
    slices = states.slice_count[order]
    last = int(np.searchsorted(np.cumsum(slices), required))
    # a pruned domain with a higher score precedes others and ends the list, as in Kueue
    if last == len(order) or not slices[: last + 1].all():
        return None
    return GreedyAssignment(int(params.has_leader) + last + 1, leader_domain, int(order[last]))


_STEP_LIMIT = 1 << 29
"""Bound on domains x selected domains x pods in the search for a set; this many steps take about a second."""


def select_optimal_domain_set_to_fit(
    states: DomainStates, domains: Sequence[int], params: TopologyAssignmentParameters
) -> list[int] | None:
    """Return the fewest domains that hold all slices; ties go to the fewest spare pods, then to the order of `domains`.

    None if the domains hold too few slices, or if the search would exceed the step limit.
    """
    greedy = evaluate_greedy_assignment(states, np.array(domains, np.int64), params)
    if greedy is None:
        return None
    max_pods = greedy.domain_count * max((int(states.pod_count[domain]) for domain in domains), default=0)
    if len(domains) * (greedy.domain_count + 1) * 2 * max(max_pods, params.pod_count) > _STEP_LIMIT:
        return None
    search = _SubsetSearch(states, max(max_pods - params.pod_count, 0), greedy.domain_count, params)
    for domain in domains:
        search.add(domain)
    return search.selected()


class _SubsetSearch:
    """Dynamic programming over the domains: the pods, and the leader, that remain after some domains are selected."""

    def __init__(
        self, states: DomainStates, max_spare: int, domain_count: int, params: TopologyAssignmentParameters
    ) -> None:
        self._states = states
        self._zero = max_spare
        """Index that stands for 0 remaining pods; lower indices stand for spare pods."""
        self.last_steps = np.full((domain_count + 1, 2, max_spare + params.pod_count + 1), -1, np.int32)
        """(selected domains, leader remains, index of remaining pods): 2 * the last domain, + 1 if it has the leader.

        -1: unreachable. The first step to reach a state is kept.
        """
        self.last_steps[0, int(params.has_leader), -1] = 0

    def add(self, domain: int) -> None:
        """Extend all states by a further domain that may be selected."""
        extensible = self.last_steps[:-1] >= 0
        extensible[:, 0, : self._zero + 1] = False
        if self._states.slice_count[domain]:
            for leader in (0, 1):
                self._extend(extensible[:, leader], leader, int(self._states.pod_count[domain]), 2 * domain)
        if self._states.leader_count[domain]:
            pods_with_leader = int(self._states.pod_count_with_leader[domain])
            self._extend(extensible[:, 1], 0, pods_with_leader, 2 * domain + 1)

    def _extend(self, extensible: NDArray[np.bool_], leader: int, pods: int, step: int) -> None:
        targets = self.last_steps[1:, leader, : self.last_steps.shape[2] - pods]
        targets[extensible[:, pods:] & (targets < 0)] = step

    def selected(self) -> list[int] | None:
        """Return the set with the fewest spare pods, in the order in which domains were added; None if none fits."""
        domain_count, leader = len(self.last_steps) - 1, 0
        ends = np.flatnonzero(self.last_steps[domain_count, 0, : self._zero + 1] >= 0)
        if not len(ends):
            return None
        remaining, domains = int(ends[-1]), list[int]()
        for count in range(domain_count, 0, -1):
            domain, with_leader = divmod(int(self.last_steps[count, leader, remaining]), 2)
            pod_count = self._states.pod_count_with_leader if with_leader else self._states.pod_count
            remaining += int(pod_count[domain])
            leader = leader or with_leader
            domains.append(domain)
        return domains[::-1]
