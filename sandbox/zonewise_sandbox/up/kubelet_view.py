"""The data that a simulated node's agent reads from its kubelet: the PodResources API and checkpoints, in memory.

It is the data that `zonewise_sandbox.kubelet` serves over gRPC and writes into files. Without gRPC and files, a
thousand kubelets fit in one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.daemon.kubelet_poller import PollResult
from zonewise.kubelet.types import (
    ContainerDevices,
    CpuManagerState,
    DeviceCheckpoint,
    KubeletReport,
    MemoryManagerState,
    PodDevicesEntry,
    StateFiles,
)
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.daemon.events import Reason
    from zonewise.kubelet.types import PodResources
    from zonewise_sandbox.kubelet.allocation import Allocation
    from zonewise_sandbox.kubelet.container_manager import ContainerManager


class KubeletView:
    """Polls a container manager as the agent polls a kubelet."""

    def __init__(self, read: Callable[[], KubeletReport]) -> None:
        """Create a view; `read` returns a consistent report."""
        self._read = read

    def poll(self, _reasons: frozenset[Reason]) -> PollResult:
        """Return the current state of the kubelet."""
        return PollResult(self._read(), ())


def kubelet_report(managers: ContainerManager) -> KubeletReport:
    """Return the report and the checkpoints of a kubelet with these managers."""
    allocatable = managers.allocatable()
    return KubeletReport(
        tuple(_with_joined_devices(pod) for pod in managers.pod_resources()),
        allocatable._replace(devices=_joined(allocatable.devices)),
        managers.config,
        StateFiles(_cpu_state(managers), _memory_state(managers), _device_checkpoint(managers)),
        frozenset(managers.pods),
    )


def _with_joined_devices(pod: PodResources) -> PodResources:
    containers = (container._replace(devices=_joined(container.devices)) for container in pod.containers)
    return pod._replace(containers=tuple(containers))


def _joined(entries: Iterable[ContainerDevices]) -> tuple[ContainerDevices, ...]:
    """Return one entry for the devices of a resource with the same zones, as in the agent's client."""
    ids: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for entry in entries:
        ids.setdefault((entry.resource, entry.zones), []).extend(entry.ids)
    return tuple(
        ContainerDevices(resource, tuple(sorted(ids[resource, zones])), zones) for resource, zones in sorted(ids)
    )


def _cpu_state(managers: ContainerManager) -> CpuManagerState:
    allocated = CpuSet.union(allocation.cpus for allocation in managers.container_allocations())
    entries = {
        uid: cpus
        for uid, allocations in managers.allocations.items()
        if (cpus := {name: allocation.cpus for name, allocation in allocations.items() if allocation.cpus})
    }
    return CpuManagerState(managers.config.cpu_manager_policy, managers.every_cpu() - allocated, entries)


def _memory_state(managers: ContainerManager) -> MemoryManagerState:
    entries = {
        uid: blocks
        for uid, allocations in managers.allocations.items()
        if (blocks := {name: allocation.memory for name, allocation in allocations.items() if allocation.memory})
    }
    return MemoryManagerState(managers.config.memory_manager_policy, dict(managers.free.memory), entries)


def _device_checkpoint(managers: ContainerManager) -> DeviceCheckpoint:
    registered: dict[str, tuple[str, ...]] = dict.fromkeys(sorted(managers.registered), ())
    for device in managers.devices:
        if device.resource in registered:
            registered[device.resource] = (*registered[device.resource], device.id)
    entries = tuple(
        entry
        for uid, allocations in managers.allocations.items()
        for name, allocation in allocations.items()
        for entry in _device_entries(uid, name, allocation)
    )
    return DeviceCheckpoint(entries, registered)


def _device_entries(uid: str, container: str, allocation: Allocation) -> Iterator[PodDevicesEntry]:
    by_resource: dict[str, dict[int, tuple[str, ...]]] = {}
    for device in allocation.devices:
        zones = by_resource.setdefault(device.resource, {})
        for zone in device.zones or (-1,):
            zones[zone] = (*zones.get(zone, ()), device.id)
    for resource, ids_by_zone in by_resource.items():
        yield PodDevicesEntry(uid, container, resource, ids_by_zone)
