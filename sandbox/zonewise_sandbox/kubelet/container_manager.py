"""The managers of a simulated kubelet: what there is, who holds it, and what of that the PodResources API tells."""

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
    from collections.abc import Iterable

    from zonewise.kubelet.types import KubeletConfig
    from zonewise_sandbox.kubelet.types import ContainerSpec, PodSpec, SimulatedDevice, SimulatedZone

MEMORY = "memory"


class ContainerManager:
    """CPU Manager, Memory Manager and Device Manager of one node, with the pods that run on it."""

    def __init__(
        self, zones: Iterable[SimulatedZone], devices: Iterable[SimulatedDevice], config: KubeletConfig
    ) -> None:
        """Start with no pods; only "static" and "Static" policies of the configuration give anything of a zone."""
        self.zones = tuple(sorted(zones, key=lambda zone: zone.id))
        self.devices = tuple(sorted(devices, key=lambda device: device[:2]))
        self.config = config
        self.static_cpus = config.cpu_manager_policy == "static"
        self.static_memory = config.memory_manager_policy == "Static"
        self.registered = {device.resource for device in self.devices}
        """Resources whose device plugin is there."""
        self.pods: dict[str, PodSpec] = {}
        """By UID."""
        self.allocations: dict[str, dict[str, Allocation]] = {}
        """By pod UID and container."""
        self.free = self._idle()
        """What is free."""

    # --- pods

    def admit(self, pod: PodSpec) -> None:
        """Give a pod what it requests; raise DoesNotFit, and ValueError where its UID is taken."""
        if pod.uid in self.pods:
            raise ValueError(f"pod UID {pod.uid} is running already")
        requests = {container.name: self._request(container, pod) for container in pod.containers}
        single = self.config.topology_manager_policy == "single-numa-node"
        together = self.config.topology_manager_scope == "pod"
        grants = admit(self.free, requests, single_numa_node=single, pod_scope=together)
        self.pods[pod.uid] = pod
        self.allocations[pod.uid] = grants
        self.free = _after(self.free, grants.values())

    def remove(self, uid: str) -> PodSpec:
        """Take back what a pod holds, and return it."""
        del self.allocations[uid]
        self._replay()
        return self.pods.pop(uid)

    def register(self, resource: str) -> None:
        """Let the device plugin of a resource come."""
        self.registered.add(resource)
        self._replay()

    def unregister(self, resources: Iterable[str]) -> None:
        """Let device plugins go: their devices can no longer be given, and those that are held stay so."""
        self.registered.difference_update(resources)
        self._replay()

    def _replay(self) -> None:
        self.free = _after(self._idle(), (grant for grants in self.allocations.values() for grant in grants.values()))

    def _request(self, container: ContainerSpec, pod: PodSpec) -> ExclusiveRequest:
        whole_cpus, rest = divmod(container.milli_cpus, 1000)
        exclusive = self.static_cpus and pod.guaranteed and not rest
        memory = container.memory if self.static_memory and pod.guaranteed else NO_AMOUNTS
        return ExclusiveRequest(whole_cpus if exclusive else 0, memory, container.devices)

    # --- what there is

    def every_cpu(self) -> CpuSet:
        """Return the CPUs of the node."""
        return CpuSet.union(zone.cpus for zone in self.zones)

    def reserved_cpus(self) -> CpuSet:
        """Return the CPUs that nobody gets: those named, else as many of the lowest as are reserved, rounded up."""
        if self.config.reserved_cpus is not None:
            return self.config.reserved_cpus
        return CpuSet(list(self.every_cpu())[: -(-self.config.reserved_milli_cpus // 1000)])

    def _idle(self) -> FreeResources:
        """Return what could be given if no pod ran."""
        reserved = self.reserved_cpus()
        return FreeResources(
            {zone.id: zone.cpus - reserved if self.static_cpus else EMPTY for zone in self.zones},
            {zone.id: self._memory_node(zone) for zone in self.zones},
            tuple(device for device in self.devices if device.resource in self.registered),
        )

    def _memory_node(self, zone: SimulatedZone) -> NumaNodeState:
        reserved = {kind: size for near, kind, size in self.config.reserved_memory if near == zone.id}
        huge = sum(size for kind, size in zone.memory.items() if kind != MEMORY)
        kinds = sorted({MEMORY, *(kind for one in self.zones for kind in one.memory)})
        tables = {
            kind: _table(zone.memory.get(kind, 0), reserved.get(kind, 0), huge if kind == MEMORY else 0)
            for kind in kinds
        }
        return NumaNodeState(0, (zone.id,), tables)

    # --- what the PodResources API tells

    def allocatable(self) -> Allocatable:
        """Return what can be given to pods, whether it is at present or not."""
        idle = self._idle()
        memory = tuple(
            MemoryBlock(kind, table.allocatable, (zone,))
            for zone, node in idle.memory.items()
            for kind, table in node.memory_map.items()
            if table.allocatable and self.static_memory
        )
        return Allocatable(CpuSet.union(idle.cpus.values()), _told(idle.devices), memory)

    def pod_resources(self) -> tuple[PodResources, ...]:
        """Return the pods with what their containers hold."""
        return tuple(
            PodResources(
                pod.namespace,
                pod.name,
                tuple(
                    ContainerResources(name, grant.cpus, _told(grant.devices), grant.memory)
                    for name, grant in self.allocations[uid].items()
                ),
            )
            for uid, pod in self.pods.items()
        )


def _after(ledger: FreeResources, grants: Iterable[Allocation]) -> FreeResources:
    for grant in grants:
        ledger = ledger.without(grant)
    return ledger


def _table(total: int, reserved: int, huge: int) -> MemoryTable:
    allocatable = max(0, total - reserved - huge)
    return MemoryTable(total, reserved, allocatable, 0, allocatable)


def _told(devices: Iterable[SimulatedDevice]) -> tuple[ContainerDevices, ...]:
    return tuple(ContainerDevices(device.resource, (device.id,), device.zones) for device in devices)
