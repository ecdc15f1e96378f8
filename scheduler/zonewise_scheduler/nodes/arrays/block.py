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
    """Places: all, or their numbers."""

_START = 16
_CHUNK = 16384
"""Places that are answered at once: intermediate arrays (128 KiB each) then stay in the cache of the processor."""


class Block:
    """The rows of a table that share a layout; places, the last axis of all arrays, are in no order."""

    def __init__(self, layout: Layout) -> None:
        """Make an empty block."""
        self.layout = layout
        self._rows: I64 = np.zeros(_START, np.int64)
        self._kinds: list[NodeKind | None] = []
        self._all = _empty(layout, _START)
        self._kept = VerdictCache()

    @property
    def rows(self) -> I64:
        """Return the table's row at each place."""
        return self._rows[: len(self._kinds)]

    def view(self) -> ArrayView:
        """Return the arrays of all places in use."""
        return self._all.select(slice(0, len(self._kinds)))

    def add(self, row: int) -> int:
        """Return a new place for a row, which is to be written next."""
        place = len(self._kinds)
        if place == self._all.rows:
            self._all = _grown(self._all, 2 * place)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[place] = row
        self._kinds.append(None)
        return place

    def remove(self, slot: int) -> int | None:
        """Give up a place; return the row that is at it now instead of at the end, if any."""
        last, kind = len(self._kinds) - 1, self._kinds.pop()
        if slot == last:
            return None
        row = int(self._rows[last])
        self._rows[slot], self._kinds[slot] = row, kind
        for array in self._all.arrays:
            array[..., slot] = array[..., last]
        self._kept.invalidate(np.array([slot]))
        return row

    def write(self, slots: Sequence[int], states: Sequence[NodeState]) -> None:
        """Write states of this layout at places."""
        at = np.array(slots, np.int64)
        new = state_arrays(self.layout, states)
        one = self._all
        one.free[:, :, at], one.node_free[:, at] = new.free, new.node_free
        one.whole_cores[at], one.assigned[at], one.grouped[at] = new.whole_cores, new.assigned, new.grouped
        kinds = self._kinds
        changed = [(at, new.kind) for at, new in zip(slots, states, strict=True) if kinds[at] is not new.kind]
        self._write_kinds(changed)
        self._kept.invalidate(at)

    def _write_kinds(self, changed: list[tuple[int, NodeKind]]) -> None:
        if not changed:
            return
        kinds = list({id(kind): kind for _, kind in changed}.values())
        column = {id(kind): number for number, kind in enumerate(kinds)}
        found = total_amounts(self.layout, kinds)
        at = np.array([place for place, _ in changed])
        self._all.total[:, :, at] = (written := found[:, :, [column[id(kind)] for _, kind in changed]])
        largest: I64 = written.max(axis=1)
        self._all.largest_total[:, at] = largest
        self._all.percent_per_unit[:, at] = np.divide(100, largest, out=np.zeros(largest.shape), where=largest > 0)
        for number, kind in changed:
            self._kinds[number] = kind

    def zone_fit(self, shape: PodShape) -> ZoneFit:
        """Return the answer of all places to a pod."""
        asked = alignment_request(self.layout, shape)
        found = self.get_or_compute(("placed", shape), lambda view, _: np.vstack(fit_zones(view, asked)))
        return ZoneFit(found[0], found[1:])

    def get_or_compute(self, key: Hashable, compute: Callable[[ArrayView, Slots], NDArray[Any]]) -> NDArray[Any]:
        """Return what is made of each place, the last axis; only changed places are made anew.

        The key stands for all that make depends on besides the places. The array is not to be changed.
        """
        view = self.view()

        def renew(places: I64 | None) -> NDArray[Any]:
            if places is not None:
                return compute(view.select(places), places)
            parts = [slice(start, min(start + _CHUNK, view.rows)) for start in range(0, view.rows, _CHUNK)]
            return np.concatenate([compute(view.select(part), part) for part in parts], axis=-1)

        return self._kept.get_or_compute(key, view.rows, renew)


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
    made = _empty(view.layout, capacity)
    for new, old in zip(made.arrays, view.arrays, strict=True):
        new[..., : view.rows] = old
    return made
