"""How many pods each of some domains gets.

pkg/cache/scheduler/tas_flavor_snapshot.go updateCountsToMinimumGeneric, consumeWithLeadersGeneric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.topology.order import best_fit, best_host, leader_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.order import Room
    from zonewise_scheduler.queue.topology.shape import Shape


class Share(NamedTuple):
    """What domains of one level get; all (chosen domains,)."""

    domains: NDArray[np.int64]
    units: NDArray[np.int64]
    """Slices or pods."""
    leaders: NDArray[np.int64]


def spend(room: Room, order: NDArray[np.int64], need: int, shape: Shape, *, leader: bool) -> Share | None:
    """Return what domains get, filled in their order, of what is needed; None where they have too little room.

    The leader goes to the first domain that leaves room for all, and the last of the others is the one that fits best.
    """
    if not leader:
        return _workers(room, order, need, shape)
    order = leader_first(room, order, need, shape)
    host = int(order[0])
    if room.leaders[host] == 0:
        return None
    if not shape.least_free and room.beside[host] >= need:
        host = best_host(room, order, need, shape)
    at_host = min(int(room.beside[host]), need)
    rest = _workers(room, order[1:], need - at_host, shape) if need > at_host else _NOBODY
    if rest is None:
        return None
    return Share(*(np.append(first, more) for first, more in zip((host, at_host, 1), rest, strict=True)))


def _workers(room: Room, order: NDArray[np.int64], need: int, shape: Shape) -> Share | None:
    filled = np.cumsum(room.alone[order])
    last = int(np.searchsorted(filled, need))
    if last == len(order):
        return None
    remains = need - (int(filled[last - 1]) if last else 0)
    end = int(order[last]) if shape.least_free else best_fit(room.alone, room, order[last:], remains, shape)
    domains = np.append(order[:last], end)
    return Share(domains, np.append(room.alone[order[:last]], remains), np.zeros(len(domains), np.int64))


_NOBODY = Share(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
