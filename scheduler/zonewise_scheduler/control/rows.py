"""Each node's row in the arrays, when it last changed, and which pods it has refused since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.fit.batch.place import ADMITTED, REFUSED
from zonewise_scheduler.fit.batch.table import Table
from zonewise_scheduler.fit.ledger.values import IN_FLIGHT, SET_ASIDE
from zonewise_scheduler.fit.score.combined import score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.fit.score.remains import Waiting

UNKNOWN = -1
_SURE = 1000
"""Above any score."""
_NEVER = -10 * _SURE
_MOST_REFUSED = 64
"""Shapes remembered for a row: a node that never changes must not gather all there ever were."""
_MOST_CHANGES = 256
"""Nodes that are told of at once: more than pods are woken together, with those that were woken before."""


class Rows:
    """See the module. Revisions count the times at which anything changed."""

    def __init__(self) -> None:
        self.revision = 0
        self._table = Table()
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

    def places(self, names: Sequence[str]) -> list[int]:
        """Return the row of each node, UNKNOWN where nothing is known of it."""
        return [self._row_of.get(name, UNKNOWN) for name in names]

    def state(self, row: int) -> NodeState | None:
        """Return the state in a row."""
        return self._table.state(row)

    def write(self, changed: Iterable[tuple[str, NodeState | None]]) -> None:
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

    def ease(self, names: Iterable[str]) -> bool:
        """Take that these nodes may take what they have refused, though their states are the same; tell if any had."""
        rows = [row for row in map(self._row_of.get, names) if row is not None and row in self._refused]
        self.revision += bool(rows)
        for row in rows:
            self._forget(row)
        return bool(rows)

    def set_aside(self) -> list[str]:
        """Return the nodes that have refused a pod for a time only."""
        return [self._names[row] for row, refused in self._refused.items() if SET_ASIDE in refused.values()]

    def crowded(self) -> list[str]:
        """Return the nodes that have refused a pod for those in flight."""
        return [self._names[row] for row in self._crowded]

    def refuse(self, name: str, shape: PodShape, reason: str) -> None:
        """Remember that a node will not take a pod, whatever the arrays say, until it changes."""
        row = self._row_of[name]
        refused = self._refused.setdefault(row, {})
        if len(refused) == _MOST_REFUSED:
            refused.clear()
        refused[shape] = reason
        if reason == IN_FLIGHT:
            self._crowded.add(row)

    def refusal(self, name: str, shape: PodShape) -> str | None:
        """Return what was remembered so."""
        refused = self._refused.get(self._row_of[name])
        return None if refused is None else refused.get(shape)

    def best_first(self, shape: PodShape, waiting: tuple[Waiting, ...]) -> Iterator[str]:
        """Yield the nodes that may take a pod: sure ones, by score; those that need a look; those with a crowd."""
        fits = self._table.fits(shape)
        rank = score(self._table, shape, waiting)
        rank += (fits == ADMITTED) * _SURE
        rank[list(self._crowded)] -= 2 * _SURE
        rank[fits == REFUSED] = _NEVER
        while rank.size and (best := rank.max()) > _NEVER:  # score by score: most often the first one is the last
            rows = np.flatnonzero(rank == best)
            rank[rows] = _NEVER
            for row in rows.tolist():
                yield self._names[row]

    def scores(self, shape: PodShape, waiting: tuple[Waiting, ...], names: Sequence[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 where nothing is known of it."""
        found: NDArray[np.int64] = score(self._table, shape, waiting)
        return [0 if row == UNKNOWN else int(found[row]) for row in self.places(names)]

    def changes(self, shape: PodShape) -> list[int]:
        """Return the revisions at which nodes that may take a pod last changed, ascending: the latest of them."""
        may = self._table.fits(shape) != REFUSED
        may[[row for row, refused in self._refused.items() if shape in refused]] = False
        found = self._changed[: may.size][may]
        found.sort()
        return found[-_MOST_CHANGES:].tolist()

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
