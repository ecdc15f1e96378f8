"""The Memory Manager with policy Static: which zones can give memory and hugepages, and which do.

pkg/kubelet/cm/memorymanager/policy_static.go. All types of memory of a container come from one set of zones. A set of
several zones becomes a group at its first use: until all of it is returned, its zones give only as this group, while a
zone that has given alone joins no group.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.topologymanager.bitmask import ZoneSet, members, subsets
from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import Amounts


class MemoryView:
    """The memory of one state, as far as one request needs it."""

    def __init__(self, state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int]) -> None:
        """Take bytes by type, and what of the pod's own can be taken over."""
        kind = state.kind
        self.zones = kind.zones
        self.groups = dict(zip(kind.zones, state.memory_groups, strict=True))
        self.assigned = state.memory_assigned
        self._idle = reusable
        self._wanted = [(name, size, free_memory(state, name)) for name, size in requests]

    def fits(self, zone_set: ZoneSet) -> bool:
        """Tell whether a set of zones has enough that is free, or the pod's own from the very same set."""
        zones, some = zone_set
        idle = self._idle
        for name, size, free in self._wanted:
            if sum([free[zone] for zone in some]) + (idle.get((zones, name), 0) if idle else 0) < size:
                return False
        return True

    def satisfies_request(self, zones: int) -> bool:
        """Tell whether a set of zones has enough that is free (isAffinitySatisfyRequest)."""
        some = members(zones)
        return all(sum([free[zone] for zone in some]) >= size for _, size, free in self._wanted)

    def zone_sets(self, size: int) -> Iterator[ZoneSet]:
        """Return the sets of a size that the groups leave open.

        A zone in a group gives not alone; a larger set is of zones that give nothing yet, or a group as it is.
        """
        if size == 1:
            for zone in self.zones:
                if self.groups[zone] == 1 << zone:
                    yield 1 << zone, (zone,)
            return
        yield from subsets(tuple(zone for zone in self.zones if not self.assigned >> zone & 1), size)
        for group in {self.groups[zone] for zone in self.zones if self.assigned >> zone & 1}:
            if group.bit_count() == size and not self.violates_numa_allocations(group):
                yield group, members(group)

    def violates_numa_allocations(self, zones: int) -> bool:
        """Tell whether a set of several zones cuts across groups (isAffinityViolatingNUMAAllocations)."""
        if zones & (zones - 1) == 0:
            return False
        return any(self.groups[zone] != zones for zone in members(zones & self.assigned))


def free_memory(state: NodeState, name: str) -> dict[int, int]:
    """Return free bytes of a type by zone."""
    kind = state.kind
    if name not in kind.memory_types:
        return dict.fromkeys(kind.zones, 0)
    column = kind.memory_types.index(name)
    return {zone: row[column] for zone, row in zip(kind.zones, state.memory_free, strict=True)}


def calculate_memory_hints(
    state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int], *, include_not_preferred: bool
) -> Hints | None:
    """Return the sets of zones that can give all of the requests, bytes by type.

    None where no set can: the kubelet then takes it that the container does not care, and fails when it allocates
    (calculateHints returns an empty map).
    """
    if not requests:
        return None
    view = MemoryView(state, requests, reusable)
    width = memory_min_affinity_size(state.kind, requests)
    preferred = tuple(one[0] for one in view.zone_sets(width) if view.fits(one))
    if not include_not_preferred:
        return Hints(preferred) if preferred or _anything_fits(view) else None
    sizes = (size for size in range(1, len(view.zones) + 1) if size != width)
    others = tuple(one[0] for size in sizes for one in view.zone_sets(size) if view.fits(one))
    return Hints(preferred, others) if preferred or others else None


def find_best_hint(
    state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int], within: int
) -> tuple[int, bool] | None:
    """Return the hint of fewest zones that has all those within, and whether it is preferred; a preferred one first.

    None where there is none (findBestHint).
    """
    if not requests:
        return None
    view = MemoryView(state, requests, reusable)
    width = memory_min_affinity_size(state.kind, requests)
    for size in (width, *range(1, len(view.zones) + 1)):
        fitting = [one[0] for one in view.zone_sets(size) if one[0] & within == within and view.fits(one)]
        if fitting:
            return min(fitting), size == width
    return None


def _anything_fits(view: MemoryView) -> bool:
    """Tell whether any set fits at all: of those that give nothing yet, all together have most."""
    idle = tuple(zone for zone in view.zones if not view.assigned >> zone & 1)
    if len(idle) > 1 and view.fits(subsets(idle, len(idle))[0]):
        return True
    groups = {
        group for group in view.groups.values() if group & (group - 1) and not view.violates_numa_allocations(group)
    }
    return any(view.fits((group, members(group))) for group in groups) or any(map(view.fits, view.zone_sets(1)))


@lru_cache(maxsize=1 << 14)
def memory_min_affinity_size(kind: NodeKind, requests: Amounts) -> int:
    """Return how many zones are enough by all that they may ever give; all of them where they are not."""
    tables = [(size, _allocatable(kind, name)) for name, size in requests]
    least = max((_least(size, table) for size, table in tables), default=1)
    for width in range(least, len(kind.zones)):
        if len(tables) == 1:
            return width
        for _, some in subsets(tuple(range(len(kind.zones))), width):
            if all(sum(table[place] for place in some) >= size for size, table in tables):
                return width
    return len(kind.zones)


def _allocatable(kind: NodeKind, name: str) -> list[int]:
    if name not in kind.memory_types:
        return [0] * len(kind.zones)
    column = kind.memory_types.index(name)
    return [row[column] for row in kind.allocatable]


def _least(size: int, table: list[int]) -> int:
    sums = accumulate(sorted(table, reverse=True))
    return next((width for width, most in enumerate(sums, 1) if most >= size), len(table))
