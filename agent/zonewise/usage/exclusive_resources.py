"""Which pods hold something of a zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.kubelet.types import ContainerResources, PodResources


def has_exclusive_resources(pod: PodResources) -> bool:
    """Tell whether a pod counts for the fingerprint method "with-exclusive-resources".

    It does where any container has CPUs, memory of a zone, or a device of a zone: the rule of
    resource-topology-exporter's pkg/numalocality, which scheduler-plugins follows from the pods' requests.
    """
    return any(_holds(container) for container in pod.containers)


def _holds(container: ContainerResources) -> bool:
    return (
        bool(container.cpus)
        or any(zone >= 0 for block in container.memory for zone in block.zones)
        or any(zone >= 0 for devices in container.devices if devices.ids for zone in devices.zones)
    )
