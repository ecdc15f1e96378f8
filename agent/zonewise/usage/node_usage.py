"""Who uses what: a machine and what its kubelet told, made into what each zone has, can give, and has left.

The rules are the kubelet's own (the study of the kubelet, sections 4 and 5), so that what is said to be available is
what the next pod would be admitted to.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.allocations import pod_allocations
from zonewise.usage.cpu_usage import cpu_usage
from zonewise.usage.device_usage import device_usage
from zonewise.usage.exclusive_resources import has_exclusive_resources
from zonewise.usage.memory_usage import memory_usage
from zonewise.usage.numa_placement import numa_placement
from zonewise.usage.pod_matching import match_pods
from zonewise.usage.policies import not_ready_reason
from zonewise.usage.types import Amount, Usage, ZoneUsage
from zonewise.usage.zone_capacity import CPU, canonical_order
from zonewise_common.nrt.podfingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.kubelet.types import ClaimedDevice, KubeletReport, PodResources
    from zonewise.machine.model.machine import Machine


class KubeletNotReady(NamedTuple):
    """The kubelet's answers are not yet to be believed."""

    reason: str
    """A sentence."""


def exclude_none(_: PodResources) -> bool:
    """Exclude no pod."""
    return False


def node_usage(
    machine: Machine, report: KubeletReport, *, excluded: Callable[[PodResources], bool] = exclude_none
) -> Usage | KubeletNotReady:
    """Return what every zone has, can give, and has left.

    What excluded pods hold counts as reserved, neither allocatable nor available, and they are in no fingerprint and no
    placement. The same facts give the same value, in whatever order the kubelet told them.
    """
    reason = not_ready_reason(report)
    if reason is not None:
        return KubeletNotReady(reason)
    owners = match_pods(report.pods, report.state, report.active)
    apart = pod_allocations(report.pods, owners, report.state, excluded)
    cpus = cpu_usage(machine, report, apart.cpus)
    memory = memory_usage(machine, report, owners, apart.blocks)
    devices = device_usage(machine, report, owners, apart.devices)
    zones: list[ZoneUsage] = []
    for zone in sorted(machine.zones, key=lambda zone: zone.id):
        amounts = devices.amounts.get(zone.id, {}) | memory.amounts[zone.id]
        if zone.cpus:
            amounts[CPU] = cpus.zone_amount(zone)
        zones.append(ZoneUsage(zone.id, _ordered(amounts), cpus.zone_free_cpus(zone), memory.groups[zone.id]))
    counted = [pod for pod in report.pods if not excluded(pod)]
    return Usage(
        zones=tuple(zones),
        unzoned=devices.unzoned,
        claimed=_claimed(report, apart.claimed),
        reserved_cpus=cpus.reserved,
        fingerprint_all=fingerprint((pod.namespace, pod.name) for pod in counted),
        fingerprint_exclusive=fingerprint((pod.namespace, pod.name) for pod in counted if has_exclusive_resources(pod)),
        problems=tuple(sorted({*cpus.problems, *memory.problems, *devices.problems})),
        placement=numa_placement(machine, report.config, counted),
        shared=devices.shared,
        memory_assigned=memory.assigned,
    )


def _ordered(amounts: dict[str, Amount]) -> dict[str, Amount]:
    return {resource: amounts[resource] for resource in canonical_order(amounts)}


def _claimed(report: KubeletReport, excluded: frozenset[ClaimedDevice]) -> dict[str, int]:
    """Return how many devices of each driver are held through ResourceClaims.

    One device may be listed for many containers; shares of a device are devices of their own. The checkpoint has
    those of init containers too.
    """
    found = {device for pod in report.pods for container in pod.containers for device in container.claimed}
    found.update(device for claim in report.state.claims or () for device in claim.devices)
    apart = {_identity(device) for device in excluded}
    drivers = Counter(driver for driver, *_ in {_identity(device) for device in found} - apart)
    return dict(sorted(drivers.items()))


def _identity(device: ClaimedDevice) -> tuple[str, str, str, str | None]:
    return device.driver, device.pool, device.device, device.share
