"""Computes the capacity, the allocatable amounts and the available amounts of each zone of a node.

The rules are the kubelet's own (pkg/kubelet/cm), so that the next pod would be admitted to what is available.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.allocations import pod_allocations
from zonewise.usage.cpu_usage import cpu_usage
from zonewise.usage.device_usage import device_usage
from zonewise.usage.holdings import pod_holdings
from zonewise.usage.memory_usage import memory_usage
from zonewise.usage.pod_matching import match_report
from zonewise.usage.policies import not_ready_reason
from zonewise.usage.types import Amount, Usage, ZoneUsage
from zonewise.usage.zone_capacity import CPU, canonical_order
from zonewise_common.nrt.numaplacement import NumaPlacement, encode
from zonewise_common.nrt.podfingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.kubelet.types import ClaimedDevice, ContainerResources, KubeletConfig, KubeletReport, PodResources
    from zonewise.machine.model.machine import Machine
    from zonewise_common.nrt.numaplacement import ContainerName


class KubeletNotReady(NamedTuple):
    """The kubelet's responses are not valid yet."""

    reason: str
    """The reason, as a sentence."""


def exclude_none(_: PodResources) -> bool:
    """Exclude no pod."""
    return False


def node_usage(
    machine: Machine, report: KubeletReport, *, excluded: Callable[[PodResources], bool] = exclude_none
) -> Usage | KubeletNotReady:
    """Return capacity, allocatable and available amounts of every zone.

    Resources of excluded pods count as reserved: neither allocatable nor available. Fingerprints and placement include
    excluded pods: schedulers compare them with all pods of the node, and cannot know which ones are excluded. The same
    facts give the same value, whatever the order of the kubelet's response.
    """
    reason = not_ready_reason(report)
    if reason is not None:
        return KubeletNotReady(reason)
    matching = match_report(report)
    excluded_allocations = pod_allocations(report.pods, matching, report.state, excluded)
    cpus = cpu_usage(machine, report, excluded_allocations.cpus)
    memory = memory_usage(machine, report, matching, excluded_allocations.blocks)
    devices = device_usage(machine, report, matching, excluded_allocations.devices)
    zones: list[ZoneUsage] = []
    for zone in sorted(machine.zones, key=lambda zone: zone.id):
        amounts = devices.amounts.get(zone.id, {}) | memory.amounts[zone.id]
        if zone.cpus:
            amounts[CPU] = cpus.zone_amount(zone)
        zones.append(ZoneUsage(zone.id, _ordered(amounts), cpus.zone_free_cpus(zone), memory.groups[zone.id]))
    return Usage(
        zones=tuple(zones),
        unzoned=devices.unzoned,
        claimed=_claimed_counts(report, excluded_allocations.claimed),
        reserved_cpus=cpus.reserved,
        fingerprint_all=fingerprint((pod.namespace, pod.name) for pod in report.pods),
        fingerprint_exclusive=fingerprint(
            (pod.namespace, pod.name) for pod in report.pods if has_exclusive_resources(pod)
        ),
        problems=tuple(sorted({*cpus.problems, *memory.problems, *devices.problems})),
        placement=numa_placement(machine, report.config, report.pods),
        shared=devices.shared,
        memory_assigned=memory.assigned,
        excluded=tuple(sorted((*memory.excluded, *devices.excluded))),
        holdings=pod_holdings(
            report, matching, {zone.id: zone.cpus for zone in machine.zones}, cpus.allocatable, excluded
        ),
        absent=devices.absent,
    )


def _ordered(amounts: dict[str, Amount]) -> dict[str, Amount]:
    return {resource: amounts[resource] for resource in canonical_order(amounts)}


def _claimed_counts(report: KubeletReport, excluded: frozenset[ClaimedDevice]) -> dict[str, int]:
    """Return the number of each driver's devices that are allocated through ResourceClaims.

    One device may be listed for many containers; shares of a device count as devices. The checkpoint also contains the
    devices of init containers.
    """
    devices = {device for pod in report.pods for container in pod.containers for device in container.claimed}
    devices.update(device for claim in report.state.claims or () for device in claim.devices)
    excluded_devices = {_identity(device) for device in excluded}
    drivers = Counter(driver for driver, *_ in {_identity(device) for device in devices} - excluded_devices)
    return dict(sorted(drivers.items()))


def _identity(device: ClaimedDevice) -> tuple[str, str, str, str | None]:
    return device.driver, device.pool, device.device, device.share


def numa_placement(
    machine: Machine, config: KubeletConfig | None, pods: Iterable[PodResources]
) -> NumaPlacement | None:
    """Return the zone of each container that has exclusive resources of a zone.

    Returns None unless the Topology Manager's policy is single-numa-node: under other policies a container may span
    zones. Returns None, too, if a container is in several zones or in a zone that the machine does not have. Containers
    are encoded by number, and the reader must count the same ones. A container's zone is the zone of its CPUs, else of
    its devices, else of its memory.
    """
    if config is None or config.topology_manager_policy != "single-numa-node" or not machine.zones:
        return None
    known = {zone.id for zone in machine.zones}
    zone_by_container: dict[ContainerName, int] = {}
    for pod in pods:
        if not has_exclusive_resources(pod):
            continue
        for container in pod.containers:
            zones = next((zones for zones in _candidate_zones(machine, container) if zones), frozenset[int]())
            if len(zones) > 1 or not zones <= known:
                return None
            for zone in zones:
                zone_by_container[pod.namespace, pod.name, container.name] = zone
    return encode(zone_by_container, max(known) + 1)


def _candidate_zones(machine: Machine, container: ContainerResources) -> Iterator[frozenset[int]]:
    """Yield the zones of its CPUs, of its devices, and of its memory."""
    yield frozenset(zone.id for zone in machine.zones if not zone.cpus.isdisjoint(container.cpus))
    yield frozenset(zone for devices in container.devices if devices.ids for zone in devices.zones if zone >= 0)
    yield frozenset(zone for block in container.memory for zone in block.zones if zone >= 0)


def has_exclusive_resources(pod: PodResources) -> bool:
    """Return whether a pod counts for the fingerprint method "with-exclusive-resources".

    It counts if any container has CPUs, memory of a zone, or a device of a zone. This is the rule of
    resource-topology-exporter's pkg/podres/filter/numalocality. scheduler-plugins derives the same result from the
    pods' requests.
    """
    return any(_holds(container) for container in pod.containers)


def _holds(container: ContainerResources) -> bool:
    return (
        bool(container.cpus)
        or any(zone >= 0 for block in container.memory for zone in block.zones)
        or any(zone >= 0 for devices in container.devices if devices.ids for zone in devices.zones)
    )
