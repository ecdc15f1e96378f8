"""Rows of one layout, in arrays that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.array_view import ArrayView
from zonewise_scheduler.nodes.arrays.state_arrays import state_arrays, total_amounts
from zonewise_scheduler.nodes.arrays.verdict_cache import VerdictCache
from zonewise_scheduler.nodes.arrays.zone_fit import ZoneFit, fit_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import I64

    Slots = slice | I64
    """All slots, or some by index."""

_INITIAL_CAPACITY = 16
_CHUNK_SLOTS = 16384
"""Slots that are computed at once: intermediate arrays (128 KiB each) then stay in the cache of the processor."""


class Block:
    """The rows of a table that share a layout. Slots, the last axis of all arrays, are in no order."""

    def __init__(self, layout: Layout) -> None:
        """Create an empty block."""
        self.layout = layout
        self._rows: I64 = np.zeros(_INITIAL_CAPACITY, np.int64)
        self._kinds: list[NodeKind | None] = []
        self._arrays = _empty(layout, _INITIAL_CAPACITY)
        self._cache = VerdictCache()

    @property
    def rows(self) -> I64:
        """Return the table's row of each slot."""
        return self._rows[: len(self._kinds)]

    def view(self) -> ArrayView:
        """Return the arrays of all slots in use."""
        return self._arrays.select(slice(0, len(self._kinds)))

    def add(self, row: int) -> int:
        """Return a new slot for a row; the caller must write it next."""
        slot = len(self._kinds)
        if slot == self._arrays.rows:
            self._arrays = _grown(self._arrays, 2 * slot)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[slot] = row
        self._kinds.append(None)
        return slot

    def remove(self, slot: int) -> int | None:
        """Free a slot; return the row that moves to it from the last slot, if any."""
        last, kind = len(self._kinds) - 1, self._kinds.pop()
        if slot == last:
            return None
        row = int(self._rows[last])
        self._rows[slot], self._kinds[slot] = row, kind
        for array in self._arrays.arrays:
            array[..., slot] = array[..., last]
        self._cache.invalidate(np.array([slot]))
        return row

    def write(self, slots: Sequence[int], states: Sequence[NodeState]) -> None:
        """Write states of this layout to slots."""
        indices = np.array(slots, np.int64)
        values = state_arrays(self.layout, states)
        arrays = self._arrays
        arrays.free[:, :, indices], arrays.node_free[:, indices] = values.free, values.node_free
        arrays.whole_cores[indices], arrays.assigned[indices] = values.whole_cores, values.assigned
        arrays.grouped[indices] = values.grouped
        kinds = self._kinds
        changed = [
            (slot, state.kind) for slot, state in zip(slots, states, strict=True) if kinds[slot] is not state.kind
        ]
        self._write_kinds(changed)
        self._cache.invalidate(indices)

    def _write_kinds(self, changed: list[tuple[int, NodeKind]]) -> None:
        if not changed:
            return
        kinds = list({id(kind): kind for _, kind in changed}.values())
        columns = {id(kind): column for column, kind in enumerate(kinds)}
        totals = total_amounts(self.layout, kinds)
        indices = np.array([slot for slot, _ in changed])
        self._arrays.total[:, :, indices] = (kind_totals := totals[:, :, [columns[id(kind)] for _, kind in changed]])
        largest: I64 = kind_totals.max(axis=1)
        self._arrays.largest_total[:, indices] = largest
        self._arrays.percent_per_unit[:, indices] = np.divide(
            100, largest, out=np.zeros(largest.shape), where=largest > 0
        )
        for slot, kind in changed:
            self._kinds[slot] = kind

    def zone_fit(self, shape: PodShape) -> ZoneFit:
        """Return the verdict of all slots on a pod."""
        request = alignment_request(self.layout, shape)
        stacked = self.get_or_compute(("zone_fit", shape), lambda view, _: np.vstack(fit_zones(view, request)))
        return ZoneFit(stacked[0], stacked[1:])

    def get_or_compute(self, key: Hashable, compute: Callable[[ArrayView, Slots], NDArray[Any]]) -> NDArray[Any]:
        """Return compute() of each slot, the last axis; only changed slots are computed again.

        The key stands for all inputs of compute besides the slots. The array must not be changed.
        """
        view = self.view()

        def renew(slots: I64 | None) -> NDArray[Any]:
            if slots is not None:
                return compute(view.select(slots), slots)
            parts = [slice(start, min(start + _CHUNK_SLOTS, view.rows)) for start in range(0, view.rows, _CHUNK_SLOTS)]
            return np.concatenate([compute(view.select(part), part) for part in parts], axis=-1)

        return self._cache.get_or_compute(key, view.rows, renew)


def _empty(layout: Layout, capacity: int) -> ArrayView:
    shape = (layout.resource_count, len(layout.zones), capacity)
    flat = (layout.resource_count, capacity)
    return ArrayView(
        layout,
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(flat, np.int64),
        np.zeros(flat, np.float64),
        np.zeros(flat, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.bool_),
    )


def _grown(view: ArrayView, capacity: int) -> ArrayView:
    grown = _empty(view.layout, capacity)
    for new, old in zip(grown.arrays, view.arrays, strict=True):
        new[..., : view.rows] = old
    return grown
