"""The Device Manager: which zones can give devices (pkg/kubelet/cm/devicemanager/topology_hints.go)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members, subsets
from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.node import NodeKind, NodeState

_Reach = tuple[tuple[int, tuple[int, ...]], ...]
"""Sets of zones, and the places of the kind's devices that touch each."""


@lru_cache(maxsize=1 << 12)
def has_topology_alignment(kind: NodeKind, resource: str) -> bool:
    """Tell whether any device of a resource is near some zones; the others of it then count for none.

    deviceHasTopologyAlignment.
    """
    return any(kind.devices[place].zones for place in kind.device_indices.get(resource, ()))


def generate_device_topology_hints(
    state: NodeState, resource: str, count: int, reusable: Mapping[int, int], *, include_not_preferred: bool
) -> Hints:
    """Return the sets of zones that can give a count of a resource, which has_zones.

    A device that is near several zones counts for each set with any of them. Those of the pod's own that can be taken
    over, idle by the kind's devices, must all be in the set (generateDeviceTopologyHints).
    """
    kind = state.kind
    width = device_min_affinity_size(kind, resource, count)
    needed = [kind.devices[place].zones for place, some in reusable.items() if some and _aligned(kind, resource, place)]
    own = sum(
        reusable[place] for place in kind.device_indices[resource] if place in reusable and kind.devices[place].zones
    )
    free = state.device_free

    def fitting(size: int) -> tuple[int, ...]:
        reach = zone_sets_with_devices(kind, resource, size)
        enough = [zones for zones, places in reach if sum([free[place] for place in places]) + own >= count]
        return tuple([zones for zones in enough if all(zones & one for one in needed)] if needed else enough)

    if not include_not_preferred:
        return Hints(fitting(width))
    sizes = (size for size in range(1, len(device_zones(kind, resource)) + 1) if size != width)
    return Hints(fitting(width), tuple(zones for size in sizes for zones in fitting(size)))


def _aligned(kind: NodeKind, resource: str, place: int) -> bool:
    one = kind.devices[place]
    return one.resource == resource and one.zones != 0


@lru_cache(maxsize=1 << 12)
def device_zones(kind: NodeKind, resource: str) -> tuple[int, ...]:
    """Return the zones out of which the sets are made: since 1.36 those that have such devices (kubernetes#138244)."""
    near = 0
    if kind.policies.release >= (1, 36):
        for place in kind.device_indices[resource]:
            near |= kind.devices[place].zones & all_zones(kind)
    return members(near) or kind.zones


@lru_cache(maxsize=1 << 14)
def zone_sets_with_devices(kind: NodeKind, resource: str, size: int) -> _Reach:
    """Return the sets of zones of a size, and which of the kind's devices are near each."""
    places = kind.device_indices[resource]
    return tuple(
        (zones, tuple(place for place in places if kind.devices[place].zones & zones))
        for zones, _ in subsets(device_zones(kind, resource), size)
    )


@lru_cache(maxsize=1 << 14)
def device_min_affinity_size(kind: NodeKind, resource: str, count: int) -> int:
    """Return how many zones have enough devices, busy and unhealthy ones too; all where they have not."""
    every = len(device_zones(kind, resource))
    for width in range(1, every):
        for _, places in zone_sets_with_devices(kind, resource, width):
            if sum(kind.devices[place].total for place in places) >= count:
                return width
    return every
