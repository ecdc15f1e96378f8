"""Allocatable devices that GetAllocatableResources does not report: those with an empty topology.

A plugin may send an empty topology instead of none. The kubelet then makes one entry of the device for each of its
zones, hence no entry at all (pkg/kubelet/cm/container_manager.go containerDevicesFromResourceDeviceInstances). Its
checkpoint has the ids of all healthy devices.
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
"""Pair of resource and id."""


class UnreportedDevices:
    """Adds unreported devices to those that the kubelet reports as allocatable."""

    def __init__(self, checkpoint: str, socket: str) -> None:
        """Use the checkpoint at a path, if it was written after the kubelet created its socket.

        A starting kubelet has no devices yet. It leaves the healthy devices of its last run in the checkpoint until it
        writes the file again (devicemanager/manager.go readCheckpoint).
        """
        self._checkpoint = checkpoint
        self._socket = socket
        self._reported: set[DeviceId] = set()

    def added_to(self, allocatable: Allocatable, registered: Mapping[str, Iterable[str]]) -> Allocatable:
        """Return everything allocatable: the reported devices, and the registered ids that were never reported.

        A device that was reported once has a zone, or has no topology. If it is not reported now, its plugin is gone,
        which the checkpoint does not show at once (PluginDisconnected).
        """
        self._reported |= {
            (devices.resource, device_id) for devices in allocatable.devices for device_id in devices.ids
        }
        if not self._is_checkpoint_current():
            return allocatable
        unreported = unreported_devices(registered, self._reported)
        return allocatable._replace(devices=(*allocatable.devices, *unreported)) if unreported else allocatable

    def _is_checkpoint_current(self) -> bool:
        try:
            return os.stat(self._checkpoint).st_mtime_ns >= os.stat(self._socket).st_mtime_ns
        except OSError:
            return False


def unreported_devices(
    registered: Mapping[str, Iterable[str]], reported: set[DeviceId]
) -> tuple[ContainerDevices, ...]:
    """Return the registered devices that were never reported, each without a zone."""
    ids_by_resource: dict[str, list[str]] = defaultdict(list)
    for resource, ids in sorted(registered.items()):
        for device_id in sorted(ids):
            if (resource, device_id) not in reported:
                ids_by_resource[resource].append(device_id)
    return tuple(ContainerDevices(resource, tuple(ids)) for resource, ids in ids_by_resource.items())
