"""Converts values to messages of the kubelet's APIs, with an entry for each device and zone, as in the kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb
from zonewise.kubelet.pods.v1alpha1 import pods_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import (
        Allocatable,
        ClaimedDevice,
        ContainerDevices,
        ContainerResources,
        MemoryBlock,
        PodResources,
    )
    from zonewise_sandbox.kubelet.types import PodSpec


def encode_list(pods: Iterable[PodResources]) -> pb.ListPodResourcesResponse:
    """Return the response to List."""
    return pb.ListPodResourcesResponse(
        pod_resources=(
            pb.PodResources(name=pod.name, namespace=pod.namespace, containers=map(_container, pod.containers))
            for pod in pods
        )
    )


def encode_allocatable(allocatable: Allocatable) -> pb.AllocatableResourcesResponse:
    """Return the response to GetAllocatableResources."""
    return pb.AllocatableResourcesResponse(
        devices=_devices(allocatable.devices), cpu_ids=allocatable.cpus, memory=map(_memory, allocatable.memory)
    )


def encode_event(kind: pods_pb2.EventType, pod: PodSpec | None = None, phase: str = "") -> pods_pb2.WatchPodsEvent:
    """Return an event of the Pods API; for a deleted pod it contains only the name, namespace and UID."""
    if pod is None:
        return pods_pb2.WatchPodsEvent(type=kind)
    deleted = kind == pods_pb2.DELETED
    metadata = pods_pb2.ObjectMeta(
        name=pod.name, namespace=pod.namespace, uid=pod.uid, labels=None if deleted else pod.labels
    )
    message = pods_pb2.Pod(metadata=metadata, status=None if deleted else pods_pb2.PodStatus(phase=phase))
    return pods_pb2.WatchPodsEvent(type=kind, pod=message.SerializeToString())


def _container(container: ContainerResources) -> pb.ContainerResources:
    return pb.ContainerResources(
        name=container.name,
        devices=_devices(container.devices),
        cpu_ids=container.cpus,
        memory=map(_memory, container.memory),
        dynamic_resources=map(_claimed, container.claimed),
    )


def _devices(devices: Iterable[ContainerDevices]) -> Iterator[pb.ContainerDevices]:
    for group in devices:
        for device in group.ids:
            if not group.zones:
                yield pb.ContainerDevices(resource_name=group.resource, device_ids=[device])
            for zone in group.zones:
                topology = _topology((zone,))
                yield pb.ContainerDevices(resource_name=group.resource, device_ids=[device], topology=topology)


def _memory(block: MemoryBlock) -> pb.ContainerMemory:
    return pb.ContainerMemory(memory_type=block.type, size=block.size, topology=_topology(block.zones))


def _topology(zones: tuple[int, ...]) -> pb.TopologyInfo:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=zone) for zone in zones])


def _claimed(device: ClaimedDevice) -> pb.DynamicResource:
    namespace, _, name = device.claim.partition("/")
    resource = pb.ClaimResource(driver_name=device.driver, pool_name=device.pool, device_name=device.device)
    if device.share is not None:
        resource.share_id = device.share
    return pb.DynamicResource(claim_name=name, claim_namespace=namespace, claim_resources=[resource])
