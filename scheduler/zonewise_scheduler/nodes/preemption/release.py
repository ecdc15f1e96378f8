"""The state of a node after some of its pods have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.node import NO_ZONE
from zonewise_scheduler.admission.resource_names import is_memory
from zonewise_scheduler.admission.topologymanager.bitmask import members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.admission.node import NodeKind, NodeState


def release(state: NodeState, ended: Iterable[Holdings], held_zones: int) -> NodeState:
    """Return the state after pods have ended, as the kubelet computes it before its next admission.

    `held_zones` are the zones with memory of pods that remain: all other zones leave their groups and are no longer
    assigned. Source: removeStaleState of cpu_manager.go and memory_manager.go, releaseMemory of
    memorymanager/policy_static.go, devicesToReuse and podDevices.delete of devicemanager.
    """
    pods = tuple(ended)
    kind = state.kind
    return state._replace(
        free_cpus=state.free_cpus | _free_cpus(kind, pods),
        device_free=_free_devices(state, pods),
        **_free_memory(state, pods, held_zones),
    )


def without_pods(state: NodeState, ended: Iterable[Holdings], remaining: Iterable[Holdings]) -> NodeState:
    """Return the state after pods have ended; zones whose memory is not entirely free remain assigned.

    `remaining`: what the other pods hold, as far as it is known.
    """
    freed = release(state, ended, -1)
    held_zones = 0
    for holdings in remaining:
        held_zones |= memory_zones(holdings)
    rows = zip(state.kind.zones, freed.memory_free, state.kind.allocatable, strict=False)
    held_zones |= sum(1 << zone for zone, free, allocatable in rows if free != allocatable)
    return release(freed, (), held_zones)


def memory_zones(holdings: Holdings | None) -> int:
    """Return the zones in which a pod holds memory, or all zones if its holdings are unknown."""
    if holdings is None:
        return -1
    zones = 0
    for resource, amount_zones, _ in holdings.amounts:
        if is_memory(resource):
            zones |= amount_zones
    return zones


def _free_cpus(kind: NodeKind, ended: tuple[Holdings, ...]) -> int:
    if kind.policies.cpu != "static":
        return 0
    cpus = 0
    for pod in ended:
        cpus |= pod.cpus
    return cpus & kind.cpus.cpus & ~kind.cpus.reserved


def _free_devices(state: NodeState, ended: tuple[Holdings, ...]) -> tuple[int, ...]:
    """Return the free devices of each class. In holdings, zones 0 also stands for devices of NO_ZONE."""
    counts: dict[tuple[str, int], int] = {}
    for pod in ended:
        for resource, zones, amount in pod.amounts:
            counts[resource, zones] = counts.get((resource, zones), 0) + amount
    free_devices: list[int] = []
    for device, free in zip(state.kind.devices, state.device_free, strict=True):
        key = device.resource, device.zones & ~NO_ZONE
        freed = min(device.healthy - free, counts.get(key, 0))
        free_devices.append(free + freed)
        counts[key] = counts.get(key, 0) - freed
    return tuple(free_devices)


def _free_memory(
    state: NodeState, ended: tuple[Holdings, ...], held_zones: int
) -> dict[str, tuple[tuple[int, ...], ...] | tuple[int, ...] | int]:
    """Return the memory fields of the state; of the zones of an amount, the lowest get their share back first."""
    kind = state.kind
    if kind.policies.memory != "Static" or not state.memory_free:
        return {}
    free = [list(row) for row in state.memory_free]
    amounts = (amount for pod in ended for amount in pod.amounts if amount[0] in kind.memory_types)
    for resource, zones, size in sorted(amounts, key=lambda amount: (amount[1].bit_count(), amount)):
        column, remaining = kind.memory_types.index(resource), size
        for zone in members(zones):
            if zone in kind.zones:
                row = kind.zones.index(zone)
                moved = min(remaining, kind.allocatable[row][column] - free[row][column])
                free[row][column] += moved
                remaining -= moved
    return {
        "memory_free": tuple(tuple(row) for row in free),
        "memory_groups": tuple(
            group if held_zones >> zone & 1 else 1 << zone
            for zone, group in zip(kind.zones, state.memory_groups, strict=True)
        ),
        "memory_assigned": state.memory_assigned & held_zones,
    }
