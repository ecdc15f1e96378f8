"""Devices of device plugins: how many are allocatable in each zone, and how many are available."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise.kubelet.types import NO_ZONE
from zonewise.usage.allocations import checkpointed_devices
from zonewise.usage.types import Amount, ExcludedAmount, SharedDevices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.kubelet.types import ContainerDevices, KubeletReport
    from zonewise.machine.model.machine import Machine
    from zonewise.usage.allocations import DeviceId
    from zonewise.usage.pod_matching import PodMatching

DeviceZones = dict["DeviceId", frozenset[int]]
"""The zones that each device is close to; empty if unknown."""


class DeviceUsage(NamedTuple):
    """The devices of the node."""

    amounts: dict[int, dict[str, Amount]]
    """Amounts by zone and resource. A device close to several zones counts in each of them. It can be allocated to a
    pod of any of these zones, and is then unavailable in all (devicemanager/topology_hints.go)."""
    unzoned: dict[str, Amount]
    shared: tuple[SharedDevices, ...] = ()
    """Devices in `amounts` that are close to several zones."""
    problems: tuple[str, ...] = ()
    excluded: tuple[ExcludedAmount, ...] = ()
    """Healthy devices of excluded pods, by the zones that they are close to."""
    absent: tuple[SharedDevices, ...] = ()
    """Devices in `unzoned` whose plugin names only zones that the machine lacks, by these zones; (NO_ZONE,)
    means -1."""


def device_usage(
    machine: Machine, report: KubeletReport, owners: PodMatching, excluded: frozenset[DeviceId]
) -> DeviceUsage:
    """Return how many devices exist, are allocatable, and are available; excluded devices count as reserved.

    A device that is held and no longer healthy, or whose plugin is gone, exists but is not allocatable.
    """
    known = {zone.id for zone in machine.zones}
    healthy = device_zones(report.allocatable.devices)
    held = _held_devices(report, owners)
    all_zones = held | healthy
    by_zone: dict[int | None, set[DeviceId]] = defaultdict(set)
    by_zones: dict[tuple[int, ...], set[DeviceId]] = defaultdict(set)
    for device, zones in all_zones.items():
        near = zones & known
        for zone in near or (None,):
            by_zone[zone].add(device)
        if len(near) > 1:
            by_zones[tuple(sorted(near))].add(device)
    usable = healthy.keys() - excluded
    available = usable - held.keys()
    return DeviceUsage(
        {zone: _amounts(devices, usable, available) for zone, devices in by_zone.items() if zone is not None},
        _amounts(by_zone[None], usable, available)
        | _without_healthy_devices(report, {resource for resource, _ in all_zones}),
        tuple(sorted(_shared(by_zones, usable, available))),
        tuple(_unknown_zones(all_zones, known)),
        tuple(_excluded({device: all_zones[device] & known for device in healthy.keys() & excluded})),
        tuple(sorted(_shared(_absent_zones(report, by_zone[None], all_zones), usable, available))),
    )


def _absent_zones(
    report: KubeletReport, devices: Iterable[DeviceId], zones_by_device: DeviceZones
) -> dict[tuple[int, ...], set[DeviceId]]:
    """Return devices outside the machine's zones, by the zones that their plugin names; devices without any zone are
    left out.

    The kubelet aligns resources if the plugin names any zone (devicemanager/topology_hints.go
    deviceHasTopologyAlignment), whether or not the zone exists.
    """
    held = (entry for pod in report.pods for container in pod.containers for entry in container.devices)
    named = {
        (entry.resource, device_id)
        for entry in chain(report.allocatable.devices, held)
        if entry.zones
        for device_id in entry.ids
    }
    by_zones: dict[tuple[int, ...], set[DeviceId]] = defaultdict(set)
    for device in named.intersection(devices):
        by_zones[tuple(sorted(zones_by_device[device])) or (NO_ZONE,)].add(device)
    return by_zones


def device_zones(entries: Iterable[ContainerDevices]) -> DeviceZones:
    """Return the zones of devices, without the -1 of devices that have no zone."""
    zones_by_device: DeviceZones = {}
    for entry in entries:
        zones = frozenset(zone for zone in entry.zones if zone >= 0)  # -1 means "none" for a device plugin
        for device_id in entry.ids:
            device = (entry.resource, device_id)
            zones_by_device[device] = zones_by_device.get(device, frozenset()) | zones
    return zones_by_device


def _held_devices(report: KubeletReport, owners: PodMatching) -> DeviceZones:
    """Return the devices that pods hold; devices of ended init containers are only in the checkpoint."""
    zones_by_device = device_zones(
        devices for pod in report.pods for container in pod.containers for devices in container.devices
    )
    active = set(checkpointed_devices(report.state, owners.alive))
    for entry in report.state.devices.entries if report.state.devices else ():
        for zone, ids in entry.ids_by_zone.items():
            for device_id in ids:
                device = (entry.resource, device_id)
                if device in active:
                    zones_by_device[device] = zones_by_device.get(device, frozenset()) | (
                        {zone} if zone >= 0 else frozenset()
                    )
    return zones_by_device


def _amounts(devices: Iterable[DeviceId], usable: set[DeviceId], available: set[DeviceId]) -> dict[str, Amount]:
    by_resource: dict[str, list[DeviceId]] = defaultdict(list)
    for device in devices:
        by_resource[device[0]].append(device)
    return {
        resource: Amount(len(group), len(usable.intersection(group)), len(available.intersection(group)))
        for resource, group in sorted(by_resource.items())
    }


def _shared(
    by_zones: Mapping[tuple[int, ...], set[DeviceId]], usable: set[DeviceId], available: set[DeviceId]
) -> Iterator[SharedDevices]:
    for zones, devices in by_zones.items():
        for resource, amount in _amounts(devices, usable, available).items():
            yield SharedDevices(resource, zones, amount)


def _excluded(zones_by_device: DeviceZones) -> Iterator[ExcludedAmount]:
    counts = Counter((resource, tuple(sorted(zones))) for (resource, _), zones in zones_by_device.items())
    for (resource, zones), count in counts.items():
        yield ExcludedAmount(resource, zones, count)


def _without_healthy_devices(report: KubeletReport, known: set[str]) -> dict[str, Amount]:
    """Return the resources that have a plugin but no healthy device: the kubelet rejects pods that request even 0 of
    them.

    The zones of these devices are unknown.
    """
    checkpoint = report.state.devices
    return (
        {resource: Amount(0, 0, 0) for resource in checkpoint.registered if resource not in known} if checkpoint else {}
    )


def _unknown_zones(zones_by_device: Mapping[DeviceId, frozenset[int]], known: set[int]) -> Iterable[str]:
    """Report devices in zones that the machine does not have, as one sentence for each resource and zone."""
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for (resource, _), zones in zones_by_device.items():
        for zone in zones - known:
            counts[resource, zone] += 1
    for (resource, zone), count in counts.items():
        yield f"{count} of {resource} are in zone {zone}, which this machine does not have"
