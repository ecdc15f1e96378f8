"""A table of all nodes of a cluster as arrays, which computes their kubelets' verdicts on a pod."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.block import Block, packed_fit, zone_fit_key
from zonewise_scheduler.nodes.arrays.node_model import NodeModel
from zonewise_scheduler.nodes.arrays.pod_counts import UNDECIDED_COUNT, pod_counts
from zonewise_scheduler.nodes.arrays.stacked_blocks import renew_stacked
from zonewise_scheduler.nodes.arrays.verdict_cache import ResultKey, VerdictCache
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.stacked_blocks import StackedPart
    from zonewise_scheduler.nodes.arrays.types import I8, I64, Bools

_T = TypeVar("_T", bound=np.generic)


class NodeStateTable:
    """Rows are nodes; a row without a state rejects every pod.

    Rows of one layout (policies, number of zones, types of resources) share contiguous arrays of (resource, zone, row),
    whatever the models of their machines. At the next query, only changed rows cost work. Results are cached, so that
    of a burst of equal pods only the first is computed for all rows.
    """

    def __init__(self) -> None:
        """Create an empty table."""
        self._states: list[NodeState | None] = []
        self._blocks_by_row: list[Block | None] = []
        self._slots: list[int] = []
        self._blocks: dict[Layout, Block] = {}
        self._models: dict[NodeModel, NodeModel] = {}
        self._blocks_by_kind: dict[NodeKind, tuple[NodeModel, Block]] = {}
        self._pending: dict[int, NodeState | None] = {}
        self._cache = VerdictCache()

    @property
    def rows(self) -> int:
        """Return the number of rows: the highest row that was ever set, plus one."""
        return len(self._states)

    def state(self, row: int) -> NodeState | None:
        """Return a row's state."""
        return self._states[row]

    def set(self, row: int, state: NodeState | None) -> None:
        """Set a row, or clear it with None; the table grows as needed."""
        if row >= len(self._states):
            missing = row + 1 - len(self._states)
            self._states += [None] * missing
            self._blocks_by_row += [None] * missing
            self._slots += [0] * missing
        self._states[row] = state
        self._pending[row] = state

    def set_rows(self, changed: Mapping[int, NodeState | None]) -> None:
        """Set many rows."""
        for row, state in changed.items():
            self.set(row, state)

    def fits(self, shape: PodShape) -> I8:
        """Return (rows,): 1 if the kubelet would admit the pod, 0 if not, -1 if arrays do not suffice.

        Rows that judge() has decided since their last change are decided, unless that result is no longer cached.
        Requests on the node as a whole (NodeResourcesFit) are not checked.
        """
        key = zone_fit_key(shape)
        self.renew(key, [shape], lambda view, _: packed_fit(view, shape), padded=True)
        return self.gather(np.zeros(self.rows, np.int8), lambda block: block.zone_fit(shape, key).fits)

    def renew(
        self,
        key: Hashable,
        shapes: Iterable[PodShape],
        compute: Callable[[ArrayView, Sequence[StackedPart]], NDArray[Any]],
        *,
        padded: bool,
    ) -> None:
        """Compute a result of many blocks together, before gather() computes it block by block: see renew_stacked()."""
        self.flush()
        if len(self._blocks) > 1:
            renew_stacked(self._blocks.values(), key, shapes, compute, padded=padded)

    def admitted(self, shape: PodShape) -> Bools:
        """Return (rows,): whether the kubelet would admit the pod; undecided rows are decided state by state."""
        fits = self.fits(shape)

        def decide(rows: I64 | None) -> Bools:
            selected = fits if rows is None else fits[rows]
            result = selected == ADMITTED
            for index in np.flatnonzero(selected == UNDECIDED).tolist():
                state = self._states[index if rows is None else int(rows[index])]
                result[index] = state is not None and _admits(state, shape)
            return result

        return self._cache.get_or_compute(("admitted", shape), self.rows, decide).copy()

    def judge(self, row: int, shape: PodShape) -> bool:
        """Return whether the kubelet of a row admits the pod, and store the verdict, which rows of one state share."""
        state = self._states[row]
        if state is None:
            return False
        self.flush()
        admitted = _admits(state, shape)
        if block := self._blocks_by_row[row]:
            block.settle(shape, self._slots[row], admitted=admitted)
        return admitted

    def pod_counts(self, shape: PodShape, limit: int) -> I64:
        """Return (rows,): how many such pods each row would admit one after another, up to a limit."""
        key = ResultKey("pod_counts", shape, limit)
        counts = self.gather(
            np.zeros(self.rows, np.int64),
            lambda block: block.get_or_compute(
                key, lambda view, _: pod_counts(view, alignment_request(view.layout, shape), limit)
            ),
        )
        for row in np.flatnonzero(counts == UNDECIDED_COUNT).tolist():
            state = self._states[row]
            counts[row] = 0 if state is None else _count_pods(state, shape, limit)
        return counts

    def gather(self, out: NDArray[_T], compute: Callable[[Block], NDArray[Any]]) -> NDArray[_T]:
        """Write each block's result, (slots,), to the block's rows of `out`, (rows,), and return `out`."""
        self.flush()
        for block in self._blocks.values():
            if block.rows.size:
                out[block.table_rows] = compute(block)
        return out

    def views(self) -> list[ArrayView]:
        """Return the arrays of each layout in use; they are valid until the next change of a row."""
        self.flush()
        return [block.view() for block in self._blocks.values() if block.rows.size]

    def flush(self) -> None:
        """Write the rows that were set since the last query, many rows of a layout at once."""
        if not self._pending:
            return
        writes: dict[int, tuple[NodeModel, Block, list[int]]] = {}
        for row, state in self._pending.items():
            if state is None:
                self._move(row, None)
                continue
            model, block = self._blocks_by_kind.get(state.kind) or self._block(state.kind)
            if block is not self._blocks_by_row[row]:
                self._move(row, block)
            writes.setdefault(id(model), (model, block, []))[2].append(row)
        for model, block, rows in writes.values():
            states = [state for row in rows if (state := self._pending[row]) is not None]
            block.write(model, [self._slots[row] for row in rows], states)
        self._cache.invalidate(np.fromiter(self._pending, np.int64, len(self._pending)))
        self._pending.clear()

    def _move(self, row: int, block: Block | None) -> None:
        """Remove a row from its block, and add it to another."""
        if old_block := self._blocks_by_row[row]:
            slot = self._slots[row]
            if (moved_row := old_block.remove(slot)) is not None:
                self._slots[moved_row] = slot
        self._blocks_by_row[row] = block
        if block is not None:
            self._slots[row] = block.add(row)

    def _block(self, kind: NodeKind) -> tuple[NodeModel, Block]:
        if len(self._blocks_by_kind) > 2 * self.rows:  # most no longer have a row
            self._blocks_by_kind.clear()
            self._models.clear()
            self._blocks = {layout: block for layout, block in self._blocks.items() if block.rows.size}
        new_model = NodeModel.from_kind(kind)
        model = self._models.setdefault(new_model, new_model)
        block = self._blocks.get(model.layout) or Block(model.layout)
        self._blocks[model.layout] = block
        self._blocks_by_kind[kind] = model, block
        return model, block


@lru_cache(maxsize=1 << 15)
def _admits(state: NodeState, shape: PodShape) -> bool:
    return admit(state, shape).admitted


@lru_cache(maxsize=1 << 12)
def _count_pods(state: NodeState, shape: PodShape, limit: int) -> int:
    for count in range(limit):
        after = admit(state, shape).after
        if after is None:
            return count
        state = after
    return limit
