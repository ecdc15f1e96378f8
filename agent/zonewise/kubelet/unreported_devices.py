"""Devices that can be given and that GetAllocatableResources does not tell of: those with a topology of no zone.

A plugin may send an empty topology where it could send none. The kubelet then makes an entry of the device for each of
its zones, which is no entry at all (pkg/kubelet/cm/container_manager.go containerDevicesFromResourceDeviceInstances).
Its checkpoint has the ids of all healthy devices.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from zonewise.kubelet.types import ContainerDevices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.kubelet.types import Allocatable

DeviceId = tuple[str, str]
"""Resource and id."""


class UnreportedDevices:
    """Completes what the kubelet says it can give."""

    def __init__(self, checkpoint: str, socket: str) -> None:
        """Believe the checkpoint, a path, where it was written after the kubelet made its socket.

        Until it writes it again, a kubelet that starts leaves in it what was healthy before, while it has no devices
        yet (devicemanager/manager.go readCheckpoint).
        """
        self._checkpoint = checkpoint
        self._socket = socket
        self._told: set[DeviceId] = set()

    def added_to(self, allocatable: Allocatable, registered: Mapping[str, Iterable[str]]) -> Allocatable:
        """Return all that can be given: what was told, and those of the registered ids that were never told.

        What was told once has a zone, or has no topology; where it is not told now, its plugin is away, of which
        nothing is written down at once (PluginDisconnected).
        """
        self._told |= {(devices.resource, one) for devices in allocatable.devices for one in devices.ids}
        if not self._written_since_the_start():
            return allocatable
        more = unreported_devices(registered, self._told)
        return allocatable._replace(devices=(*allocatable.devices, *more)) if more else allocatable

    def _written_since_the_start(self) -> bool:
        try:
            return os.stat(self._checkpoint).st_mtime_ns >= os.stat(self._socket).st_mtime_ns
        except OSError:
            return False


def unreported_devices(
    registered: Mapping[str, Iterable[str]], reported: set[DeviceId]
) -> tuple[ContainerDevices, ...]:
    """Return the registered devices that were never told of, each of no zone."""
    found: dict[str, list[str]] = defaultdict(list)
    for resource, ids in sorted(registered.items()):
        for one in sorted(ids):
            if (resource, one) not in reported:
                found[resource].append(one)
    return tuple(ContainerDevices(resource, tuple(ids)) for resource, ids in found.items())
