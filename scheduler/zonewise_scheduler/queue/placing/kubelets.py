"""What the kubelets of a cluster have left for pods, with those that the queue has placed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.fit.batch.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.queue.placing.holdings import Holdings


class Kubelets:
    """The states of nodes as if none of the queue's pods were there, by row, and with those of some holdings.

    One for a cluster: holdings that are copied, to look ahead, share it. It has the arrays of one of them at a time,
    and what is different for another is written when that one asks.
    """

    def __init__(self, states: Sequence[NodeState | None], *, trusting: bool = True) -> None:
        """Take the nodes, without the pods that are added later; None: there is no report, nothing is known of zones.

        `trusting`: such nodes take whatever they have room for; else they take none of the pods.
        """
        self.trusting = trusting
        self.bare: list[NodeState | None] = list(states)
        self.known = np.array([state is not None for state in states], np.bool_)
        """(rows,): there is a report."""
        self.revision = 0
        """Another number whenever a node is another without the queue's pods."""
        self.stamps = count()
        """Numbers for the states of holdings."""
        self._now = _table(states)
        self._none: Table | None = None
        self._of: Holdings | None = None
        """Whose states the arrays are of."""

    def set(self, row: int, state: NodeState | None) -> None:
        """Take what a node is without the queue's pods."""
        self.bare[row] = state
        self.revision += 1
        self.known[row] = state is not None
        if self._none is not None:
            self._none.set(row, state)

    def empty(self) -> Table:
        """Return all nodes as if none of the queue's pods were there."""
        if self._none is None:
            self._none = _table(self.bare)
        return self._none

    def table(self, of: Holdings) -> Table:
        """Return all nodes with the pods of holdings; good until others ask."""
        last, self._of = self._of, of
        rows: Iterable[int] = of.changed
        if last is not of:
            before = () if last is None else last.shown.keys() | last.changed
            rows = {*before, *of.shown, *of.changed}
        for row in rows:
            state = of.shown.get(row, self.bare[row])
            if state is not self._now.state(row):
                self._now.set(row, state)
        of.changed.clear()
        return self._now


def kubelets_of(nodes: NodeTable, states: Mapping[str, NodeState], *, trusting: bool = True) -> Kubelets:
    """Return the kubelets of a cluster by the names of its nodes."""
    named = (states.get(nodes.name(row)) for row in range(len(nodes)))
    return Kubelets(list(named), trusting=trusting)


def _table(states: Sequence[NodeState | None]) -> Table:
    made = Table()
    made.set_rows(dict(enumerate(states)))
    made.absorb()
    return made
