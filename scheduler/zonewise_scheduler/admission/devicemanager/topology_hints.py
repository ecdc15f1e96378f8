"""Hints of the Device Manager: the zones that can provide devices (pkg/kubelet/cm/devicemanager/topology_hints.go)."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members, set_sizes, subsets
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.topologymanager.wide_merge import wide_hints
from zonewise_scheduler.admission.topologymanager.zone_sums import (
    check_zone_count,
    meet,
    sizes,
    sums,
    to_index,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.topologymanager.wide_merge import WideHints
    from zonewise_scheduler.admission.topologymanager.zone_sums import Integers

_ZoneSetsWithDevices = tuple[tuple[int, tuple[int, ...]], ...]
"""Sets of zones, and the indices of the kind's devices that are near each set."""


@lru_cache(maxsize=1 << 12)
def has_topology_alignment(kind: NodeKind, resource: str) -> bool:
    """Return whether the plugin names zones for any device of a resource (deviceHasTopologyAlignment).

    If so, the resource's devices without zones do not count in its hints.
    """
    return any(kind.devices[index].zones for index in kind.device_indices.get(resource, ()))


def note_doubts(context: AdmissionContext, resource: str, count: int) -> None:
    """Record the unknown facts on which the hints for `count` devices of a resource depend."""
    context.note_random_pick(resource)
    kind = context.state.kind
    if kind.unplaced_devices and not _is_affinity_size_certain(kind, resource, count):
        context.note(f"nothing is known about the zones of unhealthy {resource}, which count in the kubelet's hints")


def generate_device_topology_hints(
    state: NodeState, resource: str, count: int, reusable: Mapping[int, int], *, include_not_preferred: bool
) -> Hints:
    """Return the sets of zones that can provide `count` devices of a resource with topology alignment.

    A device near several zones counts for each set that contains any of them. `reusable` has counts by index into the
    kind's devices. Each of these classes must be near a zone of the set (generateDeviceTopologyHints).
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
    wider = set_sizes(device_zones(kind, resource))[width:]  # smaller sets have too few, busy ones included
    return Hints(fitting(width), tuple(zones for size in wider for zones in fitting(size)))


def generate_wide_device_hints(state: NodeState, resource: str, count: int, reusable: Mapping[int, int]) -> WideHints:
    """Return the hints of generate_device_topology_hints for a node with too many zones to list the sets."""
    kind = state.kind
    zones = device_zones(kind, resource)
    check_zone_count(len(zones), resource)
    indices = kind.device_indices[resource]
    near = {index: to_index(zones, kind.devices[index].zones) for index in indices}
    free = _wide_sums(len(zones), [(near[index], state.device_free[index]) for index in indices])
    required = [near[index] for index, number in reusable.items() if number and _has_zones(kind, resource, index)]
    reusable_count = sum(reusable[index] for index in indices if index in reusable and kind.devices[index].zones)
    fits = free + reusable_count >= count
    for zone_set in required:
        fits &= meet(len(zones), zone_set)
    return wide_hints(zones, fits, sizes(len(zones)) == device_min_affinity_size(kind, resource, count))


def _wide_sums(zone_count: int, counts: list[tuple[int, int]]) -> Integers:
    """Return how many devices are near each set of zones; `counts` has sets and the number of devices near each."""
    single = [sum(count for near, count in counts if near == 1 << zone) for zone in range(zone_count)]
    result: Integers = sums(single)
    for near, count in counts:
        if near & (near - 1):
            result += meet(zone_count, near) * count
    return result


def _has_zones(kind: NodeKind, resource: str, index: int) -> bool:
    device = kind.devices[index]
    return device.resource == resource and bool(device.zones)


@lru_cache(maxsize=1 << 12)
def device_zones(kind: NodeKind, resource: str) -> tuple[int, ...]:
    """Return the zones in a resource's hints: since 1.36, only zones near its devices (kubernetes#138244)."""
    near = near_zones(kind, resource) if kind.policies.release >= (1, 36) else 0
    return members(near) or kind.zones


@lru_cache(maxsize=1 << 12)
def near_zones(kind: NodeKind, resource: str) -> int:
    """Return the set of the node's zones near any device of a resource."""
    near = 0
    for index in kind.device_indices[resource]:
        near |= kind.devices[index].zones & all_zones(kind)
    return near


@lru_cache(maxsize=1 << 14)
def zone_sets_with_devices(kind: NodeKind, resource: str, size: int) -> _ZoneSetsWithDevices:
    """Return the sets of `size` zones, with the indices of the kind's devices near each set."""
    indices = kind.device_indices[resource]
    return tuple(
        (zones, tuple(index for index in indices if kind.devices[index].zones & zones))
        for zones, _ in subsets(device_zones(kind, resource), size)
    )


@lru_cache(maxsize=1 << 14)
def device_min_affinity_size(kind: NodeKind, resource: str, count: int) -> int:
    """Return the smallest number of zones with enough devices, busy and unhealthy ones included; all if none do."""
    return _min_size(kind, resource, count, [device.total for device in kind.devices])


@lru_cache(maxsize=1 << 14)
def _is_affinity_size_certain(kind: NodeKind, resource: str, count: int) -> bool:
    """Return whether device_min_affinity_size is the same wherever the unplaced unhealthy devices are."""
    placed = [device.total for device in kind.devices]
    unplaced = 0
    for index, number in kind.unplaced_devices:
        if kind.devices[index].resource == resource:
            placed[index] -= number
            unplaced += number
    return _min_size(kind, resource, count, placed) == _min_size(kind, resource, count - unplaced, placed)


def _min_size(kind: NodeKind, resource: str, count: int, totals: Sequence[int]) -> int:
    """Return the size of the smallest sets near `count` devices, given `totals` by class; all zones if none suffice."""
    zones = device_zones(kind, resource)
    indices = kind.device_indices[resource]
    if all((kind.devices[index].zones & all_zones(kind)).bit_count() < 2 for index in indices):
        by_zone = [sum(totals[index] for index in indices if kind.devices[index].zones >> zone & 1) for zone in zones]
        sums_of_largest = accumulate(sorted(by_zone, reverse=True))
        return next((width for width, most in enumerate(sums_of_largest, 1) if most >= count), len(zones))
    check_zone_count(len(zones), resource)
    near = [(to_index(zones, kind.devices[index].zones), totals[index]) for index in indices]
    sufficient = _wide_sums(len(zones), near)[1:] >= count
    return int(sizes(len(zones))[1:][sufficient].min(initial=len(zones)))
