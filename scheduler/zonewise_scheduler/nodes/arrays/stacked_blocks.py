"""Judges blocks together if their kubelets have the same rules for a pod.

Blocks differ in their resources and numbers of zones. A pod requests few resources, and the others do not matter. So
the requested ones are copied side by side, and each array operation serves many blocks. Otherwise its fixed cost would
exceed the cost of the rows.

Zones that a node lacks are padded so that no pod gets anything from them:

1. They have less free than any request, so no single zone of them serves a step.
2. They count as zones with assigned memory, so no set of zones for memory contains them.
3. They have no totals. A set with them therefore has the totals of a smaller set, and the narrowest set decides.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.array_view import ArrayView
from zonewise_scheduler.nodes.arrays.multi_zone import MAX_ZONES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.block import Block
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64

_MAX_ROWS = 16384
"""Maximum number of rows of a stack: more would exceed the processor cache."""
_LARGE_ROWS = 4096
"""From this number on, the rows of one block cost more than the fixed cost of the operations on them."""
_ABSENT = -1
"""Free amount of a zone that a node lacks."""


class StackedPart(NamedTuple):
    """All rows of a block, or some of them."""

    block: Block
    slots: slice | I64


def renew_stacked(
    blocks: Iterable[Block],
    key: Hashable,
    shapes: Iterable[PodShape],
    compute: Callable[[ArrayView, Sequence[StackedPart]], NDArray[Any]],
    *,
    padded: bool,
) -> None:
    """Store compute() of the changed slots of blocks that can be stacked; other blocks compute their own on demand.

    `shapes`: the pods on which compute depends. `padded`: blocks with different numbers of zones may share a stack.
    """
    names = frozenset[str]().union(*(requested_resources(shape) for shape in shapes))
    stale: dict[Layout, list[StackedPart]] = {}
    for block in blocks:
        changed = block.stale_slots(key)
        count = block.rows.size if changed is None else changed.size
        if 0 < count < _LARGE_ROWS:
            part = StackedPart(block, slice(0, count) if changed is None else changed)
            stale.setdefault(_shared_layout(block.layout, names, padded=padded), []).append(part)
    for layout, parts in stale.items():
        for stacked in _stacks(parts):
            if len(stacked) > 1:
                views = [_view(part) for part in stacked]
                values, start = compute(_stacked_view(layout, views), stacked), 0
                for (block, slots), view in zip(stacked, views, strict=True):
                    block.store(key, slots, values[..., start : start + view.rows].copy())
                    start += view.rows


@lru_cache(maxsize=4096)
def requested_resources(shape: PodShape) -> frozenset[str]:
    """Return the memory types and devices of a pod's requests."""
    amounts = [amount for container in shape.containers for amount in (*container.memory, *container.devices)]
    if shape.pod_level is not None:
        amounts += shape.pod_level.memory
    return frozenset(name for name, _ in amounts)


@lru_cache(maxsize=4096)
def _shared_layout(layout: Layout, names: frozenset[str], *, padded: bool) -> Layout:
    """Return a layout with only some memory types and devices; blocks with equal results can be stacked.

    If there are more zones than the arrays try as sets, the number of zones is unchanged.
    """
    return replace(
        layout,
        zone_count=0 if padded and layout.zone_count <= MAX_ZONES else layout.zone_count,
        memory_types=tuple(sorted(name for name in layout.memory_types if name in names)),
        device_localities=tuple(sorted((entry for entry in layout.device_localities if entry[0] in names), key=str)),
    )


def _stacks(parts: Sequence[StackedPart]) -> Iterator[list[StackedPart]]:
    """Yield parts that together have a bounded number of rows."""
    stack: list[StackedPart] = []
    rows = 0
    for part in parts:
        count = part.slots.stop if isinstance(part.slots, slice) else part.slots.size
        if rows + count > _MAX_ROWS:
            yield stack
            stack, rows = [], 0
        stack.append(part)
        rows += count
    yield stack


def _view(part: StackedPart) -> ArrayView:
    view = part.block.view()
    return view if isinstance(part.slots, slice) else view.select(part.slots)


def _stacked_view(layout: Layout, views: Sequence[ArrayView]) -> ArrayView:
    """Return the rows of views side by side, with the resources of a layout."""
    zones = max(view.zones for view in views)
    stacked = ArrayView.empty(replace(layout, zone_count=zones), sum(view.rows for view in views))
    padding = np.zeros((zones, stacked.rows), np.bool_)
    start = 0
    for view in views:
        part = stacked.select(slice(start, start := start + view.rows))
        indices = _resource_indices(view.layout, layout)
        part.free[:, : view.zones], part.total[:, : view.zones] = view.free[indices], view.total[indices]
        part.largest_total[:], part.node_free[:] = view.largest_total[indices], view.node_free[indices]
        part.percent_per_unit[:], part.group_sizes[:] = view.percent_per_unit[indices], view.group_sizes
        part.whole_cores[:], part.assigned[:], part.grouped[:] = view.whole_cores, view.assigned, view.grouped
        part.split_cores[:] = view.split_cores
        if view.zones < zones:
            part.free[:, view.zones :] = _ABSENT
            part.assigned[:] |= (1 << zones) - (1 << view.zones)
            padding[view.zones :, start - view.rows : start] = True
    return replace(stacked, padding=padding) if padding.any() else stacked


@lru_cache(maxsize=4096)
def _resource_indices(layout: Layout, selected: Layout) -> list[int]:
    """Return the index in a layout of each resource of another layout, which has a subset of its resources."""
    index = {**layout.memory_index, **layout.device_index}
    return [0, *(index[name] for name in (*selected.memory_index, *selected.device_index))]
