"""The order in which a kubelet tries sets of zones: narrower ones first, of these the closest or the lowest.

Sources: pkg/kubelet/cm/topologymanager/numa_info.go Narrowest, Closest; bitmask.go IsNarrowerThan.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.multi_zone import MAX_ZONES

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.types import F64, I64

NOT_PREFERRED = 1 << MAX_ZONES
"""Value added to the ranks of sets that are wider than necessary."""
NO_SET = 2 * NOT_PREFERRED
"""Rank after those of all sets: no set."""


class SetOrder(NamedTuple):
    """All sets of zones in the order in which the kubelet tries them. The rank of a set is its index."""

    masks: I64
    """(sets,): the sets by rank."""
    ranks: I64
    """(1 << zones,): the ranks by set."""
    first_zones: I64
    """(1 << zones,): the rank of the single-zone set that contains the first zone of a set."""


@lru_cache(maxsize=256)
def set_order(zones: int, closest_first: tuple[int, ...]) -> SetOrder:
    """Return the order of all sets of `zones` zones; `closest_first`: Layout.closest_first."""
    masks = closest_first or sorted(range(1, 1 << zones), key=lambda mask: (mask.bit_count(), mask))
    ranks = np.full(1 << zones, NO_SET, np.int64)
    ranks[list(masks)] = np.arange(len(masks))
    first_zones = [
        min((ranks[1 << zone] for zone in range(zones) if mask >> zone & 1), default=NO_SET)
        for mask in range(1 << zones)
    ]
    return SetOrder(np.array(masks, np.int64), ranks, np.array(first_zones, np.int64))


class SetsOfSize(NamedTuple):
    """Sets of one size, in the kubelet's order."""

    masks: I64
    ranks: I64
    members: F64
    """(sets, zones): 1 if the set contains the zone. Sums of bytes are exact below 8 PiB."""


@lru_cache(maxsize=1024)
def sets_of_size(zones: int, closest_first: tuple[int, ...], first: int, size: int) -> SetsOfSize:
    """Return the sets of a size that contain only zones among the first `first` of `zones` zones."""
    order = set_order(zones, closest_first)
    masks = order.masks[(np.bitwise_count(order.masks) == size) & (order.masks < 1 << first)]
    return SetsOfSize(masks, order.ranks[masks], (masks[:, None] >> np.arange(zones) & 1).astype(np.float64))
