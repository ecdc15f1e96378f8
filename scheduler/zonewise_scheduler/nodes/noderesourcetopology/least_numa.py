"""The plugin's strategy LeastNUMANodes (least_numa.go): a pod should need few zones that are close together."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.noderesourcetopology.status import MAX_SCORE, PanicError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts
    from zonewise_scheduler.nodes.noderesourcetopology.pluginhelpers import NUMANode, TopologyManagerConfig

_UNKNOWN_COST = 255
"""The cost if a report states none: unreachable, as in the SLIT (ACPI 5.2.17)."""


class _ZoneSet(NamedTuple):
    """The zones that a request needs."""

    ids: tuple[int, ...]
    close: bool
    """True if no set of the same size is closer together, whether it fits or not."""


def least_numa_score(zones: list[NUMANode], requests_list: Sequence[Amounts], manager: TopologyManagerConfig) -> int:
    """Return 100 minus a step for each zone of the widest request, plus half a step if all requests get closest sets.

    The requests are those of each container or, with scope pod, the sum of all. Raises PanicError.
    """
    widest, close = 0, True
    for requests in requests_list:
        if not any(name in zone.available for name in requests for zone in zones):
            continue
        zone_set = _narrowest(zones, requests)
        if zone_set is None:
            return 0
        widest, close = max(widest, len(zone_set.ids)), close and zone_set.close
        if manager.scope == "container":
            _subtract(zones, requests, zone_set.ids)
    if not widest:
        return MAX_SCORE
    step = MAX_SCORE // manager.max_zones
    return MAX_SCORE - widest * step + (step // 2 if close else 0)


def _narrowest(zones: list[NUMANode], requests: Amounts) -> _ZoneSet | None:
    """Return the smallest set of zones that has enough; of several, the closest, then the first."""
    for count in range(1, len(zones) + 1):
        by_distance = [(_distance(zone_set), zone_set) for zone_set in combinations(zones, count)]
        # sums over all pairs instead of means avoid rounding
        closest = min(_UNKNOWN_COST * count * count, *(distance for distance, _ in by_distance))
        fitting = [(distance, zone_set) for distance, zone_set in by_distance if _fits(zone_set, requests)]
        distance, zone_set = min(fitting, key=lambda entry: entry[0], default=(0, ()))
        if zone_set and distance < (_UNKNOWN_COST + 1) * count * count:
            return _ZoneSet(tuple(sorted({zone.id for zone in zone_set})), distance == closest)
    return None


def _distance(zone_set: Iterable[NUMANode]) -> int:
    zones = tuple(zone_set)
    return sum(zone.costs.get(target.id, _UNKNOWN_COST) for zone in zones for target in zones)


def _fits(zone_set: Sequence[NUMANode], requests: Amounts) -> bool:
    """Return whether zones have enough together; each must list every requested resource, even with amount 0."""
    return all(name in zone.available for zone in zone_set for name in requests) and all(
        amount == 0 or sum(zone.available[name] for zone in zone_set) >= amount for name, amount in requests.items()
    )


def _subtract(zones: list[NUMANode], requests: Amounts, ids: Sequence[int]) -> None:
    """Subtract requests from the zones with the given ids, which the plugin uses as indices into its list."""
    for name, amount in requests.items():
        remaining = amount
        for index in ids:
            if not remaining:
                break
            if index >= len(zones):
                raise PanicError.index_panic(index, len(zones))
            available = zones[index].available
            if name in available:
                subtracted = min(remaining, available[name])
                available[name] -= subtracted
                remaining -= subtracted
