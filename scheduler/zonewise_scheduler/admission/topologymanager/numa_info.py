"""The order of equally good sets of zones (pkg/kubelet/cm/topologymanager/numa_info.go).

Narrower sets come first. With prefer-closest-numa-nodes nearer ones come next, then those with lower numbers.

The kubelet indexes lists of distances by zone id, though a list has the order of the zones. If ids have gaps, it reads
wrong distances, or reads beyond the end of a list and panics (CalculateAverageFor).
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
"""Combinations of hints that are followed one by one; with more, the kubelet is presumed to panic."""

_MAX_ORDERED = 4
"""Resources whose orders are all followed."""

Closeness = tuple[int, float, int]
Distances = tuple[tuple[int, ...], ...]
"""From zone to zone."""
_Hint = tuple[int, bool]
"""A set of zones, and whether it is preferred."""
_NO_HINTS: list[_Hint] = [(-1, False)]
"""What the kubelet puts in the place of no hints: any zones, not preferred (filterProvidersHints)."""


def prefers_closest(policies: Policies) -> bool:
    """Return whether distances decide; with single-numa-node the option changes nothing."""
    return policies.prefer_closest and policies.topology != "single-numa-node"


def closeness_order(kind: NodeKind) -> Callable[[int], Closeness]:
    """Return the order of sets (Narrowest, Closest)."""
    if prefers_closest(kind.policies):
        return lambda zones: (zones.bit_count(), _mean_distance(kind, zones), zones)
    return lambda zones: (zones.bit_count(), 0.0, zones)


def sets_by_closeness(distances: Distances) -> tuple[int, ...]:
    """Return all sets of zones without gaps in their ids, in the closeness_order(); empty: lower ones come first."""
    zones = tuple(range(len(distances)))
    by_number = sorted(range(1, 1 << len(zones)), key=lambda mask: (mask.bit_count(), mask))
    by_distance = sorted(by_number, key=lambda mask: (mask.bit_count(), _mean(distances, zones, members(mask))))
    return tuple(by_distance) if by_distance != by_number else ()


@lru_cache(maxsize=1 << 14)
def _mean_distance(kind: NodeKind, zones: int) -> float:
    return _mean(kind.distances, kind.zones, members(zones)) if kind.distances else 0.0


def _mean(distances: Distances, zones: tuple[int, ...], ids: tuple[int, ...]) -> float:
    """Return the mean distance of all pairs, each zone to itself included (CalculateAverageFor).

    Distances that would make the kubelet panic are left out.
    """
    rows = [distances[zones.index(zone)] for zone in ids]
    return sum(row[zone] for row in rows for zone in ids if zone < len(row)) / len(ids) ** 2


def may_panic(policies: Policies, zones: tuple[int, ...]) -> bool:
    """Return whether the kubelet may read beyond the end of a list of distances."""
    uses_distances = policies.prefer_closest and policies.topology in {"best-effort", "restricted"}
    return uses_distances and zones[-1:] >= (len(zones),)


def check_distances(kind: NodeKind, resources: Sequence[Hints]) -> None:
    """Raise AdmissionError, without a reason, if the kubelet may panic when it merges all hints of resources.

    It compares the mean distances of two different sets with equally many zones. The order of device resources is
    random in the kubelet (GetTopologyHints), so one order that panics is enough.
    """
    if len(resources) > _MAX_ORDERED or any(_merge_panics(kind, order) for order in permutations(resources)):
        raise panic_error()


def panic_error() -> AdmissionError:
    """Return the error for a pod that makes the kubelet panic."""
    return AdmissionError(
        "", f"{PANIC_PREFIX}with prefer-closest-numa-nodes it reads distances of NUMA nodes that do not exist"
    )


def _merge_panics(kind: NodeKind, resources: Sequence[Hints]) -> bool:
    """Follow HintMerger.Merge, in the kubelet's order of hints."""
    lists = [_in_order(resource) for resource in resources]
    if prod(map(len, lists)) > _MAX_COMBINATIONS:
        return True
    needed = max((min(zones.bit_count() for zones, _ in hints) for hints in lists if hints != _NO_HINTS), default=0)
    best: _Hint | None = None
    for combination in product(*lists):
        zones = all_zones(kind)
        for hint, _ in combination:
            zones &= hint
        same = all(hint == combination[0][0] for hint, _ in combination)
        candidate = zones, same and all(preferred for _, preferred in combination)
        if not zones:
            continue
        best = best or candidate
        if _compares_distances(best, candidate) and (zones | best[0]).bit_length() > len(kind.zones):
            return True
        best = _better(best, candidate, needed)
    return False


def _in_order(resource: Hints) -> list[_Hint]:
    """Return hints in the order of bitmask.IterateBitMasks."""
    hints = [(zones, True) for zones in resource.preferred] + [(zones, False) for zones in resource.not_preferred]
    return sorted(hints, key=lambda hint: (hint[0].bit_count(), members(hint[0]))) or _NO_HINTS


def _compares_distances(best: _Hint, candidate: _Hint) -> bool:
    """Return whether HintMerger.compare compares two hints by distance: two sets of equally many zones."""
    return best[1] == candidate[1] and best[0] != candidate[0] and best[0].bit_count() == candidate[0].bit_count()


def _better(best: _Hint, candidate: _Hint, needed: int) -> _Hint:
    """Return the better hint (HintMerger.compare).

    Of two sets of equally many zones the first is kept. If their comparison does not panic, they lie below the gaps,
    so which of them the next ones are compared with makes no difference.
    """
    if candidate[1] != best[1]:
        return candidate if candidate[1] else best
    size, candidate_size = best[0].bit_count(), candidate[0].bit_count()
    if best[1] or size > needed:
        return candidate if candidate_size < size else best
    return candidate if size < candidate_size <= needed else best
