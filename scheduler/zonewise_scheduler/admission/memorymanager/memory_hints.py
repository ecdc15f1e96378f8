"""Hints of the Memory Manager with policy Static: the zones that can provide memory and hugepages.

pkg/kubelet/cm/memorymanager/policy_static.go. All types of memory of a container come from one set of zones. A set of
several zones becomes a group at its first use. Until all its memory is released, its zones allocate only as this group.
A zone that allocates by itself joins no group.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.admission.resource_names import MEMORY
from zonewise_scheduler.admission.topologymanager.bitmask import ZoneSet, members, set_sizes, subsets, zone_set
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.topologymanager.wide_merge import wide_hints
from zonewise_scheduler.admission.topologymanager.zone_sums import (
    MAX_LISTED_ZONES,
    check_zone_count,
    contain,
    meet,
    sizes,
    suffice,
    to_index,
    to_set,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import Amounts
    from zonewise_scheduler.admission.topologymanager.wide_merge import WideHints
    from zonewise_scheduler.admission.topologymanager.zone_sums import Bools


class MemoryView:
    """The part of a node's state that matters to one request for memory."""

    def __init__(self, state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int]) -> None:
        """Initialize from `requests` (bytes by type) and the memory that containers of the same pod leave for reuse."""
        kind = state.kind
        self.zones = kind.zones
        self.groups = dict(zip(kind.zones, state.memory_groups, strict=True))
        self.assigned = state.memory_assigned
        self._reusable = reusable
        self._requests = [(name, size, free_memory(state, name)) for name, size in requests]

    @cached_property
    def unassigned(self) -> tuple[int, ...]:
        """Return the zones without assigned memory."""
        return tuple(zone for zone in self.zones if not self.assigned >> zone & 1)

    def fits(self, candidate: ZoneSet) -> bool:
        """Return whether a set of zones has enough memory that is free, or reusable from exactly this set."""
        zones, ids = candidate
        reusable = self._reusable
        for name, size, free in self._requests:
            if sum([free[zone] for zone in ids]) + (reusable.get((zones, name), 0) if reusable else 0) < size:
                return False
        return True

    def wide_fits(self) -> Bools:
        """Return the results of fits() for all sets of zones."""
        zones = self.zones
        fits = np.ones(1 << len(zones), np.bool_)
        for name, size, free in self._requests:
            enough = suffice([free[zone] for zone in zones], size)
            for (group, group_name), more in self._reusable.items():
                if group_name == name:
                    enough[to_index(zones, group)] = sum(free[zone] for zone in members(group)) + more >= size
            fits &= enough
        return fits

    def satisfies_request(self, zones: int) -> bool:
        """Return whether a set of zones has enough free memory (isAffinitySatisfyRequest)."""
        ids = members(zones)
        return all(sum([free[zone] for zone in ids]) >= size for _, size, free in self._requests)

    def zone_sets(self, size: int) -> Iterator[ZoneSet]:
        """Yield the sets of `size` zones that the groups allow.

        A zone in a group does not allocate by itself. A set of several zones consists of zones without assigned memory,
        or is a group.
        """
        if size == 1:
            for zone in self.zones:
                if self.groups[zone].bit_count() < 2:
                    yield 1 << zone, (zone,)
            return
        yield from subsets(self.unassigned, size)
        for group in {self.groups[zone] for zone in members(self.assigned)}:
            if group.bit_count() == size and not self.violates_numa_allocations(group):
                yield group, members(group)

    def undivided_groups(self) -> list[int]:
        """Return the groups that no other group cuts across; a zone alone in its group is also a group."""
        return [group for group in set(self.groups.values()) if not self.violates_numa_allocations(group)]

    def violates_numa_allocations(self, zones: int) -> bool:
        """Return whether a set of several zones cuts across groups (isAffinityViolatingNUMAAllocations)."""
        if zones.bit_count() < 2:
            return False
        return any(self.groups[zone] != zones for zone in members(zones & self.assigned))


def free_memory(state: NodeState, name: str) -> dict[int, int]:
    """Return the free bytes of a type of memory by zone."""
    return dict(zip(state.kind.zones, _by_zone(state.kind, state.memory_free, name), strict=True))


def calculate_memory_hints(
    state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int], *, include_not_preferred: bool
) -> Hints | None:
    """Return the sets of zones that can provide all requests, in bytes by type (calculateHints).

    Returns None if no set can: calculateHints then returns an empty map. The Topology Manager treats this as no
    preference, and the allocation fails later.
    """
    if not requests:
        return None
    view = MemoryView(state, requests, reusable)
    width = memory_min_affinity_size(state.kind, requests)
    preferred = tuple(candidate[0] for candidate in view.zone_sets(width) if view.fits(candidate))
    if not include_not_preferred:
        return Hints(preferred) if preferred or _any_set_fits(view) else None
    sizes = (size for size in set_sizes(view.zones) if size != width)
    not_preferred = tuple(candidate[0] for size in sizes for candidate in view.zone_sets(size) if view.fits(candidate))
    return Hints(preferred, not_preferred) if preferred or not_preferred else None


def calculate_wide_memory_hints(
    state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int]
) -> WideHints | None:
    """Return the hints of calculate_memory_hints for a node with too many zones to list the sets."""
    if not requests:
        return None
    view = MemoryView(state, requests, reusable)
    zones = view.zones
    check_zone_count(len(zones), MEMORY)
    size = sizes(len(zones))
    enough = np.logical_and.reduce([suffice(_allocatable(state.kind, name), amount) for name, amount in requests])
    enough[0] = False
    width = size[enough].min(initial=len(zones))
    hints = wide_hints(zones, np.logical_and(view.wide_fits(), _allowed_sets(view)), size == width)
    return hints if hints.possible.any() else None


def _allowed_sets(view: MemoryView) -> Bools:
    """Return, for each set of zones, whether the groups allow it (MemoryView.zone_sets)."""
    zones = view.zones
    allowed = ~meet(len(zones), to_index(zones, view.assigned))
    allowed[[1 << position for position in range(len(zones))]] = False
    allowed[[to_index(zones, group) for group in view.undivided_groups()]] = True
    return allowed


def find_best_hint(
    state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int], within: int
) -> tuple[int, bool] | None:
    """Return the narrowest hint that contains the zones `within`, and whether it is preferred (findBestHint).

    Preferred hints take precedence. Returns None if there is no hint.
    """
    if not requests:
        return None
    if len(state.kind.zones) > MAX_LISTED_ZONES:
        return _find_wide_best_hint(state, requests, reusable, within)
    view = MemoryView(state, requests, reusable)
    width = memory_min_affinity_size(state.kind, requests)
    for size, preferred in ((width, True), *((size, False) for size in set_sizes(view.zones))):
        candidates = [each for each in view.zone_sets(size) if each[0] & within == within and view.fits(each)]
        if candidates:
            return min(candidates)[0], preferred
    return None


def _find_wide_best_hint(
    state: NodeState, requests: Amounts, reusable: Mapping[tuple[int, str], int], within: int
) -> tuple[int, bool] | None:
    hints = calculate_wide_memory_hints(state, requests, reusable)
    if hints is None or within & ~zone_set(hints.zones):
        return None
    zones = hints.zones
    containing = contain(len(zones), to_index(zones, within))
    for sets, preferred in ((hints.preferred, True), (hints.possible, False)):
        indices = np.flatnonzero(np.logical_and(containing, sets))
        if indices.size:
            narrowest = indices[sizes(len(zones))[indices].argmin()]  # the lowest of them, since indices ascend
            return to_set(zones, int(narrowest)), preferred
    return None


def _any_set_fits(view: MemoryView) -> bool:
    """Return whether any set fits; of the sets of unassigned zones, only the largest needs a check."""
    if view.unassigned and any(map(view.fits, view.zone_sets(len(view.unassigned)))):
        return True
    return any(view.fits((group, members(group))) for group in view.undivided_groups())


@lru_cache(maxsize=1 << 14)
def memory_min_affinity_size(kind: NodeKind, requests: Amounts) -> int:
    """Return the smallest number of zones whose allocatable memory suffices; the number of all zones if none suffice.

    `requests` has bytes by type, for at least one type.
    """
    tables = [(size, _allocatable(kind, name)) for name, size in requests]
    narrowest = max(_min_width(size, table) for size, table in tables)
    for width in range(narrowest, len(kind.zones)):
        for _, indices in subsets(tuple(range(len(kind.zones))), width):
            if all(sum(table[index] for index in indices) >= size for size, table in tables):
                return width
    return len(kind.zones)


def _allocatable(kind: NodeKind, name: str) -> list[int]:
    return _by_zone(kind, kind.allocatable, name)


def _by_zone(kind: NodeKind, amounts: Sequence[tuple[int, ...]], name: str) -> list[int]:
    """Return the bytes of one type from amounts by zone and type; 0 if the node lacks the type."""
    if name not in kind.memory_types:
        return [0] * len(kind.zones)
    column = kind.memory_types.index(name)
    return [row[column] for row in amounts]


def _min_width(size: int, table: list[int]) -> int:
    sums = accumulate(sorted(table, reverse=True))
    return next((width for width, most in enumerate(sums, 1) if most >= size), len(table))
