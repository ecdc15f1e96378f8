"""How many pods each of some domains gets.

pkg/cache/scheduler/tas_flavor_snapshot.go updateCountsToMinimumGeneric, consumeWithLeadersGeneric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.placement.domain_order import (
    find_best_fit_domain,
    find_best_fit_leader_domain,
    prioritize_leader_domain,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.tas.placement.domain_order import DomainCounts
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters


class DomainAllotment(NamedTuple):
    """What domains of one level get; all (chosen domains,)."""

    domains: NDArray[np.int64]
    units: NDArray[np.int64]
    """Slices or pods."""
    leader_count: NDArray[np.int64]


def update_counts_to_minimum(
    counts: DomainCounts, order: NDArray[np.int64], need: int, shape: TopologyAssignmentParameters, *, has_leader: bool
) -> DomainAllotment | None:
    """Return what domains get, filled in their order, of what is needed; None where they have too little room.

    The leader goes to the first domain that leaves room for all, and the last of the others is the one that fits best.
    """
    if not has_leader:
        return _workers(counts, order, need, shape)
    order = prioritize_leader_domain(counts, order, need, shape)
    host = int(order[0])
    if counts.leader_count[host] == 0:
        return None
    if not shape.least_free_capacity and counts.units_with_leader[host] >= need:
        host = find_best_fit_leader_domain(counts, order, need, shape)
    at_host = min(int(counts.units_with_leader[host]), need)
    rest = _workers(counts, order[1:], need - at_host, shape) if need > at_host else _NOBODY
    if rest is None:
        return None
    return DomainAllotment(*(np.append(first, more) for first, more in zip((host, at_host, 1), rest, strict=True)))


def _workers(
    room: DomainCounts, order: NDArray[np.int64], need: int, shape: TopologyAssignmentParameters
) -> DomainAllotment | None:
    filled = np.cumsum(room.units[order])
    last = int(np.searchsorted(filled, need))
    if last == len(order):
        return None
    remains = need - (int(filled[last - 1]) if last else 0)
    end = (
        int(order[last])
        if shape.least_free_capacity
        else find_best_fit_domain(room.units, room, order[last:], remains, shape)
    )
    domains = np.append(order[:last], end)
    return DomainAllotment(domains, np.append(room.units[order[:last]], remains), np.zeros(len(domains), np.int64))


_NOBODY = DomainAllotment(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
