"""Memory and devices of a report, as the kubelet's managers count them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.quantity import quantity_value
from zonewise_common.k8s.tolerant import shortened
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import ResourceInfo, read_amounts, read_pairs, read_shared_resource, read_zones
from zonewise_scheduler.admission.node import MAX_NODE_AMOUNT, NO_ZONE, DeviceClass
from zonewise_scheduler.admission.report.nrt_object import zone_set_attribute
from zonewise_scheduler.admission.resource_names import CPU, MEMORY, is_compute, is_memory
from zonewise_scheduler.admission.topologymanager.bitmask import members, zone_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.admission.report.nrt_object import NrtObject

ZONE_GROUPS = "zones that allocate memory as a group"
"""Text of the unknown fact if memory groups are damaged or cannot be reported."""


class ReportedMemory(NamedTuple):
    """Bytes of memory by zone and type; zones and sets of zones are as in NodeKind and NodeState."""

    types: tuple[str, ...] = ()
    allocatable: tuple[tuple[int, ...], ...] = ()
    free: tuple[tuple[int, ...], ...] = ()
    groups: tuple[int, ...] = ()
    assigned: int = 0
    unknown: tuple[str, ...] = ()
    """Unknown facts, as in NodeKind."""


class ReportedDevices(NamedTuple):
    """Devices, and how many of each class are free."""

    classes: tuple[DeviceClass, ...]
    free: tuple[int, ...]


def read_memory(nrt: NrtObject, zones: tuple[int, ...], policy: str) -> ReportedMemory:
    """Return the memory of a node whose Memory Manager is Static.

    `policy` is the Topology Manager's policy. Only our agent reports groups and assigned zones. In other reports, no
    zone is in a group, and a zone counts as assigned if part of its memory is not available. Under restricted, no zone
    counts as assigned: if one did, pods that the kubelet admits to zones of an unreported group would be rejected.
    """
    zones_by_id = {zone.id: zone for zone in nrt.zones}
    excluded = _excluded_amounts(nrt)
    types = _memory_types(nrt)
    allocatable: list[tuple[int, ...]] = []
    free: list[tuple[int, ...]] = []
    groups: list[int] = []
    known = zone_set(zones)
    problem_count = len(nrt.problems)
    for number in zones:
        zone = zones_by_id.get(number)
        counts = [zone.resources.get(name) if zone else None for name in types]
        allocatable.append(
            tuple(
                [
                    (count.allocatable if count else 0) + excluded.get((name, 1 << number), 0)
                    for name, count in zip(types, counts, strict=True)
                ]
            )
        )
        free.append(tuple([min(count.available, count.allocatable) if count else 0 for count in counts]))
        groups.append(_group(zone.attributes.get(names.MEMORY_GROUP) if zone else None, number, known, nrt.problems))
    assigned = zone_set_attribute(nrt, names.MEMORY_ASSIGNED)
    if assigned & ~known:
        nrt.problems.append(f"{names.MEMORY_ASSIGNED}: {_no_such_zones(assigned & ~known)}")
        assigned &= known
    if not nrt.from_agent and policy != "restricted":
        used = set(zip(zones, free, strict=True)).difference(zip(zones, allocatable, strict=True))
        assigned = zone_set(zone for zone, _ in used)
    unknown = (ZONE_GROUPS,) if nrt.problems[problem_count:] else ()
    return ReportedMemory(types, tuple(allocatable), tuple(free), tuple(groups), assigned, unknown)


def _memory_types(nrt: NrtObject) -> tuple[str, ...]:
    """Return the types of memory that the Memory Manager can allocate, sorted.

    Before Linux 6.1, a NUMA node without memory has no huge pages, not even 0. The Memory Manager then panics if a pod
    requests such pages (memorymanager/policy_static.go calculateHints), whichever zones have them. So no zone counts as
    having some. Only our agent lists all types of each zone with CPUs.
    """
    types = {name for zone in nrt.zones for name in zone.resources if is_memory(name)}
    if nrt.from_agent:
        with_cpus = [zone.resources for zone in nrt.zones if CPU in zone.resources]
        types = {name for name in types if name == MEMORY or all(name in resources for resources in with_cpus)}
    return tuple(sorted(types))


def _group(text: str | None, zone: int, known: int, problems: list[str]) -> int:
    """Return the zones that allocate memory together with a zone; only the zone if the text is absent or damaged."""
    alone = 1 << zone
    if text is None:
        return alone
    try:
        group = read_zones(text) | alone
    except ValueError as error:
        problems.append(f"zone {zone} {names.MEMORY_GROUP}: {error}")
        return alone
    if group & ~known:
        problems.append(f"zone {zone} {names.MEMORY_GROUP}: {_no_such_zones(group & ~known)}")
        return alone
    return group


def _no_such_zones(zones: int) -> str:
    return f"no such zones: {members(zones)[:8]}"


def _excluded_amounts(nrt: NrtObject) -> dict[tuple[str, int], int]:
    """Return the amounts that excluded pods hold, by resource and zones; the kubelet counts them as allocatable."""
    text = nrt.attributes.get(names.EXCLUDED)
    if not text:
        return {}
    try:
        return {read_shared_resource(name): quantity_value(size) for name, size in read_pairs(text).items()}
    except ValueError as error:
        nrt.problems.append(f"{names.EXCLUDED}: {error}")
        return {}


def read_devices(nrt: NrtObject) -> ReportedDevices:
    """Return the devices of a node, grouped into classes by the exact zones that they are close to."""
    counts: dict[tuple[str, int], ResourceInfo] = {}
    shared = list(_shared(nrt))
    shared_by_zone: dict[tuple[str, int], list[ResourceInfo]] = defaultdict(list)
    for resource, zones, count in shared:
        counts[resource, zones] = count
        for zone in members(zones):
            shared_by_zone[resource, zone].append(count)
    for zone in nrt.zones:
        for name, count in zone.resources.items():
            if not is_compute(name):
                unshared = _without_shared(
                    count, shared_by_zone.get((name, zone.id), []), f"zone {zone.id} {name}", nrt.problems
                )
                counts[name, 1 << zone.id] = unshared
    text = nrt.attributes.get(names.UNZONED_DEVICES)
    if text:
        counts |= {(name, 0): count for name, count in read_amounts(text, names.UNZONED_DEVICES, nrt.problems)}
    counts |= {(resource, zones): count for resource, zones, count in _absent(nrt, zone_set(z.id for z in nrt.zones))}
    excluded = _excluded_amounts(nrt)
    classes = sorted(
        (_device_class(resource, zones, count, excluded.get((resource, zones), 0)), count.available)
        for (resource, zones), count in counts.items()
        if any(count) or not zones
    )
    return ReportedDevices(
        tuple([device for device, _ in classes]),
        tuple([min(available, device.healthy) for device, available in classes]),
    )


def excessive_resources(memory: ReportedMemory, devices: ReportedDevices) -> list[str]:
    """Return the resources whose total over all zones is more than any node has."""
    totals: Counter[str] = Counter()
    for sizes in memory.allocatable:
        totals.update(dict(zip(memory.types, sizes, strict=True)))
    for device in devices.classes:
        totals[device.resource] += device.total
    return [resource for resource, total in totals.items() if total >= MAX_NODE_AMOUNT]


def _device_class(resource: str, zones: int, count: ResourceInfo, excluded: int) -> DeviceClass:
    healthy = count.allocatable + excluded
    return DeviceClass(resource, zones, max(count.capacity, healthy), healthy)


def _absent(nrt: NrtObject, known: int) -> Iterator[tuple[str, int, ResourceInfo]]:
    """Yield the devices in zones that the node lacks, as resource, zones and count."""
    field = names.ABSENT_ZONE_DEVICES
    for name, count in read_amounts(nrt.attributes.get(field, ""), field, nrt.problems):
        resource, _, text = name.rpartition("@")
        try:
            zones = NO_ZONE if text == "-1" else read_zones(text, "+")
        except ValueError as error:
            nrt.problems.append(f"{field} ({shortened(name)}): {error}")
            continue
        if zones & known or not resource:
            nrt.problems.append(f"{field}: not a resource and absent zones: {shortened(name)!r}")
        else:
            yield resource, zones, count


def _shared(nrt: NrtObject) -> Iterator[tuple[str, int, ResourceInfo]]:
    text = nrt.attributes.get(names.SHARED_DEVICES)
    if not text:
        return
    all_zones = zone_set(zone.id for zone in nrt.zones)
    for name, count in read_amounts(text, names.SHARED_DEVICES, nrt.problems):
        try:
            resource, zones = read_shared_resource(name)
        except ValueError as error:
            nrt.problems.append(f"{names.SHARED_DEVICES} ({shortened(name)}): {error}")
            continue
        if zones & ~all_zones or not zones & (zones - 1) or not resource:
            nrt.problems.append(f"{names.SHARED_DEVICES}: not a resource and several zones: {shortened(name)!r}")
        else:
            yield resource, zones, count


def _without_shared(count: ResourceInfo, shared: list[ResourceInfo], field: str, problems: list[str]) -> ResourceInfo:
    """Return a count without the devices that are also close to other zones."""
    if not shared:
        return count
    remaining = ResourceInfo(*(size - sum(sizes) for size, *sizes in zip(count, *shared, strict=True)))
    if min(remaining) < 0:
        problems.append(f"{names.SHARED_DEVICES}: more than the {count.capacity} of {field}")
    return ResourceInfo(*(max(0, size) for size in remaining))
