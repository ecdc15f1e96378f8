"""The affinity of a request whose hints involve too many zones to list every set of zones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager.cpu_hints import generate_wide_cpu_hints
from zonewise_scheduler.admission.devicemanager.topology_hints import (
    device_zones,
    generate_wide_device_hints,
    has_topology_alignment,
    note_doubts,
)
from zonewise_scheduler.admission.errors import TOPOLOGY_AFFINITY_ERROR, AdmissionError
from zonewise_scheduler.admission.memorymanager.memory_hints import calculate_wide_memory_hints
from zonewise_scheduler.admission.resource_names import CPU, MEMORY
from zonewise_scheduler.admission.topologymanager.bitmask import zone_set
from zonewise_scheduler.admission.topologymanager.hints import TopologyHint
from zonewise_scheduler.admission.topologymanager.numa_info import may_panic, panic_error
from zonewise_scheduler.admission.topologymanager.policy import preferred_affinity
from zonewise_scheduler.admission.topologymanager.wide_merge import merge_wide_best_effort, merge_wide_preferred
from zonewise_scheduler.admission.topologymanager.zone_sums import MAX_LISTED_ZONES

if TYPE_CHECKING:
    from collections.abc import Collection

    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.topologymanager.wide_merge import WideHints


def is_wide(kind: NodeKind, aligned: AlignedRequest) -> bool:
    """Return whether the hints of a request involve more than MAX_LISTED_ZONES zones."""
    if len(kind.zones) <= MAX_LISTED_ZONES:
        return False
    if aligned.memory:
        return True
    zones = zone_set(zone for zone, _ in kind.cpus.zones) if aligned.cpus else 0
    for resource, _ in aligned.devices:
        if has_topology_alignment(kind, resource):
            zones |= zone_set(device_zones(kind, resource))
    return zones.bit_count() > MAX_LISTED_ZONES


def calculate_wide_affinity(
    context: AdmissionContext, aligned: AlignedRequest, misaligned: str, empty: Collection[str]
) -> TopologyHint:
    """Return the result of scope.calculate_affinity for a request for which is_wide() is true.

    Raises AdmissionError with an empty reason if there are too many zones to compute a verdict.
    """
    kind = context.state.kind
    if may_panic(kind.policies, kind.zones):
        raise panic_error()
    hints = _wide_hints(context, aligned, empty)
    zones = None if empty else merge_wide_preferred(kind, hints)
    if zones is not None:
        return preferred_affinity(kind, zones)
    if kind.policies.topology != "best-effort":
        raise AdmissionError(TOPOLOGY_AFFINITY_ERROR, misaligned)
    return TopologyHint(merge_wide_best_effort(kind, hints), preferred=False)


def _wide_hints(context: AdmissionContext, aligned: AlignedRequest, empty: Collection[str]) -> list[WideHints]:
    """Return the hints of each resource that depends on zones; all types of memory have the same hints."""
    state = context.state
    hints: list[WideHints | None] = []
    for resource, count in aligned.devices:
        if has_topology_alignment(state.kind, resource):
            note_doubts(context, resource, count)
            hints.append(generate_wide_device_hints(state, resource, count, context.reusable_devices))
    if CPU not in empty:
        hints.append(generate_wide_cpu_hints(state, aligned.cpus, context.reusable_cpus))
    if MEMORY not in empty:
        hints.append(calculate_wide_memory_hints(state, aligned.memory, context.reusable_memory))
    return [resource for resource in hints if resource is not None]
