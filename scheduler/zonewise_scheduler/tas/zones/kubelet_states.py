"""What the kubelets of a cluster have left for pods, with those that the queue has placed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.tas.zones.zone_allocations import ZoneAllocations


class KubeletStates:
    """The states of nodes as if none of the queue's pods were there, by row, and with those of some holdings.

    One for a cluster: holdings that are copied, to look ahead, share it. It has the arrays of one of them at a time,
    and what is different for another is written when that one asks.
    """

    def __init__(self, states: Sequence[NodeState | None], *, allow_unknown: bool = True) -> None:
        """Take the nodes, without the pods that are added later; None: there is no report, nothing is known of zones.

        `trusting`: such nodes take whatever they have room for; else they take none of the pods.
        """
        self.allow_unknown = allow_unknown
        self.base_states: list[NodeState | None] = list(states)
        self.has_report = np.array([state is not None for state in states], np.bool_)
        """(rows,): there is a report."""
        self.revision = 0
        """Another number whenever a node is another without the queue's pods."""
        self.versions = count()
        """Numbers for the states of holdings."""
        self._now = _table(states)
        self._none: NodeStateTable | None = None
        self._of: ZoneAllocations | None = None
        """Whose states the arrays are of."""

    def set_base(self, row: int, state: NodeState | None) -> None:
        """Take what a node is without the queue's pods."""
        self.base_states[row] = state
        self.revision += 1
        self.has_report[row] = state is not None
        if self._none is not None:
            self._none.set(row, state)

    def empty_table(self) -> NodeStateTable:
        """Return all nodes as if none of the queue's pods were there."""
        if self._none is None:
            self._none = _table(self.base_states)
        return self._none

    def table(self, allocations: ZoneAllocations) -> NodeStateTable:
        """Return all nodes with the pods of holdings; good until others ask."""
        last, self._of = self._of, allocations
        rows: Iterable[int] = allocations.changed_rows
        if last is not allocations:
            before = () if last is None else last.visible_states.keys() | last.changed_rows
            rows = {*before, *allocations.visible_states, *allocations.changed_rows}
        for row in rows:
            state = allocations.visible_states.get(row, self.base_states[row])
            if state is not self._now.state(row):
                self._now.set(row, state)
        allocations.changed_rows.clear()
        return self._now


def build_kubelet_states(
    nodes: NodeInfoTable, states: Mapping[str, NodeState], *, allow_unknown: bool = True
) -> KubeletStates:
    """Return the kubelets of a cluster by the names of its nodes."""
    named = (states.get(nodes.name(row)) for row in range(len(nodes)))
    return KubeletStates(list(named), allow_unknown=allow_unknown)


def _table(states: Sequence[NodeState | None]) -> NodeStateTable:
    made = NodeStateTable()
    made.set_rows(dict(enumerate(states)))
    made.flush()
    return made
