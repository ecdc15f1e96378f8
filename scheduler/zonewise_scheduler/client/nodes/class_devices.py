"""The devices of DeviceClasses on nodes: how many there are at most, and how many of them no claim holds.

They are counted as for placements (nodes/devices/provided_devices.py), but every allocated claim holds its devices.
Devices that any number of claims can share have no number, and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from zonewise_scheduler.client.nodes.node_facts import ClassDevices
from zonewise_scheduler.nodes.devices.allocated_claims import decode_claim
from zonewise_scheduler.nodes.devices.provided_devices import UNLIMITED, ProvidedDevices, device_resources
from zonewise_scheduler.nodes.devices.resource_slices import decode_slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.client.cluster.session import Session
    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim
    from zonewise_scheduler.nodes.devices.provided_devices import PoolKey
    from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice

Json = dict[str, Any]


class ClusterDevices(NamedTuple):
    """The devices in the ResourceSlices of a cluster, and those that claims hold."""

    provided: ProvidedDevices
    held: Mapping[PoolKey, set[str]] | None
    """The devices that claims hold, by pool; None if unknown."""

    def on_node(self, node: NodeAvailability, labels: Mapping[str, str]) -> NodeAvailability:
        """Return a node with the devices of each class, and with the extended resources that classes provide.

        Raises ValueError for a slice that no API server accepts.
        """
        if not self.provided.may_provide(node.name):
            return node
        totals = self.provided.counts(node.name, labels)
        free = None if self.held is None else self.provided.counts(node.name, labels, self.held)
        of_classes: dict[str, ClassDevices] = {}
        allocatable, requested = dict(node.allocatable), node.requested
        for resource in self.provided.resources:
            name, total = resource.name, totals[resource.name]
            if not 0 < total < UNLIMITED:
                continue
            if resource.tolerant:
                of_classes[resource.device_class] = ClassDevices(None if free is None else free[name], total)
            elif not allocatable.get(name):
                allocatable[name] = total
                if requested is not None and free is not None:
                    requested = {**requested, name: total - free[name]}
        return node._replace(allocatable=allocatable, requested=requested, class_devices=of_classes)


def read_cluster_devices(session: Session, notes: list[str]) -> ClusterDevices | None:
    """Return the devices of DeviceClasses; None if there are none. Missing data become notes. Raises KubeError."""
    devices = ProvidedDevices()
    try:
        classes = session.list(DEVICE_CLASSES)
        slices = session.read(RESOURCE_SLICES, _read_slice) if classes else []
    except Forbidden as error:
        notes.append(f"The devices of DeviceClasses are unknown: {error.message}")
        return None
    if not slices:
        return None
    devices.set_resources(device_resources(classes))
    for each in slices:
        devices.observe_slice(each.name, each)
    devices.end_listing()
    try:
        return ClusterDevices(devices, _held(session.read(RESOURCE_CLAIMS, _read_claim)))
    except Forbidden as error:
        notes.append(f"The free devices of DeviceClasses are unknown: {error.message}")
        return ClusterDevices(devices, None)


def _read_slice(obj: Json) -> ResourceSlice:
    return decode_slice(msgspec.json.encode(obj))


def _read_claim(obj: Json) -> AllocatedClaim:
    return decode_claim(msgspec.json.encode(obj))


def _held(claims: list[AllocatedClaim]) -> dict[PoolKey, set[str]]:
    held: dict[PoolKey, set[str]] = {}
    for device in (device for claim in claims for device in claim.devices):
        held.setdefault(device.pool, set()).add(device.name)
    return held
