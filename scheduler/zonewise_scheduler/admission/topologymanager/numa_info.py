"""The order of equally good sets of zones (pkg/kubelet/cm/topologymanager/numa_info.go).

Sets of fewer zones come first. With prefer-closest-numa-nodes, equally large sets are ordered by distance. Remaining
ties go to the lowest numbers.

The kubelet indexes lists of distances by zone id, although a list has one entry for each existing zone. If ids have
gaps, the kubelet reads wrong distances, or reads beyond the end of a list and panics (CalculateAverageFor).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.errors import PANIC_PREFIX, AdmissionError
from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.admission.node import NodeKind, Policies
    from zonewise_scheduler.admission.topologymanager.hints import Hints

_MAX_COMBINATIONS = 1 << 12
"""Maximum number of combinations of hints that are tried one by one; with more, the kubelet is presumed to panic."""

_MAX_ORDERED = 4
"""Maximum number of resources for which all orders are tried; with more, the kubelet is presumed to panic."""

Closeness = tuple[int, ...]
Distances = tuple[tuple[int, ...], ...]
"""Distances from zone to zone."""
_Hint = tuple[int, bool]
"""A set of zones, and whether it is preferred."""
_NO_HINTS: list[_Hint] = [(-1, False)]
"""The hint that the kubelet substitutes for an empty list: any zones, not preferred (filterProvidersHints)."""


def prefers_closest(policies: Policies) -> bool:
    """Return whether distances matter; with single-numa-node, the option has no effect."""
    return policies.prefer_closest and policies.topology != "single-numa-node"


def closeness_order(kind: NodeKind) -> Callable[[int], Closeness]:
    """Return the sort key of sets of zones (Narrowest, Closest)."""
    if prefers_closest(kind.policies) and kind.distances:
        return lambda zones: (zones.bit_count(), _distance(kind, zones), zones)
    return lambda zones: (zones.bit_count(), zones)


def sets_by_closeness(distances: Distances) -> tuple[int, ...]:
    """Return all sets of gapless zone ids, in closeness_order(); empty if distances do not change the order."""
    zones = tuple(range(len(distances)))
    by_number = sorted(range(1, 1 << len(zones)), key=lambda mask: (mask.bit_count(), mask))
    by_distance = sorted(by_number, key=lambda mask: (mask.bit_count(), _sum(distances, zones, members(mask))))
    return tuple(by_distance) if by_distance != by_number else ()


@lru_cache(maxsize=1 << 14)
def _distance(kind: NodeKind, zones: int) -> int:
    return _sum(kind.distances, kind.zones, members(zones))


def _sum(distances: Distances, zones: tuple[int, ...], ids: tuple[int, ...]) -> int:
    """Return the sum of the distances of all pairs of zones, including each zone to itself.

    The kubelet uses the mean (CalculateAverageFor), which gives sets with equally many zones the same order. Distances
    that would make the kubelet panic are left out.
    """
    rows = [distances[zones.index(zone)] for zone in ids]
    return sum(row[zone] for row in rows for zone in ids if zone < len(row))


def may_panic(policies: Policies, zones: tuple[int, ...]) -> bool:
    """Return whether the kubelet may read beyond the end of a list of distances."""
    uses_distances = policies.prefer_closest and policies.topology in {"best-effort", "restricted"}
    return uses_distances and zones[-1:] >= (len(zones),)


def check_distances(kind: NodeKind, resources: Sequence[Hints]) -> None:
    """Raise AdmissionError with an empty reason if the kubelet may panic when it merges all hints of `resources`.

    The kubelet compares the mean distances of two different sets with equally many zones. Its order of device resources
    is random (GetTopologyHints), so one order that causes a panic is enough.
    """
    if len(resources) > _MAX_ORDERED or any(_merge_panics(kind, order) for order in permutations(resources)):
        raise panic_error()


def panic_error() -> AdmissionError:
    """Return the error for a pod that makes the kubelet panic."""
    return AdmissionError(
        "", f"{PANIC_PREFIX}with prefer-closest-numa-nodes it reads distances of NUMA nodes that do not exist"
    )


def _merge_panics(kind: NodeKind, resources: Sequence[Hints]) -> bool:
    """Return whether HintMerger.Merge panics, given the kubelet's order of hints."""
    lists = [_in_order(resource) for resource in resources] or [_NO_HINTS]
    if prod(map(len, lists)) > _MAX_COMBINATIONS:
        return True
    needed = max(min(zones.bit_count() for zones, _ in hints) for hints in lists)  # 1, the minimum, for _NO_HINTS

    def rank(hint: _Hint) -> tuple[bool, bool, int]:
        """Return a sort key: the order of HintMerger.compare, but without distances; the first of equal hints wins.

        If a comparison of two distances does not panic, both sets lie below the gaps. Then it does not matter which of
        the two is compared with the next hints.
        """
        zones, preferred = hint
        size = zones.bit_count()
        return not preferred, size > needed, abs(size - needed)

    best: _Hint | None = None
    for combination in product(*lists):
        zones = all_zones(kind)
        for hint, _ in combination:
            zones &= hint
        if not zones:
            continue
        candidate = zones, all(hint == (zones, True) for hint in combination)
        best = best or candidate
        if _compares_distances(best, candidate) and max(zones, best[0]).bit_length() > len(kind.zones):
            return True
        best = min(best, candidate, key=rank)
    return False


def _in_order(resource: Hints) -> list[_Hint]:
    """Return hints in the order of bitmask.IterateBitMasks."""
    hints = [(zones, True) for zones in resource.preferred] + [(zones, False) for zones in resource.not_preferred]
    return sorted(hints, key=lambda hint: (hint[0].bit_count(), members(hint[0]))) or _NO_HINTS


def _compares_distances(best: _Hint, candidate: _Hint) -> bool:
    """Return whether HintMerger.compare compares two hints by distance: two sets of equally many zones."""
    return best[1] == candidate[1] and best[0] != candidate[0] and best[0].bit_count() == candidate[0].bit_count()
