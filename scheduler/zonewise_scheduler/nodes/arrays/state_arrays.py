"""Converts node states to arrays."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.nodes.arrays.node_model import NodeModel
    from zonewise_scheduler.nodes.arrays.types import I64, Bools

GROUPED_FREE = -1
"""Free memory of a zone that allocates only together with other zones: less than any request."""

UNHEALTHY = -1
"""Free devices of a node without healthy devices of the resource: less than a request for 0."""

_MAX_SET_ZONES = 63
"""Maximum number of zones of a set: larger sets exceed 64 bits. For nodes with more than MAX_HINTED_ZONES, the arrays
decide only certain rejections, and these are fewest if no zone is assigned."""


class StateArrays(NamedTuple):
    """Amounts of several rows that change when pods start and end."""

    free: I64
    """(resources, zones, rows): CPUs, bytes or devices that the zone can allocate by itself."""
    node_free: I64
    """(resources, rows): free amounts of the whole node."""
    whole_cores: I64
    """(rows,): free CPUs that share no core with a reserved one."""
    assigned: I64
    """(rows,): the set of zones with assigned memory, bit i for position i; empty with more than 63 zones."""
    grouped: Bools
    """(rows,): whether some zones allocate memory as one group."""
    split_cores: Bools
    """(rows,): whether a core is partly free; False if Layout.fills_packages does not hold."""


def state_arrays(model: NodeModel, states: Sequence[NodeState]) -> StateArrays:
    """Return the arrays of states of one model."""
    rows, zones = len(states), len(model.zones)
    free = np.zeros((model.layout.resource_count, zones, rows), np.int64)
    node_free = np.zeros((model.layout.resource_count, rows), np.int64)
    words = _cpu_words([state.free_cpus for state in states], model.cpu_bytes)
    for zone, zone_words in enumerate(model.zone_words.view(np.uint64)):
        np.bitwise_count(words & zone_words).sum(axis=1, dtype=np.int64, out=free[CPU, zone])
    node_free[CPU] = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    whole_cores = node_free[CPU]
    if model.partly_reserved:
        partly_reserved = _cpu_words([model.partly_reserved], model.cpu_bytes)
        whole_cores = np.bitwise_count(words & ~partly_reserved).sum(axis=1, dtype=np.int64)
    grouped = np.zeros(rows, np.bool_)
    if model.memory_types:
        grouped = _write_memory(model, states, free, node_free)
    if model.devices:
        _write_devices(model, (state.device_free for state in states), free, node_free)
        _mark_unhealthy(model, states, node_free)
    assigned = np.zeros(rows, np.int64)
    if zones <= _MAX_SET_ZONES:
        assigned[:] = [model.to_positions(state.memory_assigned) for state in states]
    split_cores = np.zeros(rows, np.bool_)
    if model.layout.fills_packages:
        split_cores[:] = [_has_split_core(model, state) for state in states]
    return StateArrays(free, node_free, whole_cores, assigned, grouped, split_cores)


def _mark_unhealthy(model: NodeModel, states: Sequence[NodeState], node_free: I64) -> None:
    """Write UNHEALTHY for resources without a healthy device on a node: the kubelet then allocates none."""
    for row, state in enumerate(states):
        for resource in state.kind.resources_without_health:
            node_free[model.layout.device_index[resource], row] = UNHEALTHY


def total_amounts(model: NodeModel, kinds: Sequence[NodeKind]) -> I64:
    """Return the amounts that determine widths, (resources, zones, kinds), including reserved and unhealthy ones."""
    totals = np.zeros((model.layout.resource_count, len(model.zones), len(kinds)), np.int64)
    totals[CPU] = model.cpu_totals[:, None]
    if model.memory_types:
        _spread_memory(model, (kind.allocatable for kind in kinds), totals)
    if model.devices:
        unused = np.zeros((model.layout.resource_count, len(kinds)), np.int64)
        _write_devices(model, ([device_class.total for device_class in kind.devices] for kind in kinds), totals, unused)
    return totals


def _has_split_core(model: NodeModel, state: NodeState) -> bool:
    """Return whether some, but not all CPUs of a core are free."""
    return any(model.cpus.cores_by_count(state.free_cpus)[1:-1])


def _cpu_words(sets: Sequence[int], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    limit = (1 << 8 * width) - 1
    buffer = b"".join([(bits & limit).to_bytes(width, "little") for bits in sets])
    return np.frombuffer(buffer, np.uint64).reshape(len(sets), width // 8)


def _write_memory(model: NodeModel, states: Sequence[NodeState], free: I64, node_free: I64) -> Bools:
    _spread_memory(model, (state.memory_free for state in states), free)
    types = slice(CPU + 1, CPU + 1 + len(model.memory_types))
    node_free[types] = free[types].sum(axis=1)
    single_zones = tuple(1 << zone for zone in model.zones)
    grouped = np.zeros(len(states), np.bool_)
    for row, state in enumerate(states):
        if state.memory_groups and state.memory_groups != single_zones:
            grouped[row] = True
            in_group = [
                group != single_zone for group, single_zone in zip(state.memory_groups, single_zones, strict=True)
            ]
            free[types, in_group, row] = GROUPED_FREE
    return grouped


def _spread_memory(model: NodeModel, amounts: Iterable[Sequence[Sequence[int]]], out: I64) -> None:
    """Write the amounts of the memory types, given by row, zone and type."""
    _, zones, rows = out.shape
    types = len(model.memory_types)
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(amounts)), np.int64, rows * zones * types)
    out[CPU + 1 : CPU + 1 + types] = flat.reshape(rows, zones, types).transpose(2, 1, 0)


def _write_devices(model: NodeModel, counts: Iterable[Sequence[int]], out: I64, node_out: I64) -> None:
    """Add devices, given by row and class, to the zones near them and to the node."""
    _, zones, rows = out.shape
    classes = len(model.devices)
    flat = np.fromiter(chain.from_iterable(counts), np.int64, rows * classes).reshape(rows, classes)
    columns = np.ascontiguousarray(flat.T)
    for device_class, target in model.device_cells:
        out[target // zones, target % zones] += columns[device_class]
    for device_class, (resource, _) in enumerate(model.devices):
        node_out[model.layout.device_index[resource]] += columns[device_class]
