"""Balanced placement: of the fewest domains that take all, none gets much more than another.

pkg/cache/scheduler/tas_balanced_placement.go; KEP-2724. For a preferred level only. The domains within one of the next
level out are looked at together. The threshold is the most slices that each of the chosen domains gets at least;
domains that cannot take so many are pruned. Where it comes to nothing, the search goes on as without it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.topology.counts import Counts, Leaves, roll_up
from zonewise_scheduler.queue.topology.order import by_leader
from zonewise_scheduler.queue.topology.search import Found
from zonewise_scheduler.queue.topology.subset import fewest, greedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.shape import Shape
    from zonewise_scheduler.queue.topology.subset import Greedy
    from zonewise_scheduler.queue.topology.tree import Tree


class Balanced(NamedTuple):
    """Where the descent begins, and the counts that it goes by."""

    levels: list[Counts]
    found: Found


class Candidate(NamedTuple):
    """Domains of the preferred level within one domain, as they are with what is below the threshold pruned."""

    levels: list[Counts]
    domains: NDArray[np.int64]
    threshold: int
    number: int
    """How many of the domains it takes."""


def balance(tree: Tree, levels: Sequence[Counts], shape: Shape) -> Balanced | None:
    """Return a balanced beginning; None where there is none."""
    best: Candidate | None = None
    for begin, end in _groups(tree, shape.level) if shape.slices else ():
        one = _candidate(tree, levels, shape, (begin, end), best.threshold if best is not None else 1)
        if one is not None and (best is None or (one.threshold, -one.number) > (best.threshold, -best.number)):
            best = one
    return _spread(tree, best, shape) if best is not None else None


def _groups(tree: Tree, level: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a level's domains that are within one of the next level out."""
    if level == 0:
        yield 0, len(tree.values[0])
        return
    begins = tree.begins[level - 1].tolist()
    yield from pairwise(begins)


def _candidate(
    tree: Tree, levels: Sequence[Counts], shape: Shape, group: tuple[int, int], least: int
) -> Candidate | None:
    """Return what a group comes to if its threshold is at least so high."""
    lower = tree.below(shape.level, *group)[: 2 if shape.level < shape.slice_level else 1][-1]
    spread = levels[shape.level + 1] if shape.level < shape.slice_level else levels[shape.level]
    chosen = greedy(spread, np.arange(*lower), shape)
    if chosen is None:
        return None
    threshold = _threshold(spread, chosen, shape)
    thresholds = [threshold]
    if shape.leader and chosen.last is not None:  # with room for the leader in the last of them, it may fit yet
        thresholds.append(min(threshold, int(spread.slices_beside[chosen.last])))
    for one in dict.fromkeys(thresholds):
        if one < least:
            break
        pruned = _pruned(tree, levels, shape, group, one)
        found = greedy(pruned[shape.level], np.arange(*group), shape)
        if found is not None:
            return Candidate(pruned, np.arange(*group), one, found.number)
    return None


def _threshold(counts: Counts, chosen: Greedy, shape: Shape) -> int:
    found = shape.slices // chosen.number
    if chosen.host is not None:
        found = min(found, int(counts.slices_beside[chosen.host]))
    return found if chosen.last is None else min(found, int(counts.slices[chosen.last]))


def _pruned(tree: Tree, levels: Sequence[Counts], shape: Shape, group: tuple[int, int], threshold: int) -> list[Counts]:
    """Return the counts with a group's domains, and their children, emptied where they are below the threshold."""
    ranges = tree.below(shape.level, *group)
    begins = [
        tree.begins[shape.level + at][begin : end + 1] - ranges[at + 1][0]
        for at, (begin, end) in enumerate(ranges[:-1])
    ]
    own = [Counts(*(part[slice(*one)] for part in levels[shape.level + at])) for at, one in enumerate(ranges)]
    for at in (1, 0) if begins else (0,):
        leaves = _emptied(own[-1], *_below(own[at], begins[at:], threshold, shape))
        own = roll_up(leaves, begins, shape.level, shape)
    outer = list(levels[: shape.level])
    return outer + [_replaced(levels[shape.level + at], own[at], one) for at, one in enumerate(ranges)]


def _below(
    counts: Counts, begins: Sequence[NDArray[np.int64]], threshold: int, shape: Shape
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the leaves of domains that take too little, and of those that do so with the leader."""
    empty = counts.slices < threshold
    hostless = (counts.slices_beside < threshold) & (counts.leaders > 0) & shape.leader
    for one in begins:
        empty, hostless = np.repeat(empty, np.diff(one)), np.repeat(hostless, np.diff(one))
    return empty, hostless


def _emptied(counts: Counts, empty: NDArray[np.bool_], hostless: NDArray[np.bool_]) -> Leaves:
    """Return leaves some of which take nothing, and others no leader."""
    no_leader = empty | hostless
    return Leaves(
        np.where(empty, 0, counts.pods),
        np.where(no_leader, 0, counts.beside),
        np.where(no_leader, 0, counts.leaders),
        counts.score,
    )


def _replaced(counts: Counts, own: Counts, at: tuple[int, int]) -> Counts:
    """Return the counts of a level with those of a range put in."""
    begin, end = at
    return Counts(*(np.concatenate([part[:begin], new, part[end:]]) for part, new in zip(counts, own, strict=True)))


# --- the domains that are chosen


def _spread(tree: Tree, one: Candidate, shape: Shape) -> Balanced | None:
    """Choose domains of the preferred level, and give the children of these, or themselves, their slices."""
    level, domains = shape.level, one.domains
    if level < shape.slice_level:
        chosen = fewest(one.levels[level], _by_entropy(tree, one, level), shape)
        if chosen is None:
            return None
        level, domains = level + 1, tree.children(level, np.array(chosen, np.int64))
    counts = place_evenly(one.levels[level], domains, one.threshold, shape)
    if counts is None:
        return None
    even, order = counts
    return Balanced([*one.levels[:level], even, *one.levels[level + 1 :]], Found(level, order))


def place_evenly(
    counts: Counts, domains: NDArray[np.int64], threshold: int, shape: Shape
) -> tuple[Counts, NDArray[np.int64]] | None:
    """Return the counts as if the chosen domains had room for just what they get, and these domains in order.

    Each gets the threshold, and the first ones as many of the others as they take.
    """
    chosen = fewest(counts, domains.tolist(), shape)
    if chosen is None or shape.slices < len(chosen) * threshold:
        return None
    order = by_leader(counts, np.array(chosen, np.int64), shape)
    pods, slices, beside, slices_beside, leaders, score = (part.copy() for part in counts)
    extra = shape.slices - len(chosen) * threshold
    for place, domain in enumerate(order.tolist()):
        leader = int(shape.leader and place == 0)
        room = counts.slices_beside[domain] if leader else counts.slices[domain]
        more = min(int(room) - threshold, extra) if leader or extra else 0
        extra -= more
        slices[domain] = slices_beside[domain] = threshold + more
        pods[domain] = (threshold + more) * shape.size
        beside[domain], leaders[domain] = pods[domain] - leader, leader
    return None if extra else (Counts(pods, slices, beside, slices_beside, leaders, score), order)


def _by_entropy(tree: Tree, one: Candidate, level: int) -> list[int]:
    """Return a candidate's domains, those first that take most, of those the ones whose children are most alike."""
    counts, inner, begins = one.levels[level], one.levels[level + 1].pods, tree.begins[level]

    def key(domain: int) -> tuple[int, int, float, int]:
        entropy = _entropy(inner[begins[domain] : begins[domain + 1]])
        return -int(counts.leaders[domain]), -int(counts.slices_beside[domain]), -entropy, domain

    return sorted(one.domains.tolist(), key=key)


def _entropy(pods: NDArray[np.int64]) -> float:
    """Return Shannon's entropy of the pods that children take, in bits."""
    shares = np.sort(pods[pods > 0]) / max(int(pods.sum()), 1)  # sorted: equal ones have equal sums, to the last bit
    return float(-(shares * np.log2(shares)).sum())
