"""A pod's share of a node's zones: released when the pod is removed, and restored when a trial is undone.

pkg/kubelet/cm/memorymanager/policy_static.go releaseMemory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import ContainerAssignment, Verdict

PodSetKey = tuple[str, str]
"""A workload's key, and the name of one of its pod sets."""

MemoryTable = tuple[tuple[int, ...], ...]
"""Bytes, by zone and type."""


class Allocation(NamedTuple):
    """The resources of a node that are allocated to one pod."""

    cpus: int
    """Bitmask of CPUs."""
    memory: MemoryTable
    devices: tuple[int, ...]
    """Number of devices by class."""
    memory_groups: tuple[int, ...]
    """Bitmasks of zones; the zones of each bitmask provide memory to the pod as one group."""
    assignments: tuple[ContainerAssignment, ...] | None = None
    """Predicted assignments by container; None: unknown, because the allocation comes from a report."""


def pod_allocation(state: NodeState, verdict: Verdict) -> Allocation:
    """Return the allocation of an admitted pod; `state`: the node before the admission."""
    memory_groups = {share.zones for container in verdict.assignments for share in container.memory}
    return allocation_between(state, verdict.after or state, memory_groups)._replace(assignments=verdict.assignments)


def allocation_between(without: NodeState, state: NodeState, memory_groups: Iterable[int]) -> Allocation:
    """Return the allocation of a pod as the difference between the node without the pod and with it."""
    return Allocation(
        without.free_cpus & ~state.free_cpus,
        _subtract(without.memory_free, state.memory_free),
        tuple(old - new for old, new in zip(without.device_free, state.device_free, strict=True)),
        tuple(sorted(memory_groups)),
    )


def release(state: NodeState, allocation: Allocation, zones_in_use: int) -> NodeState:
    """Return the node without a pod; `zones_in_use`: bitmask of zones in which other pods have memory.

    Zones remain one memory group until no pod has memory in it. If a pod has memory from several zones, the kubelet may
    free another zone's part. Then only the sum over the zones is exact.
    """
    own_zones = _union(allocation.memory_groups)
    groups = tuple(
        1 << zone if group & own_zones and not group & zones_in_use else group
        for zone, group in zip(state.kind.zones, state.memory_groups, strict=False)
    )
    return state._replace(
        free_cpus=state.free_cpus | allocation.cpus,
        memory_free=_add(state.memory_free, allocation.memory),
        memory_groups=groups,
        memory_assigned=state.memory_assigned & (zones_in_use | ~own_zones),
        device_free=tuple(a + b for a, b in zip(state.device_free, allocation.devices, strict=True)),
    )


def reallocate(state: NodeState, allocation: Allocation) -> NodeState | None:
    """Return the node with a pod's former allocation restored; None if another pod has part of it."""
    memory = _subtract(state.memory_free, allocation.memory)
    devices = tuple(a - b for a, b in zip(state.device_free, allocation.devices, strict=True))
    insufficient = any(size < 0 for row in memory for size in row) or any(count < 0 for count in devices)
    if allocation.cpus & ~state.free_cpus or insufficient:
        return None
    groups = list(state.memory_groups)
    for group in allocation.memory_groups:
        for i, zone in enumerate(state.kind.zones):
            if group >> zone & 1:
                ungrouped = groups[i] == 1 << zone and not state.memory_assigned >> zone & 1
                if groups[i] != group and not ungrouped:
                    return None
                groups[i] = group
    return state._replace(
        free_cpus=state.free_cpus & ~allocation.cpus,
        memory_free=memory,
        memory_groups=tuple(groups),
        memory_assigned=state.memory_assigned | _union(allocation.memory_groups),
        device_free=devices,
    )


def memory_zones(allocations: tuple[Allocation, ...]) -> int:
    """Return the bitmask of zones in which pods have memory."""
    return _union(tuple(_union(allocation.memory_groups) for allocation in allocations))


def _union(masks: tuple[int, ...]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _subtract(first: MemoryTable, second: MemoryTable) -> MemoryTable:
    return tuple(tuple(a - b for a, b in zip(*rows, strict=True)) for rows in zip(first, second, strict=True))


def _add(first: MemoryTable, second: MemoryTable) -> MemoryTable:
    return tuple(tuple(a + b for a, b in zip(*rows, strict=True)) for rows in zip(first, second, strict=True))
