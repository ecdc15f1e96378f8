"""Each node's row in the arrays, when it last changed, and which pods it has refused since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, REJECTED
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF
from zonewise_scheduler.nodes.score.node_score import score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.score.fragmentation import PendingShape

UNKNOWN_ROW = -1
_ADMITTED_BONUS = 1000
"""Above any score."""
_EXCLUDED = -10 * _ADMITTED_BONUS
_MAX_REJECTIONS = 64
"""Shapes remembered for a row: a node that never changes must not gather all there ever were."""
_MAX_CHANGES = 256
"""Nodes that are told of at once: more than pods are woken together, with those that were woken before."""


class NodeTable:
    """See the module. Revisions count the times at which anything changed."""

    def __init__(self) -> None:
        self.revision = 0
        self._table = NodeStateTable()
        self._row_of: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._changed: NDArray[np.int64] = np.zeros(0, np.int64)
        self._refused: dict[int, dict[PodShape, str]] = {}
        self._crowded: set[int] = set()  # rows that refused a pod for those in flight

    def __contains__(self, name: str) -> bool:
        return name in self._row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def lookup(self, names: Sequence[str]) -> list[int]:
        """Return the row of each node, UNKNOWN where nothing is known of it."""
        return [self._row_of.get(name, UNKNOWN_ROW) for name in names]

    def state(self, row: int) -> NodeState | None:
        """Return the state in a row."""
        return self._table.state(row)

    def update(self, changed: Iterable[tuple[str, NodeState | None]]) -> None:
        """Take new states; the row of a node without one is the next node's."""
        self.revision += 1
        for name, state in changed:
            row = self._row_of.get(name)
            if row is None:
                if state is None:
                    continue
                row = self._new_row(name)
            self._table.set(row, state)
            self._forget(row)
            if state is None:
                del self._row_of[name]
                self._free.append(row)

    def clear_rejections(self, names: Iterable[str]) -> bool:
        """Take that these nodes may take what they have refused, though their states are the same; tell if any had."""
        rows = [row for row in map(self._row_of.get, names) if row is not None and row in self._refused]
        self.revision += bool(rows)
        for row in rows:
            self._forget(row)
        return bool(rows)

    def nodes_in_backoff(self) -> list[str]:
        """Return the nodes that have refused a pod for a time only."""
        return [self._names[row] for row, refused in self._refused.items() if NODE_BACKOFF in refused.values()]

    def nodes_with_assumed_pods(self) -> list[str]:
        """Return the nodes that have refused a pod for those in flight."""
        return [self._names[row] for row in self._crowded]

    def reject(self, name: str, shape: PodShape, reason: str) -> None:
        """Remember that a node will not take a pod, whatever the arrays say, until it changes."""
        row = self._row_of[name]
        refused = self._refused.setdefault(row, {})
        if len(refused) == _MAX_REJECTIONS:
            refused.clear()
        refused[shape] = reason
        if reason == BLOCKED_BY_ASSUMED:
            self._crowded.add(row)

    def rejection(self, name: str, shape: PodShape) -> str | None:
        """Return what was remembered so."""
        refused = self._refused.get(self._row_of[name])
        return None if refused is None else refused.get(shape)

    def by_score(self, shape: PodShape, pending: tuple[PendingShape, ...]) -> Iterator[str]:
        """Yield the nodes that may take a pod: sure ones, by score; those that need a look; those with a crowd."""
        fits = self._table.fits(shape)
        rank = score(self._table, shape, pending)
        rank += (fits == ADMITTED) * _ADMITTED_BONUS
        rank[list(self._crowded)] -= 2 * _ADMITTED_BONUS
        rank[fits == REJECTED] = _EXCLUDED
        while rank.size and (best := rank.max()) > _EXCLUDED:  # score by score: most often the first one is the last
            rows = np.flatnonzero(rank == best)
            rank[rows] = _EXCLUDED
            for row in rows.tolist():
                yield self._names[row]

    def scores(self, shape: PodShape, pending: tuple[PendingShape, ...], names: Sequence[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 where nothing is known of it."""
        found: NDArray[np.int64] = score(self._table, shape, pending)
        return [0 if row == UNKNOWN_ROW else int(found[row]) for row in self.lookup(names)]

    def change_revisions(self, shape: PodShape) -> list[int]:
        """Return the revisions at which nodes that may take a pod last changed, ascending: the latest of them."""
        may = self._table.fits(shape) != REJECTED
        may[[row for row, refused in self._refused.items() if shape in refused]] = False
        found = self._changed[: may.size][may]
        found.sort()
        return found[-_MAX_CHANGES:].tolist()

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self._names[row] = name
        else:
            row = len(self._names)
            self._names.append(name)
            if row == self._changed.size:
                self._changed = np.concatenate([self._changed, np.zeros(max(row, 64), np.int64)])
        self._row_of[name] = row
        return row

    def _forget(self, row: int) -> None:
        self._changed[row] = self.revision
        self._refused.pop(row, None)
        self._crowded.discard(row)
