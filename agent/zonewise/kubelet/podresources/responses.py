"""Responses of the PodResources API as values: joined, sorted, and with malformed parts dropped and reported.

Quirks of the kubelet that this module hides (k8s.io/kubernetes pkg/kubelet/cm/container_manager_linux.go and
apis/podresources/server_v1.go):

- A device close to several zones is listed once for each zone.
- Pods, CPUs and devices are in the random order of Go's maps.
- -1 stands for "no NUMA node".
- Claimed devices are repeated (kubernetes#141335).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from zonewise.kubelet.errors import BadResponse
from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb
from zonewise.kubelet.types import (
    NO_ZONE,
    Allocatable,
    ClaimedDevice,
    ContainerDevices,
    ContainerResources,
    MemoryBlock,
    PodResources,
)
from zonewise_common.k8s.cpuset import MAX_CPUS, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

POD_LEVEL_CONTAINER = ""
"""The name of the container that stands for the pod-level resources beyond the containers (KEP-5526)."""

_MAX_ZONES = 1024  # CONFIG_NODES_SHIFT is at most 10 (arch/*/Kconfig)
_SHOWN = 8

M = TypeVar("M", bound=Message)


class ListResponse(NamedTuple):
    """The decoded response of List."""

    pods: tuple[PodResources, ...]
    """Pods by namespace and name; containers in the kubelet's order, restartable init containers first."""
    problems: tuple[str, ...] = ()


class AllocatableResponse(NamedTuple):
    """The decoded response of GetAllocatableResources."""

    allocatable: Allocatable
    problems: tuple[str, ...] = ()


def decode_list(response: bytes) -> ListResponse:
    """Decode a ListPodResourcesResponse; raise BadResponse if the bytes are not one."""
    message = _parse(pb.ListPodResourcesResponse, response)
    problems: list[str] = []
    pods = [_pod(pod, problems) for pod in message.pod_resources]
    return ListResponse(tuple(sorted(pods, key=lambda pod: pod[:2])), tuple(problems))


def decode_allocatable(response: bytes) -> AllocatableResponse:
    """Decode an AllocatableResourcesResponse; raise BadResponse if the bytes are not one."""
    message = _parse(pb.AllocatableResourcesResponse, response)
    problems: list[str] = []
    allocatable = Allocatable(
        _cpus(message.cpu_ids, "allocatable", problems),
        _devices(message.devices, "allocatable", problems),
        _memory(message.memory, "allocatable", problems),
    )
    return AllocatableResponse(allocatable, tuple(problems))


def _parse(kind: type[M], response: bytes) -> M:
    try:
        return kind.FromString(response)
    except DecodeError as error:
        raise BadResponse(f"{len(response)} bytes are no {kind.DESCRIPTOR.full_name}: {error}") from error


def _pod(message: pb.PodResources, problems: list[str]) -> PodResources:
    where = f"pod {message.namespace}/{message.name}"
    containers = tuple(_container(container, where, problems) for container in message.containers)
    if message.cpu_ids or message.memory:
        containers += _pod_level_resources(message, containers, where, problems)
    return PodResources(message.namespace, message.name, containers)


def _container(message: pb.ContainerResources, where: str, problems: list[str]) -> ContainerResources:
    where = f"{where}, container {message.name}"
    return ContainerResources(
        message.name,
        _cpus(message.cpu_ids, where, problems),
        _devices(message.devices, where, problems),
        _memory(message.memory, where, problems),
        _claimed(message.dynamic_resources),
    )


def _pod_level_resources(
    message: pb.PodResources, containers: tuple[ContainerResources, ...], where: str, problems: list[str]
) -> tuple[ContainerResources, ...]:
    """Return the pod-level resources beyond the containers, as an additional container; none if the containers have all
    of them.

    A container's block is cut from a block of the pod with the same zones (memorymanager/policy_static.go AllocatePod).
    """
    cpus = _cpus(message.cpu_ids, where, problems) - CpuSet.union(container.cpus for container in containers)
    remaining: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for block in _memory(message.memory, where, problems):
        remaining[block.type, block.zones] += block.size
    for block in (block for container in containers for block in container.memory):
        if (block.type, block.zones) in remaining:
            remaining[block.type, block.zones] -= block.size
    memory = tuple(MemoryBlock(kind, size, zones) for (kind, zones), size in sorted(remaining.items()) if size > 0)
    return (ContainerResources(POD_LEVEL_CONTAINER, cpus, memory=memory),) if cpus or memory else ()


def _cpus(ids: Iterable[int], where: str, problems: list[str]) -> CpuSet:
    try:
        return CpuSet(ids)
    except ValueError:
        known, unknown = _split_range(ids, MAX_CPUS)
        problems.append(f"{where}: cpu_ids: {_shown(unknown)} outside 0..{MAX_CPUS - 1}; left out")
        return CpuSet(known)


def _devices(entries: Iterable[pb.ContainerDevices], where: str, problems: list[str]) -> tuple[ContainerDevices, ...]:
    zones_by_device: dict[tuple[str, str], tuple[int, ...]] = {}
    for entry in entries:
        resource = entry.resource_name
        zones = _zones(entry.topology, where, resource, problems) or ((NO_ZONE,) if entry.topology.nodes else ())
        for device in entry.device_ids:
            known = zones_by_device.get((resource, device), zones)
            zones_by_device[resource, device] = zones if known == zones else _joined(known, zones)
    ids_by_zones: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (resource, device), near in zones_by_device.items():
        ids_by_zones.setdefault((resource, near), []).append(device)
    return tuple(
        ContainerDevices(resource, tuple(sorted(ids_by_zones[resource, zones])), zones)
        for resource, zones in sorted(ids_by_zones)
    )


def _joined(zones: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    """Return the zones of two entries of a device: NO_ZONE only if neither names another zone."""
    joined = {*zones, *more}
    return tuple(sorted(joined - {NO_ZONE} or joined))


def _memory(entries: Iterable[pb.ContainerMemory], where: str, problems: list[str]) -> tuple[MemoryBlock, ...]:
    blocks = (
        MemoryBlock(
            entry.memory_type,
            entry.size,
            _zones(entry.topology, where, entry.memory_type, problems),
        )
        for entry in entries
    )
    return tuple(sorted(blocks, key=lambda block: (block.type, block.zones, block.size)))


def _zones(topology: pb.TopologyInfo, where: str, field: str, problems: list[str]) -> tuple[int, ...]:
    zones = sorted({node.ID for node in topology.nodes})
    if not zones or (zones[0] >= 0 and zones[-1] < _MAX_ZONES):
        return tuple(zones)
    known, unknown = _split_range(zones, _MAX_ZONES)
    if any(zone != NO_ZONE for zone in unknown):
        problems.append(f"{where}: {field}: NUMA node {_shown(unknown)} outside 0..{_MAX_ZONES - 1}; left out")
    return tuple(known)


def _claimed(entries: Iterable[pb.DynamicResource]) -> tuple[ClaimedDevice, ...]:
    devices = {
        ClaimedDevice(
            resource.driver_name,
            resource.pool_name,
            resource.device_name,
            f"{entry.claim_namespace}/{entry.claim_name}",
            resource.share_id if resource.HasField("share_id") else None,
        )
        for entry in entries
        for resource in entry.claim_resources
    }
    # None cannot be compared with text; "no share" sorts before the share of an empty name
    return tuple(sorted(devices, key=lambda device: (*device[:4], device.share is not None, device.share or "")))


def _split_range(ids: Iterable[int], end: int) -> tuple[list[int], list[int]]:
    """Return the ids in 0..end-1, and the other ids."""
    numbers = list(ids)
    return [number for number in numbers if 0 <= number < end], [number for number in numbers if not 0 <= number < end]


def _shown(ids: list[int]) -> str:
    return ", ".join(str(number) for number in ids[:_SHOWN]) + (
        f" and {len(ids) - _SHOWN} more" if ids[_SHOWN:] else ""
    )
