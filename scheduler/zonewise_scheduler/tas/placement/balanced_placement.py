"""Balanced placement: of the fewest domains that take all, none gets much more than another.

pkg/cache/scheduler/tas_balanced_placement.go; KEP-2724. For a preferred level only. The domains within one of the next
level out are looked at together. The threshold is the most slices that each of the chosen domains gets at least;
domains that cannot take so many are pruned. Where it comes to nothing, the search goes on as without it.
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
    """Where the descent begins, and the counts that it goes by."""

    levels: list[DomainStates]
    fit: FitDomains


class BalancedCandidate(NamedTuple):
    """Domains of the preferred level within one domain, as they are with what is below the threshold pruned."""

    levels: list[DomainStates]
    domains: NDArray[np.int64]
    threshold: int
    domain_count: int
    """How many of the domains it takes."""


def find_balanced_placement(
    tree: TopologyTree, levels: Sequence[DomainStates], shape: TopologyAssignmentParameters
) -> BalancedPlacement | None:
    """Return a balanced beginning; None where there is none."""
    best: BalancedCandidate | None = None
    for begin, end in _groups(tree, shape.requested_level) if shape.slice_count else ():
        one = _candidate(tree, levels, shape, (begin, end), best.threshold if best is not None else 1)
        if one is not None and (
            best is None or (one.threshold, -one.domain_count) > (best.threshold, -best.domain_count)
        ):
            best = one
    return _spread(tree, best, shape) if best is not None else None


def _groups(tree: TopologyTree, level: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a level's domains that are within one of the next level out."""
    if level == 0:
        yield 0, len(tree.values[0])
        return
    begins = tree.child_offsets[level - 1].tolist()
    yield from pairwise(begins)


def _candidate(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    shape: TopologyAssignmentParameters,
    group: tuple[int, int],
    least: int,
) -> BalancedCandidate | None:
    """Return what a group comes to if its threshold is at least so high."""
    lower = tree.descendant_ranges(shape.requested_level, *group)[
        : 2 if shape.requested_level < shape.slice_level else 1
    ][-1]
    spread = (
        levels[shape.requested_level + 1]
        if shape.requested_level < shape.slice_level
        else levels[shape.requested_level]
    )
    chosen = evaluate_greedy_assignment(spread, np.arange(*lower), shape)
    if chosen is None:
        return None
    threshold = _threshold(spread, chosen, shape)
    thresholds = [threshold]
    if (
        shape.has_leader and chosen.last_domain is not None
    ):  # with room for the leader in the last of them, it may fit yet
        thresholds.append(min(threshold, int(spread.slice_count_with_leader[chosen.last_domain])))
    for one in dict.fromkeys(thresholds):
        if one < least:
            break
        pruned = _pruned(tree, levels, shape, group, one)
        found = evaluate_greedy_assignment(pruned[shape.requested_level], np.arange(*group), shape)
        if found is not None:
            return BalancedCandidate(pruned, np.arange(*group), one, found.domain_count)
    return None


def _threshold(counts: DomainStates, chosen: GreedyAssignment, shape: TopologyAssignmentParameters) -> int:
    found = shape.slice_count // chosen.domain_count
    if chosen.leader_domain is not None:
        found = min(found, int(counts.slice_count_with_leader[chosen.leader_domain]))
    return found if chosen.last_domain is None else min(found, int(counts.slice_count[chosen.last_domain]))


def _pruned(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    shape: TopologyAssignmentParameters,
    group: tuple[int, int],
    threshold: int,
) -> list[DomainStates]:
    """Return the counts with a group's domains, and their children, emptied where they are below the threshold."""
    ranges = tree.descendant_ranges(shape.requested_level, *group)
    begins = [
        tree.child_offsets[shape.requested_level + at][begin : end + 1] - ranges[at + 1][0]
        for at, (begin, end) in enumerate(ranges[:-1])
    ]
    own = [
        DomainStates(*(part[slice(*one)] for part in levels[shape.requested_level + at]))
        for at, one in enumerate(ranges)
    ]
    for at in (1, 0) if begins else (0,):
        leaves = _emptied(own[-1], *_below(own[at], begins[at:], threshold, shape))
        own = fill_in_counts(leaves, begins, shape.requested_level, shape)
    outer = list(levels[: shape.requested_level])
    return outer + [_replaced(levels[shape.requested_level + at], own[at], one) for at, one in enumerate(ranges)]


def _below(
    counts: DomainStates, begins: Sequence[NDArray[np.int64]], threshold: int, shape: TopologyAssignmentParameters
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the leaves of domains that take too little, and of those that do so with the leader."""
    empty = counts.slice_count < threshold
    hostless = (counts.slice_count_with_leader < threshold) & (counts.leader_count > 0) & shape.has_leader
    for one in begins:
        empty, hostless = np.repeat(empty, np.diff(one)), np.repeat(hostless, np.diff(one))
    return empty, hostless


def _emptied(counts: DomainStates, empty: NDArray[np.bool_], hostless: NDArray[np.bool_]) -> LeafCounts:
    """Return leaves some of which take nothing, and others no leader."""
    no_leader = empty | hostless
    return LeafCounts(
        np.where(empty, 0, counts.pod_count),
        np.where(no_leader, 0, counts.pod_count_with_leader),
        np.where(no_leader, 0, counts.leader_count),
        counts.affinity_score,
    )


def _replaced(counts: DomainStates, own: DomainStates, at: tuple[int, int]) -> DomainStates:
    """Return the counts of a level with those of a range put in."""
    begin, end = at
    return DomainStates(
        *(np.concatenate([part[:begin], new, part[end:]]) for part, new in zip(counts, own, strict=True))
    )


# --- the domains that are chosen


def _spread(
    tree: TopologyTree, one: BalancedCandidate, shape: TopologyAssignmentParameters
) -> BalancedPlacement | None:
    """Choose domains of the preferred level, and give the children of these, or themselves, their slices."""
    level, domains = shape.requested_level, one.domains
    if level < shape.slice_level:
        chosen = select_optimal_domain_set_to_fit(one.levels[level], _by_entropy(tree, one, level), shape)
        if chosen is None:
            return None
        level, domains = level + 1, tree.lower_level_domains(level, np.array(chosen, np.int64))
    counts = place_slices_on_domains_balanced(one.levels[level], domains, one.threshold, shape)
    if counts is None:
        return None
    even, order = counts
    return BalancedPlacement([*one.levels[:level], even, *one.levels[level + 1 :]], FitDomains(level, order))


def place_slices_on_domains_balanced(
    counts: DomainStates, domains: NDArray[np.int64], threshold: int, shape: TopologyAssignmentParameters
) -> tuple[DomainStates, NDArray[np.int64]] | None:
    """Return the counts as if the chosen domains had room for just what they get, and these domains in order.

    Each gets the threshold, and the first ones as many of the others as they take.
    """
    chosen = select_optimal_domain_set_to_fit(counts, domains.tolist(), shape)
    if chosen is None or shape.slice_count < len(chosen) * threshold:
        return None
    order = sorted_domains_with_leader(counts, np.array(chosen, np.int64), shape)
    pods, slices, beside, slices_beside, leaders, score = (part.copy() for part in counts)
    extra = shape.slice_count - len(chosen) * threshold
    for place, domain in enumerate(order.tolist()):
        leader = int(shape.has_leader and place == 0)
        room = counts.slice_count_with_leader[domain] if leader else counts.slice_count[domain]
        more = min(int(room) - threshold, extra) if leader or extra else 0
        extra -= more
        slices[domain] = slices_beside[domain] = threshold + more
        pods[domain] = (threshold + more) * shape.slice_size
        beside[domain], leaders[domain] = pods[domain] - leader, leader
    return None if extra else (DomainStates(pods, slices, beside, slices_beside, leaders, score), order)


def _by_entropy(tree: TopologyTree, one: BalancedCandidate, level: int) -> list[int]:
    """Return a candidate's domains, those first that take most, of those the ones whose children are most alike."""
    counts, inner, begins = one.levels[level], one.levels[level + 1].pod_count, tree.child_offsets[level]

    def key(domain: int) -> tuple[int, int, float, int]:
        entropy = _entropy(inner[begins[domain] : begins[domain + 1]])
        return -int(counts.leader_count[domain]), -int(counts.slice_count_with_leader[domain]), -entropy, domain

    return sorted(one.domains.tolist(), key=key)


def _entropy(pods: NDArray[np.int64]) -> float:
    """Return Shannon's entropy of the pods that children take, in bits."""
    shares = np.sort(pods[pods > 0]) / max(int(pods.sum()), 1)  # sorted: equal ones have equal sums, to the last bit
    return float(-(shares * np.log2(shares)).sum())
