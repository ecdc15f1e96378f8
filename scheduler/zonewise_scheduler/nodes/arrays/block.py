"""Rows of one layout, in arrays that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.array_view import ArrayView
from zonewise_scheduler.nodes.arrays.state_arrays import state_arrays, total_amounts
from zonewise_scheduler.nodes.arrays.verdict_cache import ResultKey, VerdictCache
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, REJECTED, ZoneFit, fit_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.node_model import NodeModel
    from zonewise_scheduler.nodes.arrays.types import I8, I64

    Slots = slice | I64
    """All slots, or some by index."""

_INITIAL_CAPACITY = 16
_CHUNK_SLOTS = 65536
"""Slots that are computed at once: intermediate arrays take at most half a MiB each. With fewer slots, the fixed cost
of the operations exceeds what smaller arrays save."""


def zone_fit_key(shape: PodShape) -> ResultKey:
    """Return the key of the packed verdict on a pod."""
    return ResultKey("zone_fit", shape)


def packed_fit(view: ArrayView, shape: PodShape) -> I8:
    """Return the packed verdict on a pod."""
    return fit_zones(view, alignment_request(view.layout, shape)).packed


class Block:
    """The rows of a table that share a layout. Slots, the last axis of all arrays, are unordered."""

    def __init__(self, layout: Layout) -> None:
        """Create an empty block."""
        self.layout = layout
        self._rows: I64 = np.zeros(_INITIAL_CAPACITY, np.int64)
        self._is_ordered = True
        self._kinds: list[NodeKind | None] = []
        self._arrays = ArrayView.empty(layout, _INITIAL_CAPACITY)
        self._view: ArrayView | None = None
        self._cache = VerdictCache()

    @property
    def rows(self) -> I64:
        """Return the table's row of each slot."""
        return self._rows[: len(self._kinds)]

    @property
    def table_rows(self) -> slice | I64:
        """Return `rows`, as a slice if each slot has the row of its number: a slice is copied faster."""
        return slice(0, len(self._kinds)) if self._is_ordered else self.rows

    def view(self) -> ArrayView:
        """Return the arrays of all slots in use, of which there must be some."""
        if self._view is None:
            self._view = self._arrays.select(slice(0, len(self._kinds))).with_constants()
        return self._view

    def add(self, row: int) -> int:
        """Return a new slot for a row; the caller must then write it."""
        self._view = None
        slot = len(self._kinds)
        if slot == self._arrays.rows:
            self._arrays = _grown(self._arrays, 2 * slot)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[slot] = row
        self._is_ordered &= row == slot
        self._kinds.append(None)
        return slot

    def remove(self, slot: int) -> int | None:
        """Free a slot; return the row that moves to it from the last slot, if any."""
        self._view = None
        last, kind = len(self._kinds) - 1, self._kinds.pop()
        if slot == last:
            return None
        row = int(self._rows[last])
        self._is_ordered = False
        self._rows[slot], self._kinds[slot] = row, kind
        for array in self._arrays.arrays:
            array[..., slot] = array[..., last]
        self._cache.invalidate(np.array([slot]))
        return row

    def write(self, model: NodeModel, slots: Sequence[int], states: Sequence[NodeState]) -> None:
        """Write states of a model of this layout to slots."""
        indices = np.array(slots, np.int64)
        values = state_arrays(model, states)
        arrays = self._arrays
        arrays.free[:, :, indices], arrays.node_free[:, indices] = values.free, values.node_free
        arrays.whole_cores[indices], arrays.assigned[indices] = values.whole_cores, values.assigned
        arrays.grouped[indices], arrays.split_cores[indices] = values.grouped, values.split_cores
        kinds = self._kinds
        changed = [
            (slot, state.kind) for slot, state in zip(slots, states, strict=True) if kinds[slot] is not state.kind
        ]
        self._write_kinds(model, changed)
        self._cache.invalidate(indices)

    def _write_kinds(self, model: NodeModel, changed: list[tuple[int, NodeKind]]) -> None:
        if not changed:
            return
        kinds = list({id(kind): kind for _, kind in changed}.values())
        columns = {id(kind): column for column, kind in enumerate(kinds)}
        totals = total_amounts(model, kinds)
        indices = np.array([slot for slot, _ in changed])
        self._arrays.total[:, :, indices] = (kind_totals := totals[:, :, [columns[id(kind)] for _, kind in changed]])
        largest: I64 = kind_totals.max(axis=1)
        self._arrays.largest_total[:, indices] = largest
        self._arrays.percent_per_unit[:, indices] = np.divide(
            100, largest, out=np.zeros(largest.shape), where=largest > 0
        )
        self._arrays.group_sizes[:, indices] = np.array(model.group_sizes)[:, None]
        for slot, kind in changed:
            self._kinds[slot] = kind
        self._view = None

    def zone_fit(self, shape: PodShape, key: ResultKey | None = None) -> ZoneFit:
        """Return the verdict of all slots on a pod; `key`: its zone_fit_key(), if many blocks share it."""
        key = key or zone_fit_key(shape)
        return ZoneFit.from_packed(self.get_or_compute(key, lambda view, _: packed_fit(view, shape)))

    def settle(self, shape: PodShape, slot: int, *, admitted: bool) -> None:
        """Store the verdict of a slot that the arrays do not decide; it lasts until the slot changes."""
        self.zone_fit(shape).fits[slot] = ADMITTED if admitted else REJECTED

    def get_or_compute(self, key: Hashable, compute: Callable[[ArrayView, Slots], NDArray[Any]]) -> NDArray[Any]:
        """Return compute() of each slot (the last axis); only changed slots are recomputed.

        The key stands for all inputs of compute except the slots. The caller must not change the array. The next call
        with this key may change it.
        """

        def renew(slots: I64 | None) -> NDArray[Any]:
            view = self.view()
            if slots is not None:
                return compute(view.select(slots), slots)
            if view.rows <= _CHUNK_SLOTS:
                return compute(view, slice(0, view.rows))
            parts = [slice(start, min(start + _CHUNK_SLOTS, view.rows)) for start in range(0, view.rows, _CHUNK_SLOTS)]
            return np.concatenate([compute(view.select(part), part) for part in parts], axis=-1)

        return self._cache.get_or_compute(key, len(self._kinds), renew)

    def stale_slots(self, key: Hashable) -> I64 | None:
        """Return the slots that have changed since a result of get_or_compute() was stored, or None for all slots."""
        return self._cache.stale_slots(key, len(self._kinds))

    def store(self, key: Hashable, slots: Slots, values: NDArray[Any]) -> None:
        """Store the results of the stale slots, which get_or_compute() then uses."""
        if isinstance(slots, slice):
            self._cache.put(key, values)
        else:
            self._cache.patch(key, len(self._kinds), slots, values)


def _grown(view: ArrayView, capacity: int) -> ArrayView:
    grown = ArrayView.empty(view.layout, capacity)
    for new, old in zip(grown.arrays, view.arrays, strict=True):
        new[..., : view.rows] = old
    return grown
