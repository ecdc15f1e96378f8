"""The plugin's strategy LeastNUMANodes (least_numa.go): the fewer zones a pod needs, and the closer, the better."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.noderesourcetopology.status import MAX_SCORE, PanicError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts
    from zonewise_scheduler.nodes.noderesourcetopology.pluginhelpers import NUMANode, TopologyManagerConfig

_FARTHEST = 255
"""Of a cost that is not told: in the SLIT (ACPI 5.2.17), out of reach."""


class _Spread(NamedTuple):
    """The zones that a request needs."""

    ids: tuple[int, ...]
    close: bool
    """No set of as many zones is closer together, whether it fits or not."""


def least_numa_score(zones: list[NUMANode], asked: Sequence[Amounts], manager: TopologyManagerConfig) -> int:
    """Return 100 less a step for each zone that the widest of the requests needs, half a step back if all are close.

    The requests are those of each container, or in scope pod of all as one. Raises PanicError.
    """
    widest, close = 0, True
    for requests in asked:
        if not any(name in zone.available for name in requests for zone in zones):
            continue
        spread = _narrowest(zones, requests)
        if spread is None:
            return 0
        widest, close = max(widest, len(spread.ids)), close and spread.close
        if manager.scope == "container":
            _take(zones, requests, spread.ids)
    if not widest:
        return MAX_SCORE
    step = MAX_SCORE // manager.max_zones
    return MAX_SCORE - widest * step + (step // 2 if close else 0)


def _narrowest(zones: list[NUMANode], requests: Amounts) -> _Spread | None:
    """Return the fewest zones that together have enough, of several such sets the closest, then the first."""
    for count in range(1, len(zones) + 1):
        sets = [(_distance(chosen), chosen) for chosen in combinations(zones, count)]
        # sums over all pairs, not means: no rounding
        closest = min(_FARTHEST * count * count, *(distance for distance, _ in sets))
        fitting = [(distance, chosen) for distance, chosen in sets if _fits(chosen, requests)]
        distance, chosen = min(fitting, key=lambda one: one[0], default=(0, ()))
        if chosen and distance < (_FARTHEST + 1) * count * count:
            return _Spread(tuple(sorted({zone.id for zone in chosen})), distance == closest)
    return None


def _distance(chosen: Iterable[NUMANode]) -> int:
    members = tuple(chosen)
    return sum(zone.costs.get(other.id, _FARTHEST) for zone in members for other in members)


def _fits(chosen: Sequence[NUMANode], requests: Amounts) -> bool:
    """Tell whether zones have enough together; each must list whatever is named, storage and zero amounts too."""
    return all(name in zone.available for zone in chosen for name in requests) and all(
        amount == 0 or sum(zone.available[name] for zone in chosen) >= amount for name, amount in requests.items()
    )


def _take(zones: list[NUMANode], requests: Amounts, ids: Sequence[int]) -> None:
    """Take requests off the zones with the ids, which the plugin takes for places in its list."""
    for name, amount in requests.items():
        left = amount
        for place in ids:
            if not left:
                break
            if place >= len(zones):
                raise PanicError.index_out_of_range(place, len(zones))
            available = zones[place].available
            if name in available:
                taken = min(left, available[name])
                available[name] -= taken
                left -= taken
