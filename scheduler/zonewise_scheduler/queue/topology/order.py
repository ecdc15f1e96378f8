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

    from zonewise_scheduler.queue.topology.counts import Counts
    from zonewise_scheduler.queue.topology.shape import Shape


class Room(NamedTuple):
    """What the domains of a level take, in units of pods or slices; all (domains,)."""

    alone: NDArray[np.int64]
    beside: NDArray[np.int64]
    """Beside the leader."""
    leaders: NDArray[np.int64]
    score: NDArray[np.int64]


def slices_of(counts: Counts) -> Room:
    """Return the room in slices of the outermost layer."""
    return Room(counts.slices, counts.slices_beside, counts.leaders, counts.score)


def pods_of(counts: Counts, size: int) -> Room:
    """Return the room in slices of an inner layer's size, or in pods."""
    return Room(counts.pods // size, counts.beside // size, counts.leaders, counts.score)


def by_room(counts: Counts, domains: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
    """Return the domains in the order in which workers fill them."""
    slices = counts.slices[domains]
    keys = [domains, counts.pods[domains], slices if shape.least_free else -slices]
    if shape.by_score:
        keys.append(-counts.score[domains])
    return domains[np.lexsort(keys)]


def by_leader(counts: Counts, domains: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
    """Return the domains in the order in which one that takes all, the leader too, is looked for."""
    return domains[np.lexsort([domains, *(key[domains] for key in _leader_keys(counts, shape))])]


def first_by_leader(counts: Counts, shape: Shape) -> int:
    """Return the first of all domains of a level in that order."""
    found = np.arange(len(counts.pods))
    for key in reversed(_leader_keys(counts, shape)):
        values = key[found]
        found = found[values == values.min()]
    return int(found[0])


def _leader_keys(counts: Counts, shape: Shape) -> list[NDArray[np.int64]]:
    """Return by what the domains of a level are ordered, the least significant first."""
    slices = counts.slices_beside if shape.least_free else -counts.slices_beside
    return [counts.beside, slices, *([-counts.score] if shape.by_score else []), -counts.leaders]


def leader_first(room: Room, order: NDArray[np.int64], need: int, shape: Shape) -> NDArray[np.int64]:
    """Return an order that begins with the first domain whose loss by the leader leaves room for all."""
    if not shape.leader or len(order) < 2:
        return order
    alone, beside = room.alone[order], room.beside[order]
    fits = (room.leaders[order] > 0) & (alone.sum() - (alone - beside) >= need)
    place = int(fits.argmax())
    return np.concatenate([order[place : place + 1], order[:place], order[place + 1 :]]) if fits[place] else order


def best_fit(have: NDArray[np.int64], room: Room, order: NDArray[np.int64], need: int, shape: Shape) -> int:
    """Return the first of the domains with the least room that is enough; the first of all where none has enough.

    Only those are looked at that have the score of the first.
    """
    if shape.by_score:
        scores = room.score[order]
        order = order[: int(np.append(scores != scores[0], True).argmax())]
    amounts = have[order]
    enough = np.where(amounts >= need, amounts, np.iinfo(np.int64).max)
    return int(order[int(enough.argmin())])


def best_host(room: Room, order: NDArray[np.int64], need: int, shape: Shape) -> int:
    """Return the best fit of the domains that have room for the leader."""
    have = np.where(room.leaders > 0, room.beside, -1)
    return best_fit(have, room, order, need, shape)
