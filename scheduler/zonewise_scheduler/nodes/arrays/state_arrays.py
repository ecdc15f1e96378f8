"""Many states at once, into arrays."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64, Bools

GROUPED_FREE = -1
"""Free memory of a zone from which none can be given alone, since it is in a group with others: less than any request,
one of 0 too."""


class StateArrays(NamedTuple):
    """What changes as pods come and go, of several rows."""

    free: I64
    """(resources, zones, rows): CPUs, bytes, devices that could be given from the zone alone."""
    node_free: I64
    """(resources, rows): of the whole node, whatever the zone."""
    whole_cores: I64
    """(rows,): free CPUs that share no core with a reserved one."""
    assigned: I64
    """(rows,): the set of zones, bit i for position i, of which memory is assigned."""
    grouped: Bools
    """(rows,): some zones give memory as one at present."""


def state_arrays(layout: Layout, states: Sequence[NodeState]) -> StateArrays:
    """Return the arrays of states of one layout."""
    rows, zones = len(states), len(layout.zones)
    free = np.zeros((layout.resource_count, zones, rows), np.int64)
    node_free = np.zeros((layout.resource_count, rows), np.int64)
    words = _words([state.free_cpus for state in states], layout.cpu_bytes)
    for zone, held in enumerate(layout.zone_words.view(np.uint64)):
        np.bitwise_count(words & held).sum(axis=1, dtype=np.int64, out=free[CPU, zone])
    node_free[CPU] = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    whole_cores = node_free[CPU]
    if layout.partly_reserved:
        cut = _words([layout.partly_reserved], layout.cpu_bytes)
        whole_cores = np.bitwise_count(words & ~cut).sum(axis=1, dtype=np.int64)
    grouped = np.zeros(rows, np.bool_)
    if layout.memory_types:
        grouped = _memory(layout, states, free, node_free)
    if layout.devices:
        _devices(layout, (state.device_free for state in states), free, node_free)
    assigned = np.fromiter((layout.to_positions(state.memory_assigned) for state in states), np.int64, rows)
    return StateArrays(free, node_free, whole_cores, assigned, grouped)


def total_amounts(layout: Layout, kinds: Sequence[NodeKind]) -> I64:
    """Return what widths are counted by: (resources, zones, kinds), with reserved CPUs and unhealthy devices."""
    found = np.zeros((layout.resource_count, len(layout.zones), len(kinds)), np.int64)
    found[CPU] = layout.cpu_totals[:, None]
    if layout.memory_types:
        _spread_memory(layout, (kind.allocatable for kind in kinds), found)
    if layout.devices:
        node = np.zeros((layout.resource_count, len(kinds)), np.int64)
        _devices(layout, ([one.total for one in kind.devices] for kind in kinds), found, node)
    return found


def _words(sets: Sequence[int], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    limit = (1 << 8 * width) - 1
    raw = b"".join([(bits & limit).to_bytes(width, "little") for bits in sets])
    return np.frombuffer(raw, np.uint64).reshape(len(sets), width // 8)


def _memory(layout: Layout, states: Sequence[NodeState], free: I64, node_free: I64) -> Bools:
    _spread_memory(layout, (state.memory_free for state in states), free)
    types = slice(CPU + 1, CPU + 1 + len(layout.memory_types))
    node_free[types] = free[types].sum(axis=1)
    alone = tuple(1 << zone for zone in layout.zones)
    grouped = np.zeros(len(states), np.bool_)
    for row, state in enumerate(states):
        if state.memory_groups and state.memory_groups != alone:
            grouped[row] = True
            together = [group != own for group, own in zip(state.memory_groups, alone, strict=True)]
            free[types, together, row] = GROUPED_FREE
    return grouped


def _spread_memory(layout: Layout, amounts: Iterable[Sequence[Sequence[int]]], into: I64) -> None:
    """Fill in the memory types; the amounts are by row, zone and type."""
    _, zones, rows = into.shape
    types = len(layout.memory_types)
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(amounts)), np.int64, rows * zones * types)
    into[CPU + 1 : CPU + 1 + types] = flat.reshape(rows, zones, types).transpose(2, 1, 0)


def _devices(layout: Layout, counts: Iterable[Sequence[int]], into: I64, node: I64) -> None:
    """Add devices, by row and class, to the zones that they are near to, and to the node."""
    _, zones, rows = into.shape
    classes = len(layout.devices)
    flat = np.fromiter(chain.from_iterable(counts), np.int64, rows * classes).reshape(rows, classes)
    columns = np.ascontiguousarray(flat.T)
    for place, target in layout.device_cells:
        into[target // zones, target % zones] += columns[place]
    for place, (resource, _) in enumerate(layout.devices):
        node[layout.device_index[resource]] += columns[place]
