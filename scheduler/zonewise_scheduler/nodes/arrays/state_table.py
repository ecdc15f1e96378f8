"""All nodes of a cluster as arrays, and what their kubelets would answer to a pod."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.block import Block
from zonewise_scheduler.nodes.arrays.layout import Layout
from zonewise_scheduler.nodes.arrays.pod_counts import UNDECIDED_COUNT, pod_counts
from zonewise_scheduler.nodes.arrays.verdict_cache import VerdictCache
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.types import I8, I64, Bools

_T = TypeVar("_T", bound=np.generic)


class NodeStateTable:
    """Rows are nodes; a row without a state refuses every pod.

    Rows of one layout (policies, zones, CPUs and the places of devices) share contiguous arrays of (resource, zone,
    row). A changed row costs its own work, when the next question is asked; answers are kept, so that of a burst of
    equal pods only the first is asked of all rows.
    """

    def __init__(self) -> None:
        """Make an empty table."""
        self._states: list[NodeState | None] = []
        self._block_of: list[Block | None] = []
        self._place: list[int] = []
        self._blocks: dict[Layout, Block] = {}
        self._of_kind: dict[NodeKind, Block] = {}
        self._pending: dict[int, NodeState | None] = {}
        self._kept = VerdictCache()

    @property
    def rows(self) -> int:
        """Return the number of rows: one more than the highest that was ever set."""
        return len(self._states)

    def state(self, row: int) -> NodeState | None:
        """Return a row's state."""
        return self._states[row]

    def set(self, row: int, state: NodeState | None) -> None:
        """Set a row, or clear it with None; rows up to it are made as needed."""
        if row >= len(self._states):
            missing = row + 1 - len(self._states)
            self._states += [None] * missing
            self._block_of += [None] * missing
            self._place += [0] * missing
        self._states[row] = state
        self._pending[row] = state

    def set_rows(self, changed: Mapping[int, NodeState | None]) -> None:
        """Set many rows."""
        for row, state in changed.items():
            self.set(row, state)

    def fits(self, shape: PodShape) -> I8:
        """Return (rows,): 1 where a kubelet would admit the pod, 0 where not, -1 where arrays do not suffice.

        What pods request of the node as a whole (NodeResourcesFit) is no part of it.
        """
        return self.gather(np.zeros(self.rows, np.int8), lambda block: block.zone_fit(shape).fits)

    def admitted(self, shape: PodShape) -> Bools:
        """Return (rows,): whether a kubelet would admit the pod; those in doubt are decided state by state."""
        fits = self.fits(shape)

        def decide(rows: I64 | None) -> Bools:
            some = fits if rows is None else fits[rows]
            found = some == ADMITTED
            for at in np.flatnonzero(some == UNDECIDED).tolist():
                state = self._states[at if rows is None else int(rows[at])]
                found[at] = state is not None and _admits(state, shape)
            return found

        return self._kept.get_or_compute(("resolved", shape), self.rows, decide).copy()

    def pod_counts(self, shape: PodShape, limit: int) -> I64:
        """Return (rows,): how many such pods, one after another, each row would take, up to a limit."""
        key = ("copies", shape, limit)
        found = self.gather(
            np.zeros(self.rows, np.int64),
            lambda block: block.get_or_compute(
                key, lambda view, _: pod_counts(view, alignment_request(view.layout, shape), limit)
            ),
        )
        for row in np.flatnonzero(found == UNDECIDED_COUNT).tolist():
            state = self._states[row]
            found[row] = 0 if state is None else _copies(state, shape, limit)
        return found

    def gather(self, out: NDArray[_T], compute: Callable[[Block], NDArray[_T]]) -> NDArray[_T]:
        """Write each block's answer, (places,), to the block's rows of into, (rows,), and return it."""
        self.absorb()
        for block in self._blocks.values():
            if block.rows.size:
                out[block.rows] = compute(block)
        return out

    def absorb(self) -> None:
        """Write what was set since the last question, many rows of a layout at once."""
        if not self._pending:
            return
        for row, state in self._pending.items():
            block = None if state is None else self._of_kind.get(state.kind) or self._block(state.kind)
            if block is not self._block_of[row]:
                self._move(row, block)
        batches: dict[Block, list[int]] = {}
        for row in self._pending:
            if block := self._block_of[row]:
                batches.setdefault(block, []).append(row)
        for block, rows in batches.items():
            states = [self._pending[row] for row in rows]
            block.write([self._place[row] for row in rows], [state for state in states if state is not None])
        self._kept.invalidate(np.fromiter(self._pending, np.int64, len(self._pending)))
        self._pending.clear()

    def _move(self, row: int, block: Block | None) -> None:
        """Take a row out of its block, and give it a place in another."""
        if old := self._block_of[row]:
            place = self._place[row]
            if (moved := old.remove(place)) is not None:
                self._place[moved] = place
        self._block_of[row] = block
        if block is not None:
            self._place[row] = block.add(row)

    def _block(self, kind: NodeKind) -> Block:
        block = self._of_kind.get(kind)
        if block is None:
            if len(self._of_kind) > 2 * self.rows:  # most are of no row any more
                self._of_kind.clear()
                self._blocks = {key: kept for key, kept in self._blocks.items() if kept.rows.size}
            layout = Layout.from_kind(kind)
            block = self._blocks.get(layout) or Block(layout)
            self._blocks[layout] = self._of_kind[kind] = block
        return block


@lru_cache(maxsize=1 << 15)
def _admits(state: NodeState, shape: PodShape) -> bool:
    return admit(state, shape).admitted


@lru_cache(maxsize=1 << 12)
def _copies(state: NodeState, shape: PodShape, limit: int) -> int:
    for count in range(limit):
        after = admit(state, shape).after
        if after is None:
            return count
        state = after
    return limit
