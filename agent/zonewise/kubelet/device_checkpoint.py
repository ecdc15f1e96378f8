"""kubelet_internal_checkpoint: plugin devices allocated to containers, and devices that plugins have registered.

Source: pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from zonewise.kubelet.checkpoint import CheckpointReader, ParsedCheckpoint
from zonewise.kubelet.types import DeviceCheckpoint, PodDevicesEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NODE_WITHOUT_TOPOLOGY = -1
"""The zone of a device without topology (cm/devicemanager/pod_devices.go nodeWithoutTopology)."""


def parse_device_checkpoint(content: bytes, path: str) -> ParsedCheckpoint[DeviceCheckpoint]:
    """Return the content of the file, in either version: device ids by NUMA node, or, before 1.20, as a plain list."""
    file = CheckpointReader(path)
    document = file.document(content)
    if not document:
        return file.parsed(None)
    data: Mapping[str, Any] = dict(file.entries("Data", document.get("Data")))
    if not data:
        file.problem("Data", document.get("Data"), "holds nothing")
        return file.parsed(None)
    entries = tuple(_entries(file, data.get("PodDeviceEntries")))
    registered = {
        resource: file.texts(f"Data.RegisteredDevices.{resource}", ids)
        for resource, ids in file.entries("Data.RegisteredDevices", data.get("RegisteredDevices"))
    }
    return file.parsed(DeviceCheckpoint(entries, registered))


def _entries(file: CheckpointReader, value: object) -> Iterator[PodDevicesEntry]:
    for entry_field, entry in file.items("Data.PodDeviceEntries", value):
        content: Mapping[str, Any] = dict(file.entries(entry_field, entry))
        uid = file.text(f"{entry_field}.PodUID", content.get("PodUID"))
        container = file.text(f"{entry_field}.ContainerName", content.get("ContainerName"))
        resource = file.text(f"{entry_field}.ResourceName", content.get("ResourceName"))
        if uid is not None and container is not None and resource is not None:
            ids = dict(_ids_by_zone(file, f"{entry_field}.DeviceIDs", content.get("DeviceIDs")))
            yield PodDevicesEntry(uid, container, resource, ids)


def _ids_by_zone(file: CheckpointReader, field: str, value: object) -> Iterator[tuple[int, tuple[str, ...]]]:
    if isinstance(value, list):
        yield NODE_WITHOUT_TOPOLOGY, file.texts(field, cast("list[object]", value))
        return
    for name, ids in file.entries(field, value):
        zone = file.zone(field, name, NODE_WITHOUT_TOPOLOGY)
        if zone is not None:
            yield zone, file.texts(f"{field}.{name}", ids)
