"""Which domains and nodes take how many pods: as few of them as can be, and those that fit best."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.gang.topology_levels import TopologyLevels


class NodeSupply(NamedTuple):
    """What nodes offer to the pods of one set; all by position in the topology, (rows,)."""

    pod_counts: NDArray[np.int64]
    """How many pods a node takes."""
    in_use: NDArray[np.bool_]
    """The node takes pods of the gang already."""
    leftover: NDArray[np.int64]
    """How much is left of a node that has taken all it can, in any unit."""


def fitting_domains(totals: NDArray[np.int64], count: int) -> list[int]:
    """Return the domains that have room for so many pods, those with the least room first, then by place."""
    enough = np.flatnonzero(totals >= count)
    return enough[np.argsort(totals[enough], kind="stable")].tolist()


def select_nodes(
    levels: TopologyLevels, supply: NodeSupply, count: int, begin: int, end: int, level: int
) -> NDArray[np.int64]:
    """Return how many pods each position takes, of `count` within a range that has room for them; (rows,).

    The range is one of whole domains of `level`. Of each level, from there inwards, as few domains are chosen as can
    be: those with the most room, and for the rest the one that it fills best. Of nodes, those that have pods of the
    gang come first.
    """
    taken = np.zeros(len(supply.pod_counts), np.int64)
    _descend(levels, supply, taken, count, begin, end, level)
    return taken


def _descend(
    levels: TopologyLevels, supply: NodeSupply, taken: NDArray[np.int64], count: int, begin: int, end: int, level: int
) -> None:
    if level == len(levels.keys):
        taken[begin:end] = _nodes(supply, count, begin, end)
        return
    bounds = levels.domains(level, begin, end)
    if len(bounds) == 2:
        _descend(levels, supply, taken, count, begin, end, level + 1)
        return
    totals = np.add.reduceat(supply.pod_counts[begin:end], bounds[:-1] - begin)
    order = np.argsort(-totals, kind="stable")
    for domain, share in _fewest(totals[order], count):
        place = int(order[domain])
        _descend(levels, supply, taken, share, int(bounds[place]), int(bounds[place + 1]), level + 1)


def _nodes(supply: NodeSupply, count: int, begin: int, end: int) -> NDArray[np.int64]:
    room, used, spare = supply.pod_counts[begin:end], supply.in_use[begin:end], supply.leftover[begin:end]
    taken = np.zeros(end - begin, np.int64)
    for among in (used, ~used):
        places = np.flatnonzero(among & (room > 0))
        share = min(count, int(room[places].sum()))
        order = places[np.lexsort((places, spare[places], -room[places]))]
        for place, part in _fewest(room[order], share):
            taken[order[place]] = part
        count -= share
    return taken


def _fewest(sizes: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    """Return places and shares that make up a count, of sizes that descend and suffice."""
    if not count:
        return []
    sums = np.cumsum(sizes)
    whole = int(np.searchsorted(sums, count))
    rest = count - (int(sums[whole - 1]) if whole else 0)
    shares = [(place, int(sizes[place])) for place in range(whole)]
    least = int(sizes[whole:][sizes[whole:] >= rest][-1])
    best = whole + int(np.flatnonzero(sizes[whole:] == least)[0])
    return [*shares, (best, rest)]
