"""ResourceClaims that hold devices, reduced to the devices and to the pod for which the claim was made (KEP-4381).

A claim that several pods may use names no pod. Devices with admin access are not allocated, and those that claims
share remain available. Source: plugins/dynamicresources/allocateddevices.go foreachAllocatedDevice.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS

if TYPE_CHECKING:
    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.nodes.devices.provided_devices import PoolKey

_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that kube-scheduler has made for the extended resources of a pod (KEP-5004)."""


class _Owner(msgspec.Struct, omit_defaults=True):
    kind: str = ""
    name: str = ""
    controller: bool = False


class _ClaimMetadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []


class _Exactly(msgspec.Struct, rename="camel", omit_defaults=True):
    device_class_name: str = ""


class _DeviceRequest(msgspec.Struct, omit_defaults=True):
    name: str
    exactly: _Exactly | None = None


class _DeviceRequests(msgspec.Struct, omit_defaults=True):
    requests: list[_DeviceRequest] = []


class _Result(msgspec.Struct, rename="camel", omit_defaults=True):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")


class _Results(msgspec.Struct, omit_defaults=True):
    results: list[_Result] = []


class _NodeSelector(msgspec.Struct, rename="camel", omit_defaults=True):
    node_selector_terms: list[dict[str, Any]] = []


class _Allocation(msgspec.Struct, rename="camel", omit_defaults=True):
    devices: _Results = msgspec.field(default_factory=_Results)
    node_selector: _NodeSelector | None = None


class _ClaimStatus(msgspec.Struct, omit_defaults=True):
    allocation: _Allocation | None = None


class _ClaimSpec(msgspec.Struct, omit_defaults=True):
    devices: _DeviceRequests = msgspec.field(default_factory=_DeviceRequests)


class _Claim(msgspec.Struct, omit_defaults=True):
    metadata: _ClaimMetadata
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)


class HeldDevice(NamedTuple):
    """A device that a claim holds."""

    pool: PoolKey
    name: str
    resource: str
    """The resource that names its DeviceClass; "": the request allows several kinds of devices."""


class AllocatedClaim(NamedTuple):
    """A ResourceClaim."""

    namespace: str
    name: str
    pod: str
    """Name of the pod for which it was made; "": a user has made it, or it belongs to several pods."""
    is_extended: bool
    """Whether kube-scheduler has made it for extended resources of the pod."""
    devices: tuple[HeldDevice, ...]
    """The devices that it holds; empty: it is not allocated."""
    nodes: tuple[Json, ...] = ()
    """Terms of the selector of its nodes, if it names no pod; empty: it restricts no pod."""


_CLAIM = msgspec.json.Decoder(_Claim)


def decode_claim(raw: msgspec.Raw | bytes) -> AllocatedClaim:
    """Decode a resource.k8s.io/v1 ResourceClaim. Raises msgspec.DecodeError."""
    claim = _CLAIM.decode(raw)
    metadata, allocation = claim.metadata, claim.status.allocation
    classes = {each.name: each.exactly.device_class_name for each in claim.spec.devices.requests if each.exactly}
    pods = (owner.name for owner in metadata.owner_references if owner.controller and owner.kind == "Pod")
    devices = (
        HeldDevice(
            (intern(each.driver), intern(each.pool)),
            intern(each.device),
            intern(f"{DEVICE_CLASS}{classes[each.request]}") if each.request in classes else "",
        )
        for each in (() if allocation is None else allocation.devices.results)
        if not each.admin_access and each.share_id is None
    )
    pod = next(pods, "")
    selector = None if allocation is None or pod else allocation.node_selector
    return AllocatedClaim(
        metadata.namespace,
        metadata.name,
        pod,
        metadata.annotations.get(_EXTENDED_RESOURCES) == "true",
        tuple(devices),
        () if selector is None else tuple(selector.node_selector_terms),
    )
