"""What a pod takes of a node's zones, to be given back when it leaves, and taken again where that was only a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.tas.zones.node_filling import assigned_zones

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import Verdict

MemoryTable = tuple[tuple[int, ...], ...]


class Allocation(NamedTuple):
    """The difference that a pod makes to a state."""

    cpus: int
    """Bits."""
    memory: MemoryTable
    """Bytes, by zone and type."""
    devices: tuple[int, ...]
    """By class."""
    memory_groups: tuple[int, ...]
    """The sets of zones that its memory is given from as one."""
    zones: int
    """All zones that it is given anything of."""


def pod_allocation(state: NodeState, verdict: Verdict) -> Allocation:
    """Return what an admitted pod takes of a node as it was."""
    after = verdict.after or state
    groups = {share.zones for one in verdict.assignments for share in one.memory}
    return Allocation(
        state.free_cpus & ~after.free_cpus,
        _less(state.memory_free, after.memory_free),
        tuple(old - new for old, new in zip(state.device_free, after.device_free, strict=True)),
        tuple(sorted(groups)),
        assigned_zones(state.kind, verdict),
    )


def release(state: NodeState, allocation: Allocation, assigned_zones: int) -> NodeState:
    """Return a node without a pod; `assigned`: the set of zones of which others have memory.

    Zones give memory as one until nobody has any of it (pkg/kubelet/cm/memorymanager/policy_static.go releaseMemory).
    What was given of several as one the kubelet may free in another of them; only their sum matters then.
    """
    own = _union(allocation.memory_groups)
    groups = tuple(
        1 << zone if group & own and not group & assigned_zones else group
        for zone, group in zip(state.kind.zones, state.memory_groups, strict=False)
    )
    return state._replace(
        free_cpus=state.free_cpus | allocation.cpus,
        memory_free=_more(state.memory_free, allocation.memory),
        memory_groups=groups,
        memory_assigned=state.memory_assigned & (assigned_zones | ~own),
        device_free=tuple(a + b for a, b in zip(state.device_free, allocation.devices, strict=True)),
    )


def reallocate(state: NodeState, allocation: Allocation) -> NodeState | None:
    """Return a node with a pod that is back where it was; None where another has its place."""
    memory = _less(state.memory_free, allocation.memory)
    devices = tuple(a - b for a, b in zip(state.device_free, allocation.devices, strict=True))
    short = any(size < 0 for row in memory for size in row) or any(count < 0 for count in devices)
    if allocation.cpus & ~state.free_cpus or short:
        return None
    groups = list(state.memory_groups)
    for together in allocation.memory_groups:
        for place, zone in enumerate(state.kind.zones):
            if together >> zone & 1:
                alone = groups[place] == 1 << zone and not state.memory_assigned >> zone & 1
                if groups[place] != together and not alone:
                    return None
                groups[place] = together
    return state._replace(
        free_cpus=state.free_cpus & ~allocation.cpus,
        memory_free=memory,
        memory_groups=tuple(groups),
        memory_assigned=state.memory_assigned | _union(allocation.memory_groups),
        device_free=devices,
    )


def memory_zones(allocations: tuple[Allocation, ...]) -> int:
    """Return the set of zones of which pods have memory."""
    return _union(tuple(_union(one.memory_groups) for one in allocations))


def _union(sets: tuple[int, ...]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _less(one: MemoryTable, other: MemoryTable) -> MemoryTable:
    return tuple(tuple(a - b for a, b in zip(*rows, strict=True)) for rows in zip(one, other, strict=True))


def _more(one: MemoryTable, other: MemoryTable) -> MemoryTable:
    return tuple(tuple(a + b for a, b in zip(*rows, strict=True)) for rows in zip(one, other, strict=True))
