"""Devices of device plugins: how many the kubelet can give in each zone, and how many of them are left."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.allocations import checkpointed_devices
from zonewise.usage.types import Amount, SharedDevices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.kubelet.types import ContainerDevices, KubeletReport
    from zonewise.machine.model.machine import Machine
    from zonewise.usage.allocations import DeviceId
    from zonewise.usage.pod_matching import PodMatching

DeviceZones = dict["DeviceId", frozenset[int]]
"""The zones that each device is close to; none where that is unknown."""


class DeviceUsage(NamedTuple):
    """The devices of the node."""

    amounts: dict[int, dict[str, Amount]]
    """By zone and resource. A device that is close to several zones is one in each: it can be given to a pod of any
    of them, and is then gone from all (devicemanager/topology_hints.go)."""
    unzoned: dict[str, Amount]
    shared: tuple[SharedDevices, ...] = ()
    """Those in amounts that are close to several zones."""
    problems: tuple[str, ...] = ()


def device_usage(
    machine: Machine, report: KubeletReport, owners: PodMatching, excluded: frozenset[DeviceId]
) -> DeviceUsage:
    """Return how many devices there are, can be given, and are left; those that are excluded count as reserved.

    A device that is held and no longer offered, as it is unhealthy or its plugin is away, is there and cannot be given.
    """
    known = {zone.id for zone in machine.zones}
    offered = _places(report.allocatable.devices)
    held = _held(report, owners)
    places = held | offered
    by_zone: dict[int | None, set[DeviceId]] = defaultdict(set)
    by_zones: dict[tuple[int, ...], set[DeviceId]] = defaultdict(set)
    for device, zones in places.items():
        near = zones & known
        for zone in near or (None,):
            by_zone[zone].add(device)
        if len(near) > 1:
            by_zones[tuple(sorted(near))].add(device)
    given = offered.keys() - excluded
    left = given - held.keys()
    return DeviceUsage(
        {zone: _amounts(devices, given, left) for zone, devices in by_zone.items() if zone is not None},
        _amounts(by_zone[None], given, left) | _unseen(report, {resource for resource, _ in places}),
        tuple(sorted(_shared(by_zones, given, left))),
        tuple(_strange(places, known)),
    )


def _places(entries: Iterable[ContainerDevices]) -> DeviceZones:
    found: DeviceZones = {}
    for entry in entries:
        zones = frozenset(zone for zone in entry.zones if zone >= 0)  # -1 is a plugin's way to say "none"
        for one in entry.ids:
            device = (entry.resource, one)
            found[device] = found.get(device, frozenset()) | zones
    return found


def _held(report: KubeletReport, owners: PodMatching) -> DeviceZones:
    """Return the devices that pods hold; those left by init containers are in the checkpoint alone."""
    found = _places(devices for pod in report.pods for container in pod.containers for devices in container.devices)
    of_pods = set(checkpointed_devices(report.state, owners.alive))
    for entry in report.state.devices.entries if report.state.devices else ():
        for zone, ids in entry.ids_by_zone.items():
            for one in ids:
                device = (entry.resource, one)
                if device in of_pods:
                    found[device] = found.get(device, frozenset()) | ({zone} if zone >= 0 else frozenset())
    return found


def _amounts(devices: Iterable[DeviceId], given: set[DeviceId], left: set[DeviceId]) -> dict[str, Amount]:
    by_resource: dict[str, list[DeviceId]] = defaultdict(list)
    for device in devices:
        by_resource[device[0]].append(device)
    return {
        resource: Amount(len(group), len(given.intersection(group)), len(left.intersection(group)))
        for resource, group in sorted(by_resource.items())
    }


def _shared(
    by_zones: Mapping[tuple[int, ...], set[DeviceId]], given: set[DeviceId], left: set[DeviceId]
) -> Iterator[SharedDevices]:
    for zones, devices in by_zones.items():
        for resource, amount in _amounts(devices, given, left).items():
            yield SharedDevices(resource, zones, amount)


def _unseen(report: KubeletReport, seen: set[str]) -> dict[str, Amount]:
    """Return the resources that have a plugin and no healthy device: the kubelet refuses pods that ask for even 0.

    Where the others are it does not tell.
    """
    checkpoint = report.state.devices
    return (
        {resource: Amount(0, 0, 0) for resource in checkpoint.registered if resource not in seen} if checkpoint else {}
    )


def _strange(places: Mapping[DeviceId, frozenset[int]], known: set[int]) -> Iterable[str]:
    """Tell of devices in zones that there are none of, one sentence for each resource and zone."""
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for (resource, _), zones in places.items():
        for zone in zones - known:
            counts[resource, zone] += 1
    for (resource, zone), count in counts.items():
        yield f"{count} of {resource} are in zone {zone}, which this machine does not have"
