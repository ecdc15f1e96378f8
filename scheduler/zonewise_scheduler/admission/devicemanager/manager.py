"""Allocations of the Device Manager (pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.devicemanager.topology_hints import has_topology_alignment
from zonewise_scheduler.admission.errors import unexpected_admission_error
from zonewise_scheduler.admission.node import NO_ZONE
from zonewise_scheduler.admission.verdict import DeviceAllocation

if TYPE_CHECKING:
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.pod import Container

DeviceCounts = dict[int, int]
"""Number of devices by index into the kind's devices."""


def allocate_container_devices(context: AdmissionContext, container: Container, zones: int | None) -> None:
    """Allocate devices to a container, first near `zones` if that is not None; raise AdmissionError on failure.

    Resources that no device plugin of the node offers are skipped, as the kubelet does.
    """
    allocations: list[DeviceAllocation] = []
    for resource, count in container.devices:
        if resource in context.state.kind.device_indices:
            allocations += _allocate_resource(context, container, resource, count, zones)
    if allocations:
        context.devices.setdefault(container.name, []).extend(allocations)


def _allocate_resource(
    context: AdmissionContext, container: Container, resource: str, count: int, zones: int | None
) -> list[DeviceAllocation]:
    kind = context.state.kind
    indices = kind.device_indices[resource]
    if not any(kind.devices[index].healthy for index in indices):
        raise unexpected_admission_error(
            f"no healthy devices present; cannot allocate unhealthy devices {resource}", resource
        )
    reusable = {index: number for index in indices if (number := context.reusable_devices.get(index, 0))}
    reused, certain = _pick(reusable, count)
    from_free, free_certain = _allocate_free(context, resource, count - sum(reused.values()), zones)
    assigned = {index: reused.get(index, 0) + from_free.get(index, 0) for index in indices}
    for index, number in reused.items():
        context.reusable_devices[index] -= number
    if container.role == "init":
        for index, number in assigned.items():
            context.reusable_devices[index] = context.reusable_devices.get(index, 0) + number
    if not (certain and free_certain):
        context.random_picks.setdefault(resource, container.name)
    # after a random pick, the devices of later containers are as uncertain as those of earlier ones
    certain = resource not in context.random_picks
    return [
        DeviceAllocation(resource, kind.devices[index].zones & ~NO_ZONE, number, certain)
        for index, number in assigned.items()
        if number
    ]


def _allocate_free(
    context: AdmissionContext, resource: str, count: int, zones: int | None
) -> tuple[DeviceCounts, bool]:
    """Allocate devices that no container holds (filterByAffinity).

    Devices near `zones` come first, then devices near other zones, then devices without zones. If the resource has no
    zones, or `zones` is None, all devices form one pool.
    """
    state = context.state
    kind = state.kind
    free = {index: state.device_free[index] for index in kind.device_indices[resource] if state.device_free[index]}
    available = sum(free.values())
    if available < count:
        problem = f"requested number of devices unavailable for {resource}."
        raise unexpected_admission_error(f"{problem} Requested: {count}, Available: {available}", resource)
    pools = [free]
    if zones is not None and has_topology_alignment(kind, resource):
        pools = _filter_by_affinity(context, free, zones)
    assigned: DeviceCounts = {}
    certain = True
    for pool in pools:
        picked, pick_certain = _pick(pool, count)
        certain = certain and pick_certain
        count -= sum(picked.values())
        assigned |= picked
    left = list(state.device_free)
    for index, number in assigned.items():
        left[index] -= number
    context.state = state._replace(device_free=tuple(left))
    return assigned, certain


def _filter_by_affinity(context: AdmissionContext, free: DeviceCounts, zones: int) -> list[DeviceCounts]:
    from_affinity: DeviceCounts = {}
    not_from_affinity: DeviceCounts = {}
    no_affinity: DeviceCounts = {}
    for index, count in free.items():
        close = context.state.kind.devices[index].zones & ~NO_ZONE
        (from_affinity if close & zones else not_from_affinity if close else no_affinity)[index] = count
    return [from_affinity, not_from_affinity, no_affinity]


def _pick(pool: DeviceCounts, count: int) -> tuple[DeviceCounts, bool]:
    """Return the most likely counts of a random pick from a pool, and whether the counts are certain.

    The kubelet picks devices in the order in which a hash set yields them, unless a device plugin has a preference. The
    most likely counts are those with the most ways to pick them. The number of ways is a product of binomial
    coefficients, which is log-concave. So picking the likeliest device, one at a time, finds these counts.
    """
    if count >= sum(pool.values()):
        return dict(pool), True
    if len(pool) == 1:
        return {index: count for index in pool if count}, True
    picked = dict.fromkeys(pool, 0)
    for _ in range(count):
        likeliest = max(pool, key=lambda index: (pool[index] - picked[index]) / (picked[index] + 1))
        picked[likeliest] += 1
    return {index: number for index, number in picked.items() if number}, not count
