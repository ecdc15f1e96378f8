"""Hints of the Device Manager: which zones can provide devices (pkg/kubelet/cm/devicemanager/topology_hints.go)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members, subsets
from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.node import NodeKind, NodeState

_ZoneSetsWithDevices = tuple[tuple[int, tuple[int, ...]], ...]
"""Sets of zones, and the indices of the kind's devices that are near each set."""


@lru_cache(maxsize=1 << 12)
def has_topology_alignment(kind: NodeKind, resource: str) -> bool:
    """Return whether any device of a resource is near some zones; its other devices then count as none.

    deviceHasTopologyAlignment.
    """
    return any(kind.devices[index].zones for index in kind.device_indices.get(resource, ()))


def generate_device_topology_hints(
    state: NodeState, resource: str, count: int, reusable: Mapping[int, int], *, include_not_preferred: bool
) -> Hints:
    """Return the sets of zones that can provide `count` devices of a resource that has_topology_alignment.

    A device near several zones counts for each set with any of them. Every class of reusable devices (counts by index
    into the kind's devices) must be near a zone of the set (generateDeviceTopologyHints).
    """
    kind = state.kind
    width = device_min_affinity_size(kind, resource, count)
    required = [
        kind.devices[index].zones for index, number in reusable.items() if number and _has_zones(kind, resource, index)
    ]
    indices = kind.device_indices[resource]
    reusable_count = sum(reusable[index] for index in indices if index in reusable and kind.devices[index].zones)
    free = state.device_free

    def fitting(size: int) -> tuple[int, ...]:
        sets = zone_sets_with_devices(kind, resource, size)
        enough = [zones for zones, near in sets if sum([free[index] for index in near]) + reusable_count >= count]
        return tuple([zones for zones in enough if all(zones & near for near in required)] if required else enough)

    if not include_not_preferred:
        return Hints(fitting(width))
    sizes = (size for size in range(1, len(device_zones(kind, resource)) + 1) if size != width)
    return Hints(fitting(width), tuple(zones for size in sizes for zones in fitting(size)))


def _has_zones(kind: NodeKind, resource: str, index: int) -> bool:
    device = kind.devices[index]
    return device.resource == resource and device.zones != 0


@lru_cache(maxsize=1 << 12)
def device_zones(kind: NodeKind, resource: str) -> tuple[int, ...]:
    """Return the zones of which sets are made: since 1.36 those near such devices (kubernetes#138244)."""
    near = 0
    if kind.policies.release >= (1, 36):
        for index in kind.device_indices[resource]:
            near |= kind.devices[index].zones & all_zones(kind)
    return members(near) or kind.zones


@lru_cache(maxsize=1 << 14)
def zone_sets_with_devices(kind: NodeKind, resource: str, size: int) -> _ZoneSetsWithDevices:
    """Return the sets of zones of a size, with the indices of the kind's devices near each set."""
    indices = kind.device_indices[resource]
    return tuple(
        (zones, tuple(index for index in indices if kind.devices[index].zones & zones))
        for zones, _ in subsets(device_zones(kind, resource), size)
    )


@lru_cache(maxsize=1 << 14)
def device_min_affinity_size(kind: NodeKind, resource: str, count: int) -> int:
    """Return how many zones have enough devices, busy and unhealthy ones included; all if none have."""
    zones = len(device_zones(kind, resource))
    for width in range(1, zones):
        for _, indices in zone_sets_with_devices(kind, resource, width):
            if sum(kind.devices[index].total for index in indices) >= count:
                return width
    return zones
