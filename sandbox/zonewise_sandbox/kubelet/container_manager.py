"""The container manager of a simulated kubelet: the node's resources, their holders, and the PodResources view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.kubelet.types import (
    Allocatable,
    ContainerDevices,
    ContainerResources,
    MemoryBlock,
    MemoryTable,
    NumaNodeState,
    PodResources,
)
from zonewise_common.k8s.cpuset import EMPTY, CpuSet
from zonewise_sandbox.kubelet.allocation import Allocation, FreeResources, admit
from zonewise_sandbox.kubelet.types import NO_AMOUNTS, ExclusiveRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import KubeletConfig
    from zonewise_sandbox.kubelet.types import ContainerSpec, PodSpec, SimulatedDevice, SimulatedZone

MEMORY = "memory"


class ContainerManager:
    """CPU Manager, Memory Manager and Device Manager of one node, with the pods that run on it."""

    def __init__(
        self, zones: Iterable[SimulatedZone], devices: Iterable[SimulatedDevice], config: KubeletConfig
    ) -> None:
        """Create managers without pods; only the policies "static" and "Static" allocate resources exclusively."""
        self.zones = tuple(sorted(zones, key=lambda zone: zone.id))
        self.devices = tuple(sorted(devices, key=lambda device: device[:2]))
        self.config = config
        self.static_cpus = config.cpu_manager_policy == "static"
        self.static_memory = config.memory_manager_policy == "Static"
        self.registered = {device.resource for device in self.devices}
        """Resources with a registered device plugin."""
        self.pods: dict[str, PodSpec] = {}
        """Pods by UID."""
        self.allocations: dict[str, dict[str, Allocation]] = {}
        """Allocations by pod UID and container."""
        self.free = self._idle()
        """The resources that no pod holds."""

    # --- pods

    def admit(self, pod: PodSpec) -> None:
        """Admit a pod and allocate its requests; raise DoesNotFit, or ValueError if the UID is in use."""
        if pod.uid in self.pods:
            raise ValueError(f"pod UID {pod.uid} is running already")
        requests = {container.name: self._request(container, pod) for container in pod.containers}
        single = self.config.topology_manager_policy == "single-numa-node"
        together = self.config.topology_manager_scope == "pod"
        allocations = admit(self.free, requests, single_numa_node=single, pod_scope=together)
        self.pods[pod.uid] = pod
        self.allocations[pod.uid] = allocations
        self.free = _after(self.free, allocations.values())

    def remove(self, uid: str) -> PodSpec:
        """Remove a pod, free its resources, and return it."""
        del self.allocations[uid]
        self._recompute_free()
        return self.pods.pop(uid)

    def register(self, resource: str) -> None:
        """Register the device plugin of a resource."""
        self.registered.add(resource)
        self._recompute_free()

    def unregister(self, resources: Iterable[str]) -> None:
        """Unregister device plugins: free devices are not allocated any more, and allocated ones remain allocated."""
        self.registered.difference_update(resources)
        self._recompute_free()

    def _recompute_free(self) -> None:
        self.free = _after(self._idle(), self.container_allocations())

    def _request(self, container: ContainerSpec, pod: PodSpec) -> ExclusiveRequest:
        whole_cpus, rest = divmod(container.milli_cpus, 1000)
        exclusive = self.static_cpus and pod.guaranteed and not rest
        memory = container.memory if self.static_memory and pod.guaranteed else NO_AMOUNTS
        return ExclusiveRequest(whole_cpus if exclusive else 0, memory, container.devices)

    # --- resources

    def container_allocations(self) -> Iterator[Allocation]:
        """Yield the allocations of all containers."""
        for allocations in self.allocations.values():
            yield from allocations.values()

    def every_cpu(self) -> CpuSet:
        """Return the CPUs of the node."""
        return CpuSet.union(zone.cpus for zone in self.zones)

    def reserved_cpus(self) -> CpuSet:
        """Return the CPUs that no pod gets: the configured ones, else the lowest ones, their number rounded up."""
        if self.config.reserved_cpus is not None:
            return self.config.reserved_cpus
        return CpuSet(list(self.every_cpu())[: -(-self.config.reserved_milli_cpus // 1000)])

    def _idle(self) -> FreeResources:
        """Return the resources that are free without pods."""
        reserved = self.reserved_cpus()
        return FreeResources(
            {zone.id: zone.cpus - reserved if self.static_cpus else EMPTY for zone in self.zones},
            {zone.id: self._memory_node(zone) for zone in self.zones},
            tuple(device for device in self.devices if device.resource in self.registered),
        )

    def _memory_node(self, zone: SimulatedZone) -> NumaNodeState:
        reserved = {kind: size for zone_id, kind, size in self.config.reserved_memory if zone_id == zone.id}
        huge = sum(size for kind, size in zone.memory.items() if kind != MEMORY)
        kinds = sorted({MEMORY, *(kind for sibling in self.zones for kind in sibling.memory)})
        tables = {
            kind: _table(zone.memory.get(kind, 0), reserved.get(kind, 0), huge if kind == MEMORY else 0)
            for kind in kinds
        }
        return NumaNodeState(0, (zone.id,), tables)

    # --- the PodResources API

    def allocatable(self) -> Allocatable:
        """Return the resources that pods can get, whether free or not."""
        idle = self._idle()
        memory = tuple(
            MemoryBlock(kind, table.allocatable, (zone,))
            for zone, node in idle.memory.items()
            for kind, table in node.memory_map.items()
            if table.allocatable and self.static_memory
        )
        return Allocatable(CpuSet.union(idle.cpus.values()), _device_groups(idle.devices), memory)

    def pod_resources(self) -> tuple[PodResources, ...]:
        """Return the pods with the allocations of their containers."""
        return tuple(
            PodResources(
                pod.namespace,
                pod.name,
                tuple(
                    ContainerResources(name, allocation.cpus, _device_groups(allocation.devices), allocation.memory)
                    for name, allocation in self.allocations[uid].items()
                ),
            )
            for uid, pod in self.pods.items()
        )


def _after(ledger: FreeResources, allocations: Iterable[Allocation]) -> FreeResources:
    for allocation in allocations:
        ledger = ledger.without(allocation)
    return ledger


def _table(total: int, reserved: int, huge: int) -> MemoryTable:
    allocatable = max(0, total - reserved - huge)
    return MemoryTable(total, reserved, allocatable, 0, allocatable)


def _device_groups(devices: Iterable[SimulatedDevice]) -> tuple[ContainerDevices, ...]:
    return tuple(ContainerDevices(device.resource, (device.id,), device.zones) for device in devices)
