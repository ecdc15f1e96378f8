"""Textual explanations of why resources have no zones in common, and of what excludes zones."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from zonewise_common.phrases import of_number
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
from zonewise_scheduler.admission.topologymanager.bitmask import all_zones, members, zone_set
from zonewise_scheduler.admission.wide_affinity import is_wide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeKind, NodeState


def explain_misalignment(context: AdmissionContext, aligned: AlignedRequest) -> str:
    """Return the problem of the first resource that no zones satisfy, or of all resources if they only fit apart."""
    kind = context.state.kind
    if is_wide(kind, aligned):
        return _wide_misalignment(kind, aligned)
    requests = resource_hints(context, aligned, include_not_preferred=True)
    single = kind.policies.topology == "single-numa-node"
    for request in requests:
        requested = amount(request.resource, request.amount)
        if not (request.hints.preferred or request.hints.not_preferred):
            return f"needs {requested}; {_free_in_all(context, request)}"
        width = _width(kind, aligned, request)
        if single and width > 1:
            return f"needs {requested} in one zone; no zone has that {_much(request.resource)}, even when idle"
        if not request.hints.preferred:
            return f"needs {requested} in {zone_count(width)}; {'; '.join(_facts(context, aligned, request.resource))}"
    return _apart(kind, aligned, requests)


def _wide_misalignment(kind: NodeKind, aligned: AlignedRequest) -> str:
    """Return the problem without its cause: finding the cause would require a list of all sets of zones."""
    requests = [*aligned.devices, *([(CPU, aligned.cpus)] if aligned.cpus else []), *aligned.memory]
    requested = listed([amount(resource, size) for resource, size in requests])
    return f"needs {requested} in the same zones; no set of its {len(kind.zones)} zones has that"


def _apart(kind: NodeKind, aligned: AlignedRequest, requests: Sequence[ResourceHints]) -> str:
    """Return where each resource fits, for resources that no common zones fit."""
    widths = {_width(kind, aligned, request) for request in requests}
    if len(widths) > 1:
        widths_in_words = [
            f"{amount(request.resource, request.amount)} from {zone_count(_width(kind, aligned, request))}"
            for request in requests
        ]
        return f"needs {listed(widths_in_words)}; policy {kind.policies.topology} requires the same zones for all"
    requested = listed([amount(request.resource, request.amount) for request in requests])
    together: dict[str, list[ResourceHints]] = {}
    for request in requests:
        together.setdefault(_sets_in_words(request.hints.preferred), []).append(request)
    where = [
        f"{_fitting(group)} {zones} only"
        for zones, group in together.items()
        if zones != zones_in_words(all_zones(kind))
    ]
    return f"needs {requested} in {'one zone' if 1 in widths else 'the same zones'}; {listed(where)}"


def _fitting(group: Sequence[ResourceHints]) -> str:
    """Return "6 CPUs fit", "1 nvidia.com/gpu fits"."""
    singular = len(group) == 1 and (is_bytes(group[0].resource) or group[0].amount == 1)
    return f"{listed([amount(each.resource, each.amount) for each in group])} {'fits' if singular else 'fit'}"


def _sets_in_words(sets: Sequence[int]) -> str:
    if not any(zones & (zones - 1) for zones in sets):
        return zones_in_words(sum(sets))
    return "zones " + " or ".join(listed([str(zone) for zone in members(zones)]) for zones in sets)


def _width(kind: NodeKind, aligned: AlignedRequest, request: ResourceHints) -> int:
    """Return the number of zones in the preferred sets, which is the number that an idle node needs."""
    if request.hints.preferred:
        return min(zones.bit_count() for zones in request.hints.preferred)
    if request.resource == CPU:
        totals = kind.cpus.largest_totals
        return min(bisect_left(totals, request.amount) + 1, len(totals))
    if is_bytes(request.resource):
        return memory_min_affinity_size(kind, aligned.memory)
    return device_min_affinity_size(kind, request.resource, request.amount)


def _free_in_all(context: AdmissionContext, request: ResourceHints) -> str:
    if request.resource == CPU:
        return are_free(free_cpu_count(context))
    return f"near all zones together, {are_free(_near_any(context, request.resource))}"


def free_cpu_count(context: AdmissionContext) -> int:
    """Return the number of CPUs that a container could get: free CPUs and those of ended init containers."""
    return context.state.free_cpus.bit_count() + context.reusable_cpus.bit_count()


def _near_any(context: AdmissionContext, resource: str) -> int:
    kind = context.state.kind
    indices = [index for index in kind.device_indices[resource] if kind.devices[index].zones]
    return sum(context.state.device_free[index] + context.reusable_devices.get(index, 0) for index in indices)


def _free(context: AdmissionContext, resource: str) -> dict[int, int]:
    """Return the free amount in each zone; a device near several zones counts in each of them."""
    state = context.state
    if resource == CPU:
        return {zone: (state.free_cpus & cpus).bit_count() for zone, cpus in state.kind.cpus.zones}
    if is_bytes(resource):
        return free_memory(state, resource)
    near = [
        (state.kind.devices[index].zones, state.device_free[index]) for index in state.kind.device_indices[resource]
    ]
    zones = device_zones(state.kind, resource)
    return {zone: sum(free for close, free in near if close >> zone & 1) for zone in zones}


def _much(resource: str) -> str:
    return "much" if is_bytes(resource) else "many"


def _facts(context: AdmissionContext, aligned: AlignedRequest, resource: str) -> list[str]:
    """Return the free amounts of a resource by zone, and what else excludes zones."""
    if is_bytes(resource):
        return memory_in_words(context.state, aligned)
    init_zones = _reusable_zones(context, resource)
    facts = [free_in_words(resource, _free(context, resource))]
    if init_zones:
        facts.append(f"it has to keep those that its init containers had in {zones_in_words(init_zones)}")
    return facts


def _reusable_zones(context: AdmissionContext, resource: str) -> int:
    """Return the zones of the resources that ended init containers of the pod leave for reuse."""
    kind = context.state.kind
    if resource == CPU:
        return sum(1 << zone for zone, cpus in kind.cpus.zones if context.reusable_cpus & cpus)
    zones = 0
    for index in kind.device_indices[resource]:
        if context.reusable_devices.get(index):
            zones |= kind.devices[index].zones
    return zones


def memory_in_words(state: NodeState, aligned: AlignedRequest) -> list[str]:
    """Return the free memory by zone, for the types that are short in some zone, and what else excludes zones."""
    tables = {name: (size, free_memory(state, name)) for name, size in aligned.memory}
    short = {name: free for name, (size, free) in tables.items() if min(free.values()) < size}
    facts = [free_in_words(name, free) for name, free in short.items()]
    if aligned.memory[1:]:
        facts = [f"of {name} {words}" for name, words in zip(short, facts, strict=True)]
    return [*facts, *_ties(state)]


def _ties(state: NodeState) -> list[str]:
    """Return which zones allocate memory only together, and which only by themselves."""
    groups = dict(zip(state.kind.zones, state.memory_groups, strict=True))
    tied = sorted({group for group in groups.values() if group & (group - 1)})
    alone = state.memory_assigned & zone_set(zone for zone, group in groups.items() if group not in tied)
    facts = [f"{zones_in_words(group)} already share memory and allocate it only together" for group in tied]
    if alone:
        facts.append(
            f"{zones_in_words(alone)} {of_number(alone.bit_count(), 'allocates', 'allocate')} it only separately"
        )
    return facts
