"""Merging the hints of all resources into one set of zones (pkg/kubelet/cm/topologymanager/policy.go HintMerger).

The kubelet tries every combination of one hint per resource and keeps the best one. That takes seconds with three
resources on eight zones. This module computes the same result in closed form.

Invariant: both results are equal.

1. A combination is preferred only if all its sets are equal. So the preferred ones are the sets that every resource
   prefers.
2. The kubelet compares all other combinations by a total order of their intersections. So the best set that any
   combination produces belongs to the best combination.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import Struct
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members, zone_set
from zonewise_scheduler.admission.topologymanager.hints import TopologyHint
from zonewise_scheduler.admission.topologymanager.numa_info import closeness_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.topologymanager.hints import Hints


def merge_preferred(kind: NodeKind, hints: Sequence[Hints]) -> int | None:
    """Return the best set of zones that all resources prefer; None if there is none.

    Under single-numa-node, only sets of one zone count (policy_single_numa_node.go).
    """
    if not hints:
        return all_zones(kind)
    first, *others = hints
    common = set(first.preferred).intersection(*(resource.preferred for resource in others))
    if kind.policies.topology == "single-numa-node":
        common = {zones for zones in common if zones.bit_count() < 2}
    return min(common, key=closeness_order(kind)) if common else None


def preferred_affinity(kind: NodeKind, zones: int) -> TopologyHint:
    """Return the affinity of a preferred merge.

    Under single-numa-node, the set of all zones of the machine means no preference (policy_single_numa_node.go Merge).
    """
    no_preference = kind.policies.topology == "single-numa-node" and zones == all_zones(kind)
    return TopologyHint(None if no_preference else zones, preferred=True)


def merge_best_effort(kind: NodeKind, hints: Sequence[Hints]) -> int:
    """Return the result of best-effort from all hints of the resources, if these prefer no common set.

    An intersection with as many zones as the most demanding resource needs is best. Smaller ones come next, largest
    first. Larger ones come last, smallest first (HintMerger.compare).
    """
    lists = [resource.preferred + resource.not_preferred for resource in hints]
    lists = [sets for sets in lists if sets]
    reachable = intersections(lists) if lists else []
    if not reachable:
        return all_zones(kind)
    needed = max(min(zones.bit_count() for zones in sets) for sets in lists)
    closeness = closeness_order(kind)

    def rank(zones: int) -> tuple[bool, int, tuple[int, ...]]:
        size = zones.bit_count()
        return size > needed, abs(size - needed), closeness(zones)

    return min(reachable, key=rank)


# --- all intersections


def intersections(lists: Sequence[Sequence[int]]) -> list[int]:
    """Return every non-empty set that is the intersection of one set from each list."""
    union = 0
    for sets in lists:
        for zones in sets:
            union |= zones
    order = members(union)
    if union & (union + 1):  # ids with gaps
        packed = [[_renumbered(zones, order) for zones in sets] for sets in lists]
        return [zone_set(order[bit] for bit in members(zones)) for zones in intersections(packed)]
    reachable: Sequence[int] = lists[0]
    for sets in lists[1:]:
        reachable = _pairwise(reachable, sets, len(order))
    return [zones for zones in reachable if zones]


def _renumbered(zones: int, order: tuple[int, ...]) -> int:
    return zone_set(index for index, zone in enumerate(order) if zones >> zone & 1)


def _pairwise(left: Sequence[int], right: Sequence[int], zones: int) -> list[int]:
    """Return all distinct intersections of a set from one list with a set from the other.

    1. The number of pairs whose two sets both contain a given set is the product of its numbers of supersets in the
       lists.
    2. The number of pairs whose intersection is exactly this set is the Moebius inverse of that number over its
       supersets.

    All numbers are stored in one integer, with 32 bits for each set, at the index of the set.
    """
    lanes = _lanes(zones)
    pairs = int.from_bytes(lanes.pack(*map(mul, _supersets(left, zones), _supersets(right, zones))), "little")
    for shift, without in _steps(zones):
        pairs -= pairs >> shift & without
    counts = lanes.unpack(pairs.to_bytes(lanes.size, "little"))
    return [intersection for intersection, count in enumerate(counts) if count]


def _supersets(sets: Sequence[int], zones: int) -> tuple[int, ...]:
    """Return, for each set of zones, how many of `sets` contain it."""
    lanes = _lanes(zones)
    marks = bytearray(lanes.size)
    for index in sets:
        marks[4 * index] = 1
    sums = int.from_bytes(marks, "little")
    for shift, without in _steps(zones):
        sums += sums >> shift & without
    return lanes.unpack(sums.to_bytes(lanes.size, "little"))


@lru_cache(maxsize=64)
def _steps(zones: int) -> tuple[tuple[int, int], ...]:
    """Return, by zone, the shift in bits from a set without it to the set with it, and the lanes of sets without it."""
    lanes = _lanes(zones)
    without = [[0 if index >> zone & 1 else 0xFFFFFFFF for index in range(1 << zones)] for zone in range(zones)]
    return tuple((32 << zone, int.from_bytes(lanes.pack(*mask), "little")) for zone, mask in enumerate(without))


@lru_cache(maxsize=64)
def _lanes(zones: int) -> Struct:
    return Struct(f"<{1 << zones}I")
