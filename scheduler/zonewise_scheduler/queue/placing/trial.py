"""Whether kubelets admit what a decision puts on their nodes, set by set."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.placing.fill import ANYWHERE, TOGETHER, counts, fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.fit.batch.table import Table
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.queue.placing.kubelets import Kubelets


class Given(NamedTuple):
    """Pods of one set on their nodes."""

    name: str
    shape: PodShape
    whole: int
    """What of them is to be in one zone (fill.py)."""
    at: dict[int, int]
    """How many on each node, by row."""


class Trial:
    """Nodes with the pods that were given to them so far; the table is not changed."""

    def __init__(self, kubelets: Kubelets, table: Table) -> None:
        self._kubelets = kubelets
        self._table = table
        self._due: dict[int, list[tuple[PodShape, int]]] = {}
        """Pods that are not in the states yet."""
        self._states: dict[int, NodeState] = {}
        """Nodes that were given pods."""

    def most(self, shape: PodShape, limit: int, whole: int = ANYWHERE) -> NDArray[np.int64]:
        """Return (rows,): how many pods, up to a limit, each node takes beside those that it was given."""
        found = counts(self._table, shape, limit, whole)
        if self._kubelets.trusting:
            found[~self._kubelets.known] = limit
        for row in (*self._states, *self._due):
            state = self.state(row)
            if state is not None:
                found[row] = fill(state, shape, limit, whole).pods
        return found

    def beside(self, leader: PodShape, pods: PodShape, limit: int, whole: int, row: int) -> int:
        """Return how many pods a node takes once it has a leader."""
        state = self.state(row)
        first = None if state is None else fill(state, leader, 1)
        return 0 if first is None or not first.pods else fill(first.after, pods, limit, whole).pods

    def state(self, row: int) -> NodeState | None:
        """Return a node with the pods that it was given."""
        state = self._states.get(row) or self._table.state(row)
        for shape, count in self._due.pop(row, ()):
            if state is not None:
                state = self._states[row] = fill(state, shape, count).after
        return state

    def short(self, sets: Sequence[Given]) -> dict[tuple[str, int], int]:
        """Return by set and row how many pods a node takes beside those of other sets, where it would be given more.

        On each node sets come in their order. Those that are all to be in one zone share it.
        """
        found: dict[tuple[str, int], int] = {}
        rows = Counter(row for one in sets for row in one.at) if len(sets) > 1 else Counter[int]()
        for row in (row for row, here in rows.items() if here > 1):
            state, zones = self.state(row), 0
            for one in (one for one in sets if row in one.at and state is not None):
                filled = fill(state, one.shape, one.at[row], one.whole)
                zones |= filled.zones
                apart = one.whole == TOGETHER and zones.bit_count() > 1
                if filled.pods < one.at[row] or apart:
                    found[one.name, row] = 0 if apart else filled.pods
                    break
                state = filled.after
        return found

    def give(self, sets: Sequence[Given]) -> None:
        """Give nodes their pods."""
        for one in sets:
            for row, count in one.at.items():
                self._due.setdefault(row, []).append((one.shape, count))
