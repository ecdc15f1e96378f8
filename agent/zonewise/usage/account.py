"""Who uses what: a machine and what its kubelet told, made into what each zone has, can give, and has left.

The rules are the kubelet's own (the study of the kubelet, sections 4 and 5), so that what is said to be available is
what the next pod would be admitted to.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise.topology.fingerprint import fingerprint
from zonewise.usage.cpus import use_of_cpus
from zonewise.usage.devices import use_of_devices
from zonewise.usage.exclusive import holds_of_a_zone
from zonewise.usage.holdings import holdings
from zonewise.usage.idle import CPU, in_order
from zonewise.usage.memory import use_of_memory
from zonewise.usage.model import Amount, Usage, ZoneUsage
from zonewise.usage.owners import match
from zonewise.usage.placement import placement
from zonewise.usage.policies import why_not_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.kubelet.model import ClaimedDevice, KubeletReport, Pod
    from zonewise.machine.model.machine import Machine


class NotReady(NamedTuple):
    """The kubelet's answers are not yet to be believed."""

    reason: str
    """A sentence."""


def nobody(_: Pod) -> bool:
    """Exclude no pod."""
    return False


def account(machine: Machine, report: KubeletReport, *, excluded: Callable[[Pod], bool] = nobody) -> Usage | NotReady:
    """Return what every zone has, can give, and has left.

    What excluded pods hold counts as reserved, neither allocatable nor available, and they are in no fingerprint and no
    placement. The same facts give the same value, in whatever order the kubelet told them.
    """
    reason = why_not_ready(report)
    if reason is not None:
        return NotReady(reason)
    owners = match(report.pods, report.state, report.active)
    apart = holdings(report.pods, owners, report.state, excluded)
    cpus = use_of_cpus(machine, report, apart.cpus)
    memory = use_of_memory(machine, report, owners, apart.blocks)
    devices = use_of_devices(machine, report, owners, apart.devices)
    zones: list[ZoneUsage] = []
    for zone in sorted(machine.zones, key=lambda zone: zone.id):
        amounts = devices.amounts.get(zone.id, {}) | memory.amounts[zone.id]
        if zone.cpus:
            amounts[CPU] = cpus.of_zone(zone)
        zones.append(ZoneUsage(zone.id, _ordered(amounts), cpus.free_of_zone(zone), memory.groups[zone.id]))
    counted = [pod for pod in report.pods if not excluded(pod)]
    return Usage(
        zones=tuple(zones),
        unzoned=devices.unzoned,
        claimed=_claimed(report, apart.claimed),
        reserved_cpus=cpus.reserved,
        fingerprint_all=fingerprint((pod.namespace, pod.name) for pod in counted),
        fingerprint_exclusive=fingerprint((pod.namespace, pod.name) for pod in counted if holds_of_a_zone(pod)),
        problems=tuple(sorted({*cpus.problems, *memory.problems, *devices.problems})),
        placement=placement(machine, report.config, counted),
        shared=devices.shared,
        memory_assigned=memory.assigned,
    )


def _ordered(amounts: dict[str, Amount]) -> dict[str, Amount]:
    return {resource: amounts[resource] for resource in in_order(amounts)}


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
