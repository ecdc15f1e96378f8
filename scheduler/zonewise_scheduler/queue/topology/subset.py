"""The fewest domains that take all, and of those the ones with the least to spare.

pkg/cache/scheduler/tas_balanced_placement.go evaluateGreedyAssignment, selectOptimalDomainSetToFit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.topology.order import by_leader, by_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.counts import Counts
    from zonewise_scheduler.queue.topology.shape import Shape


class Greedy(NamedTuple):
    """The fewest domains that take all."""

    number: int
    host: int | None
    """The one with the leader."""
    last: int | None
    """The last and smallest of those without."""


def greedy(counts: Counts, domains: NDArray[np.int64], shape: Shape) -> Greedy | None:
    """Return how many domains it takes, the largest first; None where all have too little room."""
    need, host = shape.slices, None
    order = by_room(counts, domains, shape)
    if shape.leader:
        order = by_leader(counts, domains, shape)
        if not len(order) or counts.leaders[order[0]] == 0:
            return None
        host = int(order[0])
        need -= int(counts.slices_beside[host])
        order = by_room(counts, order[1:], shape)
    if need <= 0:
        return Greedy(int(shape.leader), host, None)
    slices = counts.slices[order]
    last = int(np.searchsorted(np.cumsum(slices), need))
    # of a higher score than others, a domain that was pruned comes before them: it ends the list, as in Kueue
    if last == len(order) or not slices[: last + 1].all():
        return None
    return Greedy(int(shape.leader) + last + 1, host, int(order[last]))


_MOST = 1 << 29
"""Steps of fewest(), the product of domains, chosen ones and pods, which take about a second."""


def fewest(counts: Counts, domains: Sequence[int], shape: Shape) -> list[int] | None:
    """Return as few domains as take all, of those the ones with the least room, of those the first in the order given.

    None where all have too little room, and where it would take too long to tell.
    """
    found = greedy(counts, np.array(domains, np.int64), shape)
    most = found.number * max((int(counts.pods[domain]) for domain in domains), default=0) if found is not None else 0
    if found is None or len(domains) * (found.number + 1) * 2 * max(most, shape.pods) > _MOST:
        return None
    steps = _Steps(counts, max(most - shape.pods, 0), found.number, shape)
    for domain in domains:
        steps.add(domain)
    return steps.chosen()


class _Steps:
    """What remains of pods, and whether of the leader, after any so many of the domains so far."""

    def __init__(self, counts: Counts, spare: int, number: int, shape: Shape) -> None:
        self._counts = counts
        self._zero = spare
        """The place of 0 remaining pods; as many may be to spare."""
        self.via = np.full((number + 1, 2, spare + shape.pods + 1), -1, np.int32)
        """(number of domains, leader remains, place of remaining pods): 2 * the last domain, + 1 if it has the leader.

        -1: it cannot be; the first way to get there stays.
        """
        self.via[0, int(shape.leader), -1] = 0

    def add(self, domain: int) -> None:
        """Choose one more domain, or do not."""
        goes_on = self.via[:-1] >= 0
        goes_on[:, 0, : self._zero + 1] = False
        if self._counts.slices[domain]:
            for leader in (0, 1):
                self._reach(goes_on[:, leader], leader, int(self._counts.pods[domain]), 2 * domain)
        if self._counts.leaders[domain]:
            self._reach(goes_on[:, 1], 0, int(self._counts.beside[domain]), 2 * domain + 1)

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
            place += int((self._counts.beside if with_leader else self._counts.pods)[domain])
            leader = leader or with_leader
            found.append(domain)
        return found[::-1]
