"""Selects domains and nodes, with a number of pods for each: as few as possible, and those with the best fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.gang.topology_levels import TopologyLevels


class NodeSupply(NamedTuple):
    """Capacity of the nodes for the pods of one set; all by position in the topology, (rows,)."""

    pod_counts: NDArray[np.int64]
    """The number of pods that fit on a node."""
    in_use: NDArray[np.bool_]
    """True if the node already has pods of the gang."""
    leftover: NDArray[np.int64]
    """The amount that remains on a node that is full of these pods, in any unit."""


def fitting_domains(pod_counts: NDArray[np.int64], count: int) -> list[int]:
    """Return the domains that fit this number of pods: the smallest capacity first, then by index."""
    enough = np.flatnonzero(pod_counts >= count)
    return enough[np.argsort(pod_counts[enough], kind="stable")].tolist()


def select_nodes(
    levels: TopologyLevels, supply: NodeSupply, count: int, begin: int, end: int, level: int
) -> NDArray[np.int64]:
    """Return the number of pods at each position, of `count` pods in a range where they fit; (rows,).

    The range consists of whole domains of `level`. From that level inwards, the smallest possible number of domains is
    selected on each level. These are the domains with the highest capacity and, for the remaining pods, the domain with
    the best fit. Nodes with pods of the gang come first.
    """
    counts = np.zeros(len(supply.pod_counts), np.int64)
    _descend(levels, supply, counts, count, begin, end, level)
    return counts


def _descend(
    levels: TopologyLevels, supply: NodeSupply, counts: NDArray[np.int64], count: int, begin: int, end: int, level: int
) -> None:
    if level == len(levels.keys):
        counts[begin:end] = _select_in_domain(supply, count, begin, end)
        return
    bounds = levels.domains(level, begin, end)
    if len(bounds) == 2:
        _descend(levels, supply, counts, count, begin, end, level + 1)
        return
    domain_counts = np.add.reduceat(supply.pod_counts[begin:end], bounds[:-1] - begin)
    order = np.argsort(-domain_counts, kind="stable")
    for domain, share in _fewest_shares(domain_counts[order], count):
        index = int(order[domain])
        _descend(levels, supply, counts, share, int(bounds[index]), int(bounds[index + 1]), level + 1)


def _select_in_domain(supply: NodeSupply, count: int, begin: int, end: int) -> NDArray[np.int64]:
    pod_counts, in_use, leftover = supply.pod_counts[begin:end], supply.in_use[begin:end], supply.leftover[begin:end]
    counts = np.zeros(end - begin, np.int64)
    for candidates in (in_use, ~in_use):
        indices = np.flatnonzero(candidates & (pod_counts > 0))
        share = min(count, int(pod_counts[indices].sum()))
        order = indices[np.lexsort((indices, leftover[indices], -pod_counts[indices]))]
        for index, pods in _fewest_shares(pod_counts[order], share):
            counts[order[index]] = pods
        count -= share
    return counts


def _fewest_shares(sizes: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    """Return indices and shares that add up to `count`; the sizes must be descending and sufficient."""
    if not count:
        return []
    sums = np.cumsum(sizes)
    whole = int(np.searchsorted(sums, count))
    rest = count - (int(sums[whole - 1]) if whole else 0)
    shares = [(index, int(sizes[index])) for index in range(whole)]
    smallest = int(sizes[whole:][sizes[whole:] >= rest][-1])
    best_fit = whole + int(np.flatnonzero(sizes[whole:] == smallest)[0])
    return [*shares, (best_fit, rest)]
