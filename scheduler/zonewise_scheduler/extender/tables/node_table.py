"""The row of each node in the arrays, the revision of its last change, and its rejections since then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from zonewise_scheduler.extender.tables.zone_amounts import free_by_zone
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.arrays.zone_fit import ADMITTED, REJECTED, UNDECIDED
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF
from zonewise_scheduler.nodes.score.node_score import score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget
    from zonewise_scheduler.extender.tables.zone_amounts import ZoneAmount
    from zonewise_scheduler.nodes.score.fragmentation import PendingShape

UNKNOWN_ROW = -1
_ADMITTED_BONUS = 1000
"""Bonus that exceeds any score."""
_EXCLUDED = -10 * _ADMITTED_BONUS
_MAX_REJECTIONS = 64
"""Maximum number of shapes stored for a row: a node that never changes would otherwise collect every shape."""
_MAX_UNFINISHED = 64
"""Maximum number of shapes whose judgement is continued: those of the latest calls."""
_MAX_CHANGES = 256
"""Maximum number of changes returned at once: more than the pods requeued by one call and the calls before it."""


class NodeSet(Protocol):
    """Nodes by name."""

    def __contains__(self, name: str, /) -> bool: ...


class NodeTable:
    """See the module. The revision counts changes of the table."""

    def __init__(self) -> None:
        self.revision = 0
        self._table = NodeStateTable()
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._changed: NDArray[np.int64] = np.zeros(0, np.int64)
        self._rejections: dict[int, dict[PodShape, str]] = {}
        self._blocked_rows: set[int] = set()  # rows that rejected a pod because of assumed pods
        self._unfinished: dict[PodShape, None] = {}  # shapes for which a budget was spent

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def lookup(self, names: Sequence[str]) -> list[int]:
        """Return the row of each node, or UNKNOWN_ROW for a node without a report."""
        return [self._rows.get(name, UNKNOWN_ROW) for name in names]

    def state(self, row: int) -> NodeState | None:
        """Return the state in a row."""
        return self._table.state(row)

    def state_of(self, name: str) -> NodeState | None:
        """Return a node's state, or None without a report."""
        row = self._rows.get(name)
        return None if row is None else self._table.state(row)

    def free_by_zone(self) -> dict[str, ZoneAmount]:
        """Return the free amounts of all nodes by resource."""
        return free_by_zone(self._table.views())

    def possible_nodes(self, shape: PodShape, limit: int) -> list[str]:
        """Return some nodes that may admit a pod, regardless of rejections because of assumed pods."""
        rows = np.flatnonzero(self._table.fits(shape) != REJECTED)[:limit]
        return [self._names[row] for row in rows.tolist()]

    def may_admit(self, name: str, shape: PodShape) -> bool:
        """Return whether a node may admit a pod, by the arrays."""
        row = self._rows.get(name)
        return row is not None and bool(self._table.fits(shape)[row] != REJECTED)

    def update(self, changed: Iterable[tuple[str, NodeState | None]]) -> None:
        """Write new states. None frees the row for another node."""
        self.revision += 1
        for name, state in changed:
            row = self._rows.get(name)
            if row is None:
                if state is None:
                    continue
                row = self._new_row(name)
            self._table.set(row, state)
            self._mark_changed(row)
            if state is None:
                del self._rows[name]
                self._free.append(row)

    def clear_rejections(self, names: Iterable[str]) -> bool:
        """Forget the rejections of nodes whose states are unchanged; return whether there were any."""
        rows = [row for row in map(self._rows.get, names) if row is not None and row in self._rejections]
        self.revision += bool(rows)
        for row in rows:
            self._mark_changed(row)
        return bool(rows)

    def nodes_in_backoff(self) -> list[str]:
        """Return the nodes that have rejected a pod because of a backoff."""
        return [self._names[row] for row, rejections in self._rejections.items() if NODE_BACKOFF in rejections.values()]

    def nodes_with_assumed_pods(self) -> list[str]:
        """Return the nodes that have rejected a pod because of assumed pods."""
        return [self._names[row] for row in self._blocked_rows]

    def reject(self, name: str, shape: PodShape, reason: str) -> None:
        """Store that a node rejects a shape until it changes, regardless of the arrays."""
        row = self._rows[name]
        rejections = self._rejections.setdefault(row, {})
        if len(rejections) == _MAX_REJECTIONS:
            rejections.clear()
        rejections[shape] = reason
        if reason == BLOCKED_BY_ASSUMED:
            self._blocked_rows.add(row)

    def rejection(self, name: str, shape: PodShape) -> str | None:
        """Return the stored reason why a node rejects a shape, or None if there is none."""
        rejections = self._rejections.get(self._rows[name])
        return None if rejections is None else rejections.get(shape)

    def rejecting(self, shape: PodShape) -> list[str]:
        """Return the nodes with a stored reason to reject a shape."""
        return [self._names[row] for row, rejections in self._rejections.items() if shape in rejections]

    def by_score(
        self,
        shape: PodShape,
        pending: tuple[PendingShape, ...],
        nodes: NodeSet | None = None,
        budget: JudgingBudget | None = None,
    ) -> Iterator[str]:
        """Yield those of some or all nodes that may admit a pod, in three groups, each ordered by score.

        The first group surely admits the pod, the second is undecided, and the third rejected a pod because of assumed
        pods. With a budget, undecided nodes are judged one by one, and rejecting ones are left out. Nodes that remain
        when the budget is spent are left out too; unjudged() returns them, and judge_more() continues with them.
        """
        self._unfinished.pop(shape, None)  # of an earlier call, which need not be continued if this one ends in time
        fits = self._table.fits(shape)
        rank = score(self._table, shape, pending)
        rank += (fits == ADMITTED) * _ADMITTED_BONUS
        rank[list(self._blocked_rows)] -= 2 * _ADMITTED_BONUS
        rank[fits == REJECTED] = _EXCLUDED
        for row in _rows_by_rank(rank):
            name = self._names[row]
            if nodes is not None and name not in nodes:
                continue
            if budget is None or fits[row] == ADMITTED or self._judge(row, shape, budget):
                yield name

    def unjudged(self, shape: PodShape, nodes: NodeSet) -> list[str]:
        """Return those of some nodes that neither the arrays nor any call has decided for a pod."""
        rows = np.flatnonzero(self._table.fits(shape) == UNDECIDED).tolist()
        names = [self._names[row] for row in rows if shape not in self._rejections.get(row, ())]
        return [name for name in names if name in nodes]

    def judge_more(self, budget: JudgingBudget) -> bool:
        """Judge nodes for which earlier calls had no time; return whether one admits its pod, and so has changed."""
        for shape in list(self._unfinished):
            for row in np.flatnonzero(self._table.fits(shape) == UNDECIDED).tolist():
                if budget.is_spent:
                    return False
                if self._table.judge(row, shape):
                    self.revision += 1
                    self._changed[row] = self.revision
                    return True
            del self._unfinished[shape]
        return False

    def _judge(self, row: int, shape: PodShape, budget: JudgingBudget) -> bool:
        """Return whether an undecided row admits a pod; False if the budget is spent."""
        if shape in self._rejections.get(row, ()):
            return True  # the caller determines the reason
        if not budget.is_spent:
            return self._table.judge(row, shape)
        self._unfinished[shape] = None
        if len(self._unfinished) > _MAX_UNFINISHED:
            del self._unfinished[next(iter(self._unfinished))]
        return False

    def scores(self, shape: PodShape, pending: tuple[PendingShape, ...], names: Sequence[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 for a node without a report."""
        scores: NDArray[np.int64] = score(self._table, shape, pending)
        return [0 if row == UNKNOWN_ROW else int(scores[row]) for row in self.lookup(names)]

    def change_revisions(self, shape: PodShape) -> list[int]:
        """Return the latest revisions at which nodes that may admit a pod last changed, ascending."""
        candidates = self._table.fits(shape) != REJECTED
        candidates[[row for row, rejections in self._rejections.items() if shape in rejections]] = False
        revisions = self._changed[: candidates.size][candidates]
        revisions.sort()
        return revisions[-_MAX_CHANGES:].tolist()

    def changed_since(self, shape: PodShape, revision: int) -> list[str]:
        """Return the nodes that may admit a pod and have changed after a revision."""
        fits = self._table.fits(shape)
        rows = np.flatnonzero((fits != REJECTED) & (self._changed[: fits.size] > revision))
        return [self._names[row] for row in rows.tolist() if shape not in self._rejections.get(row, ())]

    # --- rows

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self._names[row] = name
        else:
            row = len(self._names)
            self._names.append(name)
            if row == self._changed.size:
                self._changed = np.concatenate([self._changed, np.zeros(max(row, 64), np.int64)])
        self._rows[name] = row
        return row

    def _mark_changed(self, row: int) -> None:
        self._changed[row] = self.revision
        self._rejections.pop(row, None)
        self._blocked_rows.discard(row)


def _rows_by_rank(rank: NDArray[np.int64]) -> Iterator[int]:
    """Yield the rows that are not excluded, the highest rank first; the ranks are overwritten."""
    while rank.size and (best := rank.max()) > _EXCLUDED:  # rank by rank: the caller usually stops at the first
        rows = np.flatnonzero(rank == best)
        rank[rows] = _EXCLUDED
        yield from rows.tolist()
