"""Why resources have no zones in common, and what keeps them out of zones, in words."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.devicemanager.topology_hints import device_min_affinity_size, device_zones
from zonewise_scheduler.admission.explain.phrases import (
    amount,
    are_free,
    free_in_words,
    is_bytes,
    listed,
    zone_count,
    zones_in_words,
)
from zonewise_scheduler.admission.memorymanager.memory_hints import free_memory, memory_min_affinity_size
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.admission.scope import ResourceHints, resource_hints
from zonewise_scheduler.admission.topologymanager.bitmask import members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeKind, NodeState


def explain_misalignment(context: AdmissionContext, aligned: AlignedRequest) -> str:
    """Return what is needed and where it is, of the first resource that fits nowhere, or of all that fit apart."""
    kind = context.state.kind
    every = resource_hints(context, aligned, include_not_preferred=True)
    single = kind.policies.topology == "single-numa-node"
    for one in every:
        wanted = amount(one.resource, one.amount)
        if not (one.hints.preferred or one.hints.not_preferred):
            return f"needs {wanted}; {_free_in_all(context, one)}"
        width = _width(kind, aligned, one)
        if single and width > 1:
            return f"needs {wanted} in one zone; no zone has so {_much(one.resource)}, even idle"
        if not one.hints.preferred:
            return f"needs {wanted} in {zone_count(width)}; {'; '.join(_facts(context, aligned, one.resource))}"
    return _apart(kind, aligned, every)


def _apart(kind: NodeKind, ask: AlignedRequest, every: Sequence[ResourceHints]) -> str:
    """Return where each of the resources is, none of them where all the others are."""
    widths = {_width(kind, ask, one) for one in every}
    if len(widths) > 1:
        told = [f"{amount(one.resource, one.amount)} from {zone_count(_width(kind, ask, one))}" for one in every]
        return f"needs {listed(told)}; policy {kind.policies.topology} wants the same zones for all"
    wanted = listed([amount(one.resource, one.amount) for one in every])
    together: dict[str, list[ResourceHints]] = {}
    for one in every:
        together.setdefault(_places(one.hints.preferred), []).append(one)
    where = [f"{_fitting(some)} {place} only" for place, some in together.items() if place != _places(_singles(kind))]
    return f"needs {wanted} in {'one zone' if widths == {1} else 'the same zones'}; {listed(where)}"


def _singles(kind: NodeKind) -> list[int]:
    return [1 << zone for zone in kind.zones]


def _fitting(some: Sequence[ResourceHints]) -> str:
    """Return "6 CPUs fit", "1 nvidia.com/gpu fits"."""
    one = len(some) == 1 and (is_bytes(some[0].resource) or some[0].amount == 1)
    return f"{listed([amount(each.resource, each.amount) for each in some])} {'fits' if one else 'fit'}"


def _places(sets: Sequence[int]) -> str:
    if all(zones & (zones - 1) == 0 for zones in sets):
        return zones_in_words(sum(sets))
    return "zones " + " or ".join(listed([str(zone) for zone in members(zones)]) for zones in sets)


def _width(kind: NodeKind, ask: AlignedRequest, one: ResourceHints) -> int:
    """Return of how many zones the preferred sets are, which are those that an idle node needs."""
    if one.hints.preferred:
        return min(zones.bit_count() for zones in one.hints.preferred)
    if one.resource == CPU:
        totals = kind.cpus.largest_totals
        return min(bisect_left(totals, one.amount) + 1, len(totals))
    return (
        memory_min_affinity_size(kind, ask.memory)
        if is_bytes(one.resource)
        else device_min_affinity_size(kind, one.resource, one.amount)
    )


def _free_in_all(books: AdmissionContext, one: ResourceHints) -> str:
    if one.resource == CPU:
        return are_free((books.state.free_cpus | books.reusable_cpus).bit_count())
    return f"near all zones together, {are_free(_near_any(books, one.resource))}"


def _near_any(books: AdmissionContext, resource: str) -> int:
    kind = books.state.kind
    places = [place for place in kind.device_indices[resource] if kind.devices[place].zones]
    return sum(books.state.device_free[place] + books.reusable_devices.get(place, 0) for place in places)


def _free(books: AdmissionContext, resource: str) -> dict[int, int]:
    """Return how much each zone has free; devices that are near several zones count in each."""
    state = books.state
    if resource == CPU:
        return {zone: (state.free_cpus & cpus).bit_count() for zone, cpus in state.kind.cpus.zones}
    if is_bytes(resource):
        return free_memory(state, resource)
    near = [
        (state.kind.devices[place].zones, state.device_free[place]) for place in state.kind.device_indices[resource]
    ]
    zones = device_zones(state.kind, resource)
    return {zone: sum(free for close, free in near if close >> zone & 1) for zone in zones}


def _much(resource: str) -> str:
    return "much" if is_bytes(resource) else "many"


def _facts(books: AdmissionContext, ask: AlignedRequest, resource: str) -> list[str]:
    """Return what the zones have of a resource, and what else keeps it out of them."""
    if is_bytes(resource):
        return memory_in_words(books.state, ask)
    left = _left(books, resource)
    kept = [f"it has to keep those that its init containers had in {zones_in_words(left)}"] if left else []
    return [free_in_words(resource, _free(books, resource)), *kept]


def _left(books: AdmissionContext, resource: str) -> int:
    """Return the zones of what ended init containers of the pod had."""
    kind = books.state.kind
    if resource == CPU:
        return sum(1 << zone for zone, cpus in kind.cpus.zones if books.reusable_cpus & cpus)
    left = 0
    for place in kind.device_indices[resource]:
        if books.reusable_devices.get(place):
            left |= kind.devices[place].zones
    return left


def memory_in_words(state: NodeState, aligned: AlignedRequest) -> list[str]:
    """Return what zones have of the types of which any has too little, and what else keeps them from giving."""
    tables = {name: (size, free_memory(state, name)) for name, size in aligned.memory}
    short = {name: free for name, (size, free) in tables.items() if min(free.values()) < size}
    told = [free_in_words(name, free) for name, free in short.items()]
    if len(tables) > 1:
        told = [f"of {name} {words}" for name, words in zip(short, told, strict=True)]
    return [*told, *_ties(state)]


def _ties(state: NodeState) -> list[str]:
    """Return which zones give memory only together, and which only alone."""
    groups = dict(zip(state.kind.zones, state.memory_groups, strict=True))
    tied = sorted({group for group in groups.values() if group & (group - 1)})
    alone = [zone for zone, group in groups.items() if group == 1 << zone and state.memory_assigned >> zone & 1]
    told = [f"{zones_in_words(group)} give memory only together, as they did before" for group in tied]
    if alone:
        zones = sum(1 << zone for zone in alone)
        told.append(f"{zones_in_words(zones)} {'gives' if len(alone) == 1 else 'give'} it only alone")
    return told
