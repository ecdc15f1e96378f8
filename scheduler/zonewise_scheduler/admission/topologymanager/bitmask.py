"""Sets of zones as integers, bit i for NUMA node i (pkg/kubelet/cm/topologymanager/bitmask)."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeKind

ZoneSet = tuple[int, tuple[int, ...]]
"""A set of zones as an integer, and its members in ascending order."""


def zone_set(zones: Iterable[int]) -> int:
    """Return the given zones as a set."""
    bits = 0
    for zone in zones:
        bits |= 1 << zone
    return bits


@lru_cache(maxsize=1 << 12)
def members(zones: int) -> tuple[int, ...]:
    """Return the zones of a set, ascending."""
    return tuple(zone for zone in range(zones.bit_length()) if zones >> zone & 1)


def set_sizes(zones: Sequence[int]) -> range:
    """Return the sizes of all non-empty sets of the given zones."""
    return range(1, len(zones) + 1)


@lru_cache(maxsize=1 << 12)
def subsets(zones: tuple[int, ...], size: int) -> tuple[ZoneSet, ...]:
    """Return all sets of `size` of the zones, which must ascend, in the order of bitmask.IterateBitMasks."""
    return tuple((zone_set(ids), ids) for ids in combinations(zones, size))


@lru_cache(maxsize=1 << 10)
def all_zones(kind: NodeKind) -> int:
    """Return the set of all zones of a node."""
    return zone_set(kind.zones)
