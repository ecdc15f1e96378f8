"""One set of zones out of the hints of all resources (pkg/kubelet/cm/topologymanager/policy.go HintMerger).

The kubelet tries every combination of one hint per resource, and keeps the best: seconds of work with three resources
on eight zones. The same answer follows from two facts. A combination is preferred only if all its sets are equal, so
the preferred ones are the sets that every resource prefers. And the kubelet's comparison of the others is a total order
of their intersections, so the best of the sets that any combination can make is the best combination.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import pack, unpack
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members, zone_set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.topologymanager.hints import Hints


def merge_preferred(kind: NodeKind, hints: Sequence[Hints]) -> int | None:
    """Return the best set of zones that all resources prefer; None where there is none.

    Under single-numa-node, sets of one zone only (policy_single_numa_node.go).
    """
    if not hints:
        return all_zones(kind)
    shared = set(hints[0].preferred).intersection(*(one.preferred for one in hints[1:]))
    if kind.policies.topology == "single-numa-node":
        shared = {zones for zones in shared if zones & (zones - 1) == 0}
    return min(shared, key=_closeness(kind)) if shared else None


def merge_best_effort(kind: NodeKind, hints: Sequence[Hints]) -> int:
    """Return what best-effort settles for where the resources agree on nothing, from all hints, the others too.

    Best is an intersection of as many zones as the resource needs that needs most; then the largest smaller one, then
    the smallest larger one (HintMerger.compare).
    """
    lists = [one.preferred + one.not_preferred for one in hints if one.preferred or one.not_preferred]
    reached = intersections([*lists, (all_zones(kind),)])
    if not reached:
        return all_zones(kind)
    needed = max((min(zones.bit_count() for zones in one) for one in lists), default=0)
    closeness = _closeness(kind)

    def rank(zones: int) -> tuple[int, int, tuple[int, float, int]]:
        size = zones.bit_count()
        return (size != needed) + (size > needed), abs(size - needed), closeness(zones)

    return min(reached, key=rank)


def _closeness(kind: NodeKind) -> Callable[[int], tuple[int, float, int]]:
    """Return the order of sets: narrower first; with prefer-closest-numa-nodes nearer, too; then lower numbers.

    numa_info.go Narrowest, Closest. With single-numa-node the option changes nothing.
    """
    if kind.policies.prefer_closest and kind.policies.topology != "single-numa-node":
        return lambda zones: (zones.bit_count(), _distance(kind, zones), zones)
    return lambda zones: (zones.bit_count(), 0.0, zones)


@lru_cache(maxsize=1 << 14)
def _distance(kind: NodeKind, zones: int) -> float:
    """Return the mean distance of all pairs, each zone to itself too (NUMADistances.CalculateAverageFor).

    The kubelet looks a zone up by its id where the list goes by the order of zones. Where ids have gaps it so takes the
    wrong distances, or panics; those that it would panic about are left out here.
    """
    some = members(zones)
    rows = [kind.distances[kind.zones.index(zone)] for zone in some] if kind.distances else []
    return sum(row[zone] for row in rows for zone in some if zone < len(row)) / len(some) ** 2


# --- all intersections


def intersections(lists: Sequence[Sequence[int]]) -> list[int]:
    """Return every set but the empty one that is the intersection of one set out of each list."""
    every = 0
    for one in lists:
        for zones in one:
            every |= zones
    order = members(every)
    if order != tuple(range(len(order))):
        packed = [[_renumbered(zones, order) for zones in one] for one in lists]
        return [zone_set(order[bit] for bit in members(zones)) for zones in intersections(packed)]
    met: Sequence[int] = lists[0]
    for one in lists[1:]:
        met = _pairwise(met, one, len(order))
    return [zones for zones in met if zones]


def _renumbered(zones: int, order: tuple[int, ...]) -> int:
    return zone_set(place for place, zone in enumerate(order) if zones >> zone & 1)


def _pairwise(some: Sequence[int], others: Sequence[int], zones: int) -> list[int]:
    """Return all intersections of two, each once.

    How many pairs meet in exactly a set is the Moebius inverse, over its supersets, of how many pairs contain it; and
    those are as many as the one list has supersets of it, times the other. All counts lie in one integer, 32 bits each,
    at the place of their set.
    """
    counts = f"<{1 << zones}I"
    supersets = [unpack(counts, _supersets(one, zones).to_bytes(4 << zones, "little")) for one in (some, others)]
    met = int.from_bytes(pack(counts, *map(mul, *supersets)), "little")
    for shift, without in _steps(zones):
        met -= met >> shift & without
    return [place for place, count in enumerate(unpack(counts, met.to_bytes(4 << zones, "little"))) if count]


def _supersets(some: Sequence[int], zones: int) -> int:
    marks = bytearray(4 << zones)
    for one in some:
        marks[4 * one] = 1
    sums = int.from_bytes(marks, "little")
    for shift, without in _steps(zones):
        sums += sums >> shift & without
    return sums


@lru_cache(maxsize=64)
def _steps(zones: int) -> tuple[tuple[int, int], ...]:
    """Return for each zone how far a set with it lies above that without, in bits, and the places of those without."""
    lane = (1 << 32) - 1
    return tuple(
        (32 << zone, sum(lane << 32 * place for place in range(1 << zones) if not place >> zone & 1))
        for zone in range(zones)
    )
