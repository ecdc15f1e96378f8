"""Balanced placement: the fewest domains that hold all slices, each with nearly the same number of slices.

pkg/cache/scheduler/tas_balanced_placement.go; KEP-2724. It applies only to a preferred level. Candidates are the
children of one domain of the level above. The threshold is the minimum number of slices that every selected domain
gets; domains that hold fewer are pruned. If no candidate fits, the search continues without balancing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.placement.domain_order import sorted_domains_with_leader
from zonewise_scheduler.tas.placement.fit_domains import FitDomains
from zonewise_scheduler.tas.placement.optimal_domain_set import (
    evaluate_greedy_assignment,
    select_optimal_domain_set_to_fit,
)
from zonewise_scheduler.tas.snapshot.domain_states import DomainStates, LeafCounts, fill_in_counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.placement.optimal_domain_set import GreedyAssignment
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


class BalancedPlacement(NamedTuple):
    """The domains from which the descent begins, and the states that it uses."""

    levels: list[DomainStates]
    fit: FitDomains


class BalancedCandidate(NamedTuple):
    """Domains of the preferred level inside one domain, with the states after pruning below the threshold."""

    levels: list[DomainStates]
    domains: NDArray[np.int64]
    threshold: int
    domain_count: int
    """The smallest number of these domains that can hold all slices."""


def find_balanced_placement(
    tree: TopologyTree, levels: Sequence[DomainStates], params: TopologyAssignmentParameters
) -> BalancedPlacement | None:
    """Return the balanced placement; None if there is none."""
    best: BalancedCandidate | None = None
    for begin, end in _sibling_ranges(tree, params.requested_level) if params.slice_count else ():
        min_threshold = best.threshold if best is not None else 1
        candidate = _find_candidate(tree, levels, params, (begin, end), min_threshold)
        if candidate is not None and (
            best is None or (candidate.threshold, -candidate.domain_count) > (best.threshold, -best.domain_count)
        ):
            best = candidate
    return _apply_balanced_placement(tree, best, params) if best is not None else None


def _sibling_ranges(tree: TopologyTree, level: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of domains in a level that have the same parent."""
    if level == 0:
        yield 0, len(tree.values[0])
        return
    offsets = tree.child_offsets[level - 1].tolist()
    yield from pairwise(offsets)


def _find_candidate(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    params: TopologyAssignmentParameters,
    siblings: tuple[int, int],
    min_threshold: int,
) -> BalancedCandidate | None:
    """Return a candidate with at least the minimum threshold (findBestDomainsForBalancedPlacement)."""
    above_slices = params.requested_level < params.slice_level
    ranges = tree.descendant_ranges(params.requested_level, *siblings)
    filled_domains = np.arange(*ranges[1 if above_slices else 0])
    filled_states = levels[params.requested_level + 1] if above_slices else levels[params.requested_level]
    greedy = evaluate_greedy_assignment(filled_states, filled_domains, params)
    if greedy is None:
        return None
    threshold = _balance_threshold(filled_states, greedy, params)
    thresholds = [threshold]
    if params.has_leader and greedy.last_domain is not None:  # the leader may still fit in the last domain
        thresholds.append(min(threshold, int(filled_states.slice_count_with_leader[greedy.last_domain])))
    for lowered_threshold in dict.fromkeys(thresholds):
        if lowered_threshold < min_threshold:
            break
        pruned = _prune_below_threshold(tree, levels, params, siblings, lowered_threshold)
        domains = np.arange(*siblings)
        greedy = evaluate_greedy_assignment(pruned[params.requested_level], domains, params)
        if greedy is not None:
            return BalancedCandidate(pruned, domains, lowered_threshold, greedy.domain_count)
    return None


def _balance_threshold(states: DomainStates, greedy: GreedyAssignment, params: TopologyAssignmentParameters) -> int:
    """Return the largest number of slices that every domain of a greedy assignment can get (balanceThresholdValue)."""
    threshold = params.slice_count // greedy.domain_count
    if greedy.leader_domain is not None:
        threshold = min(threshold, int(states.slice_count_with_leader[greedy.leader_domain]))
    if greedy.last_domain is None:
        return threshold
    return min(threshold, int(states.slice_count[greedy.last_domain]))


def _prune_below_threshold(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    params: TopologyAssignmentParameters,
    siblings: tuple[int, int],
    threshold: int,
) -> list[DomainStates]:
    """Return states in which siblings, and their children, are empty if they hold fewer slices than the threshold."""
    top = params.requested_level
    ranges = tree.descendant_ranges(top, *siblings)
    offsets = [
        tree.child_offsets[top + i][begin : end + 1] - ranges[i + 1][0] for i, (begin, end) in enumerate(ranges[:-1])
    ]
    states = [
        DomainStates(*(counts[slice(*level_range)] for counts in levels[top + i]))
        for i, level_range in enumerate(ranges)
    ]
    for i in (1, 0) if offsets else (0,):
        leaves = _empty_leaves(states[-1], *_leaves_below_threshold(states[i], offsets[i:], threshold, params))
        states = fill_in_counts(leaves, offsets, top, params)
    higher = list(levels[:top])
    return higher + [_replace_range(levels[top + i], states[i], level_range) for i, level_range in enumerate(ranges)]


def _leaves_below_threshold(
    states: DomainStates,
    child_offsets: Sequence[NDArray[np.int64]],
    threshold: int,
    params: TopologyAssignmentParameters,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the leaves in domains below the threshold, and in domains below it with the leader."""
    below = states.slice_count < threshold
    below_with_leader = (states.slice_count_with_leader < threshold) & (states.leader_count > 0) & params.has_leader
    for offsets in child_offsets:
        sizes = np.diff(offsets)
        below, below_with_leader = np.repeat(below, sizes), np.repeat(below_with_leader, sizes)
    return below, below_with_leader


def _empty_leaves(states: DomainStates, below: NDArray[np.bool_], below_with_leader: NDArray[np.bool_]) -> LeafCounts:
    """Return leaf counts without any pods in some leaves, and without the leader in others."""
    no_leader = below | below_with_leader
    return LeafCounts(
        np.where(below, 0, states.pod_count),
        np.where(no_leader, 0, states.pod_count_with_leader),
        np.where(no_leader, 0, states.leader_count),
        states.affinity_score,
    )


def _replace_range(states: DomainStates, new_states: DomainStates, level_range: tuple[int, int]) -> DomainStates:
    """Return the states of a level, with the states of a range replaced."""
    begin, end = level_range
    return DomainStates(
        *(
            np.concatenate([counts[:begin], new_counts, counts[end:]])
            for counts, new_counts in zip(states, new_states, strict=True)
        )
    )


# --- application of the best candidate


def _apply_balanced_placement(
    tree: TopologyTree, candidate: BalancedCandidate, params: TopologyAssignmentParameters
) -> BalancedPlacement | None:
    """Select domains of the preferred level, and assign slices to their children, or to themselves."""
    level, domains = params.requested_level, candidate.domains
    if level < params.slice_level:
        ordered = _sort_by_entropy(tree, candidate, level)
        selected = select_optimal_domain_set_to_fit(candidate.levels[level], ordered, params)
        if selected is None:
            return None
        level, domains = level + 1, tree.lower_level_domains(level, np.array(selected, np.int64))
    placement = place_slices_on_domains_balanced(candidate.levels[level], domains, candidate.threshold, params)
    if placement is None:
        return None
    states, order = placement
    return BalancedPlacement(
        [*candidate.levels[:level], states, *candidate.levels[level + 1 :]], FitDomains(level, order)
    )


def place_slices_on_domains_balanced(
    states: DomainStates, domains: NDArray[np.int64], threshold: int, params: TopologyAssignmentParameters
) -> tuple[DomainStates, NDArray[np.int64]] | None:
    """Return states in which the selected domains hold exactly their assigned slices, and these domains in order.

    Each domain gets the threshold. The first domains also get as many of the extra slices as fit.
    """
    selected = select_optimal_domain_set_to_fit(states, domains.tolist(), params)
    if selected is None or params.slice_count < len(selected) * threshold:
        return None
    order = sorted_domains_with_leader(states, np.array(selected, np.int64), params)
    pods, slices, pods_with_leader, slices_with_leader, leader_count, score = (counts.copy() for counts in states)
    extra = params.slice_count - len(selected) * threshold
    for i, domain in enumerate(order.tolist()):
        leader = int(params.has_leader and i == 0)
        capacity = states.slice_count_with_leader[domain] if leader else states.slice_count[domain]
        extra_slices = min(int(capacity) - threshold, extra) if leader or extra else 0
        extra -= extra_slices
        slices[domain] = slices_with_leader[domain] = threshold + extra_slices
        pods[domain] = (threshold + extra_slices) * params.slice_size
        pods_with_leader[domain], leader_count[domain] = pods[domain] - leader, leader
    if extra:
        return None
    return DomainStates(pods, slices, pods_with_leader, slices_with_leader, leader_count, score), order


def _sort_by_entropy(tree: TopologyTree, candidate: BalancedCandidate, level: int) -> list[int]:
    """Return the domains sorted by capacity, then by evenness of their children (compareDomainCapacityAndEntropy)."""
    states = candidate.levels[level]
    child_pods, offsets = candidate.levels[level + 1].pod_count, tree.child_offsets[level]

    def sort_key(domain: int) -> tuple[int, int, float, int]:
        entropy = _entropy(child_pods[offsets[domain] : offsets[domain + 1]])
        return -int(states.leader_count[domain]), -int(states.slice_count_with_leader[domain]), -entropy, domain

    return sorted(candidate.domains.tolist(), key=sort_key)


def _entropy(pods: NDArray[np.int64]) -> float:
    """Return Shannon's entropy of the distribution of pods over children, in bits."""
    shares = np.sort(pods[pods > 0]) / max(int(pods.sum()), 1)  # sorted: permutations have bit-identical sums
    return float(-(shares * np.log2(shares)).sum())
