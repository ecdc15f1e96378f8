"""The Device Manager's allocation (pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.devicemanager.topology_hints import has_topology_alignment
from zonewise_scheduler.admission.errors import unexpected_admission_error
from zonewise_scheduler.admission.verdict import DeviceAllocation

if TYPE_CHECKING:
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.pod import Container

DeviceCounts = dict[int, int]
"""Counts by place in the kind's devices."""


def allocate_container_devices(context: AdmissionContext, container: Container, zones: int | None) -> None:
    """Give a container its devices, near zones where they are said; raise Refusal where there are not enough.

    Resources that no device plugin of the node offers are nothing to the kubelet, and are passed over.
    """
    shares: list[DeviceAllocation] = []
    for resource, count in container.devices:
        if resource in context.state.kind.device_indices:
            shares += _give(context, container, resource, count, zones)
    if shares:
        context.devices[container.name] = shares


def _give(
    books: AdmissionContext, container: Container, resource: str, count: int, zones: int | None
) -> list[DeviceAllocation]:
    kind = books.state.kind
    places = kind.device_indices[resource]
    if not any(kind.devices[place].healthy for place in places):
        raise unexpected_admission_error(
            f"no healthy devices present; cannot allocate unhealthy devices {resource}", resource
        )
    idle = {place: some for place in places if (some := books.reusable_devices.get(place, 0))}
    reused, certain = _draw(idle, count)
    taken, sure = _take_free(books, resource, count - sum(reused.values()), zones)
    given = {place: reused.get(place, 0) + taken.get(place, 0) for place in places}
    for place, some in reused.items():
        books.reusable_devices[place] -= some
    if container.role == "init":
        for place, some in given.items():
            books.reusable_devices[place] = books.reusable_devices.get(place, 0) + some
    if not (certain and sure):
        books.random_picks.setdefault(resource, container.name)
    # what is left to later containers is as uncertain as what the earlier ones were given
    certain = resource not in books.random_picks or len(places) == 1
    return [
        DeviceAllocation(resource, kind.devices[place].zones, some, certain) for place, some in given.items() if some
    ]


def _take_free(books: AdmissionContext, resource: str, count: int, zones: int | None) -> tuple[DeviceCounts, bool]:
    """Take devices that nobody has: those near the zones first, then those near others, then those near none.

    filterByAffinity. A resource without zones, and any without an alignment, is one heap.
    """
    state = books.state
    kind = state.kind
    free = {place: state.device_free[place] for place in kind.device_indices[resource] if state.device_free[place]}
    available = sum(free.values())
    if available < count:
        problem = f"requested number of devices unavailable for {resource}."
        raise unexpected_admission_error(f"{problem} Requested: {count}, Available: {available}", resource)
    heaps = [free] if zones is None or not has_topology_alignment(kind, resource) else _by_affinity(books, free, zones)
    taken: DeviceCounts = {}
    certain = True
    for heap in heaps:
        some, sure = _draw(heap, count)
        certain = certain and sure
        count -= sum(some.values())
        taken |= some
    left = list(state.device_free)
    for place, some in taken.items():
        left[place] -= some
    books.state = state._replace(device_free=tuple(left))
    return taken, certain


def _by_affinity(books: AdmissionContext, free: DeviceCounts, zones: int) -> list[DeviceCounts]:
    near: DeviceCounts = {}
    far: DeviceCounts = {}
    nowhere: DeviceCounts = {}
    for place, some in free.items():
        close = books.state.kind.devices[place].zones
        (near if close & zones else far if close else nowhere)[place] = some
    return [near, far, nowhere]


def _draw(heap: DeviceCounts, count: int) -> tuple[DeviceCounts, bool]:
    """Draw devices out of a heap in no order, and tell whether the counts are certain.

    The kubelet takes them as a hash set yields them, unless a device plugin has a preference. The likeliest counts are
    those with the most ways to draw them (the product of the binomials, which is concave: one at a time finds them).
    """
    if count >= sum(heap.values()):
        return dict(heap), True
    if len(heap) == 1:
        return {place: count for place in heap if count}, True
    drawn = dict.fromkeys(heap, 0)
    for _ in range(count):
        likeliest = max(heap, key=lambda place: (heap[place] - drawn[place]) / (drawn[place] + 1))
        drawn[likeliest] += 1
    return {place: some for place, some in drawn.items() if some}, count == 0
