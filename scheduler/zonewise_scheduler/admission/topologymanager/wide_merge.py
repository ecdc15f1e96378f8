"""Merging the hints of all resources into one set of zones, for nodes with too many zones to list every set.

The results equal those of `policy`, whose invariant holds here too. A merge is preferred if and only if all resources
prefer the same set. Otherwise, the result is the best intersection. All sets of the zones that any resource is near are
evaluated at once.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from zonewise_scheduler.admission.topologymanager.bitmask import all_zones
from zonewise_scheduler.admission.topologymanager.numa_info import prefers_closest
from zonewise_scheduler.admission.topologymanager.zone_sums import check_zone_count, pair_sums, sizes, sums, to_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.topologymanager.zone_sums import Bools, Integers

_Integer = TypeVar("_Integer", np.int32, np.int64)


class WideHints(NamedTuple):
    """The hints of one resource: for each set of its zones, whether the set is preferred, and whether it is a hint."""

    zones: tuple[int, ...]
    """Zones in ascending order."""
    preferred: Bools
    possible: Bools


def wide_hints(zones: tuple[int, ...], possible: Bools, preferred: Bools) -> WideHints:
    """Return hints; the empty set is not a hint, and only hints can be preferred."""
    possible[0] = False
    return WideHints(zones, np.logical_and(possible, preferred), possible)


def merge_wide_preferred(kind: NodeKind, hints: Sequence[WideHints]) -> int | None:
    """Return the best set of zones that all resources prefer; None if there is none (policy.merge_preferred)."""
    if not hints:
        return all_zones(kind)
    zones = _all_zones_of(hints)
    size = sizes(len(zones))
    common = np.logical_and.reduce([_spread(zones, resource.zones, resource.preferred) for resource in hints])
    if kind.policies.topology == "single-numa-node":
        common &= size < 2
    indices = np.flatnonzero(common)
    return to_set(zones, _closest(kind, zones, indices, size[indices].min())) if indices.size else None


def merge_wide_best_effort(kind: NodeKind, hints: Sequence[WideHints]) -> int:
    """Return the result of best-effort if the resources prefer no common set (policy.merge_best_effort)."""
    providing = [resource for resource in hints if resource.possible.any()]
    if not providing:
        return all_zones(kind)
    zones = _all_zones_of(providing)
    size = sizes(len(zones))
    spread = [_spread(zones, resource.zones, resource.possible) for resource in providing]
    reachable = reduce(_intersections, spread)
    reachable[0] = False
    indices = np.flatnonzero(reachable)
    if not indices.size:
        return all_zones(kind)
    needed = max(int(size[sets].min()) for sets in spread)
    present = np.flatnonzero(np.bincount(size[indices])).tolist()
    best_size = min(present, key=lambda count: (count > needed, abs(count - needed)))
    return to_set(zones, _closest(kind, zones, indices, best_size))


def _all_zones_of(hints: Iterable[WideHints]) -> tuple[int, ...]:
    zones = tuple(sorted({zone for resource in hints for zone in resource.zones}))
    check_zone_count(len(zones), "all resources together")
    return zones


def _spread(zones: tuple[int, ...], own_zones: tuple[int, ...], sets: Bools) -> Bools:
    """Map values for sets of a resource's own zones to sets of `zones`; sets with any other zone get False."""
    if own_zones == zones:
        return sets.copy()
    spread = np.zeros(1 << len(zones), np.bool_)
    spread[sums([1 << zones.index(zone) for zone in own_zones])] = sets
    return spread


def _closest(kind: NodeKind, zones: tuple[int, ...], indices: Integers, size: int) -> int:
    """Return the best of the sets of a size, whose indices must ascend (numa_info.closeness_order)."""
    indices = indices[sizes(len(zones))[indices] == size]
    if prefers_closest(kind.policies) and kind.distances:
        rows = [kind.distances[kind.zones.index(zone)] for zone in zones]
        distances = pair_sums([[row[zone] for zone in zones] for row in rows])[indices]
        return int(indices[distances.argmin()])
    return int(indices.min())


def _intersections(left: Bools, right: Bools) -> Bools:
    """Return which sets are the intersection of a set in `left` with a set in `right` (policy._pairwise)."""
    pairs = _superset_counts(left).astype(np.int64) * _superset_counts(right)
    for lower, upper in _halves(pairs):
        lower -= upper
    return pairs.astype(np.bool_)


def _superset_counts(sets: Bools) -> NDArray[np.int32]:
    counts = sets.astype(np.int32)
    for lower, upper in _halves(counts):
        lower += upper
    return counts


def _halves(array: NDArray[_Integer]) -> Iterable[tuple[NDArray[_Integer], NDArray[_Integer]]]:
    """Yield, for each zone, views of the entries for the sets without it and for the sets with it."""
    for position in range(array.size.bit_length() - 1):
        view = array.reshape(array.size // (2 << position), 2, 1 << position)
        yield view[:, 0], view[:, 1]
