"""Memory that no single zone provides together with the other resources, under policies that may still admit the pod.

Under none and best-effort, a lack of CPUs or devices in some zones never rejects a pod. The Memory Manager rejects a
pod only if no allowed set of zones has the memory (pkg/kubelet/cm/memorymanager/policy_static.go findBestHint).

Invariant for best-effort: if some allowed set has the memory, then the kubelet admits the pod.

1. The merged hint is the intersection of one hint of each resource, or a hint that all prefer (policy.go). So it is a
   subset of some set that has the memory.
2. The Memory Manager extends a hint that is too small to the best allowed set that contains it. That set exists.
3. A subset of zones without assigned memory, or one zone, never cuts across groups.

Step 3 fails for subsets of groups. Step 1 fails if every intersection is empty because zones lack CPUs or devices. For
several containers that are aligned as a unit, the invariant holds if only single zones have the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.arrays.zone_amounts import zones_near

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentStep, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.failed_rows import FailedRows
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64, Bools
    from zonewise_scheduler.nodes.arrays.zone_amounts import ZoneAmounts

CHECKS_GROUPS_SINCE = (1, 32)
"""The first release that checks whether a set of zones is compatible with the groups
(isAffinityViolatingNUMAAllocations)."""
_HINTS_NEAR_DEVICES_SINCE = (1, 36)
"""The first release whose hints for devices contain only zones with such devices (kubernetes#138244)."""


def unaligned_memory_rows(failed: FailedRows) -> tuple[Bools, Bools]:
    """Return the failed rows that are admitted, and those that the arrays cannot decide."""
    view, step = failed.view, failed.step
    memory, policies = memory_of(step, view.layout), view.layout.policies
    single = failed.amounts.suffices(memory)
    several = _unassigned_suffice(failed.amounts, memory)
    any_set = single.any(axis=0) | several
    grouped = view.grouped[failed.in_view]
    if policies.topology == "none":
        return any_set, ~any_set & grouped
    hinted = _zones_with_hints(failed)
    in_hints = (single & hinted).any(axis=0)
    certain = ~grouped & (in_hints & ~several if step.sums_memory else any_set & (in_hints | hinted.all(axis=0)))
    rejected = ~any_set & ~grouped if policies.release >= CHECKS_GROUPS_SINCE else np.zeros_like(any_set)
    return certain, ~certain & ~rejected


def no_memory_set_rows(failed: FailedRows) -> Bools:
    """Return the rows in which no allowed set of zones has the memory of a step; they may include rows with groups.

    A whole pod without such a set is rejected if it is aligned to any set of zones:

    1. All containers are aligned to the same zones. The first one gets memory from an allowed set that contains them.
    2. These zones then belong to that set, so the other containers also get their memory from it.
    3. So the set has the memory of all containers, contrary to the premise.
    """
    memory = memory_of(failed.step, failed.view.layout)
    return ~(failed.amounts.suffices(memory).any(axis=0) | _unassigned_suffice(failed.amounts, memory))


def memory_of(step: AlignmentStep, layout: Layout) -> IndexedAmounts:
    """Return the memory of a step."""
    return tuple(entry for entry in step.hinted if layout.is_memory(entry[0]))


def _unassigned_suffice(amounts: ZoneAmounts, memory: IndexedAmounts) -> Bools:
    """Return which rows have all memory in the zones without assigned memory; any subset of these is an allowed set.

    Zones with reusable memory count as assigned.
    """
    zones = amounts.layout.zone_count
    suffice: Bools = zones - np.bitwise_count(amounts.assigned).astype(np.int64) > 1
    if not suffice.any():
        return suffice
    unassigned: I64 = ~(amounts.assigned >> np.arange(zones, dtype=np.int64)[:, None]) & 1
    for index, size in memory:
        suffice &= np.sum(amounts.available[index] * unassigned, axis=0) >= size
    return suffice


def hints_near_devices(layout: Layout, index: int) -> bool:
    """Return whether the hints for a resource contain only zones with such devices."""
    is_device = index != CPU and not layout.is_memory(index)
    near_only = layout.policies.release >= _HINTS_NEAR_DEVICES_SINCE
    return is_device and near_only and layout.localities[index] is not ZoneLocality.ANYWHERE


def _zones_with_hints(failed: FailedRows) -> Bools:
    """Return (zones, rows): the zones in some hint of each resource except memory, if the node has enough.

    Zones that a node lacks count as such zones.
    """
    view, rows = failed.view, failed.in_view
    result = np.ones((view.zones, failed.count), np.bool_)
    layout = view.layout
    for index, _ in failed.step.hinted:
        if index == CPU or hints_near_devices(layout, index):
            result &= zones_near(view.total[index][:, rows])
    return result if view.padding is None else result | view.padding[:, rows]
