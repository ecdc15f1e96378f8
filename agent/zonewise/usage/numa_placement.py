"""Which zone each container is in, where the kubelet keeps each in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.usage.exclusive_resources import has_exclusive_resources
from zonewise_common.nrt.numaplacement import NumaPlacement, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import ContainerResources, KubeletConfig, PodResources
    from zonewise.machine.model.machine import Machine
    from zonewise_common.nrt.numaplacement import ContainerName


def numa_placement(
    machine: Machine, config: KubeletConfig | None, pods: Iterable[PodResources]
) -> NumaPlacement | None:
    """Return the placement of the containers of the pods, of those that hold something of a zone.

    None unless the Topology Manager's policy is single-numa-node: otherwise a container need not be in one zone. None,
    too, where one of them is in several zones or in one that the machine does not have, since the containers are told
    by their number, which must be that of the reader. The rule for the zone of a container is that of
    resource-topology-exporter's pkg/resourcemonitor: its CPUs', else its devices', else its memory's.
    """
    if config is None or config.topology_manager_policy != "single-numa-node" or not machine.zones:
        return None
    known = {zone.id for zone in machine.zones}
    found: dict[ContainerName, int] = {}
    for pod in pods:
        if not has_exclusive_resources(pod):
            continue
        for container in pod.containers:
            zones = next((zones for zones in _zones(machine, container) if zones), frozenset[int]())
            if len(zones) > 1 or not zones <= known:
                return None
            for zone in zones:
                found[pod.namespace, pod.name, container.name] = zone
    return encode(found, max(known) + 1)


def _zones(machine: Machine, container: ContainerResources) -> Iterator[frozenset[int]]:
    """Yield the zones of its CPUs, of its devices, and of its memory."""
    yield frozenset(zone.id for zone in machine.zones if not zone.cpus.isdisjoint(container.cpus))
    yield frozenset(zone for devices in container.devices if devices.ids for zone in devices.zones if zone >= 0)
    yield frozenset(zone for block in container.memory for zone in block.zones if zone >= 0)
