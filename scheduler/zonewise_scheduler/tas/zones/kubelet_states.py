"""The node states of a cluster as arrays, with the pods that the queue has placed."""

from __future__ import annotations

from copy import copy
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.tas.zones.reported_node import ReportedNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable


class NodeStateOverlay:
    """The states of the nodes that have pods of the queue."""

    __slots__ = ("changed_rows", "states")

    def __init__(self, states: Mapping[int, NodeState | None], changed_rows: Iterable[int]) -> None:
        """Copy the states by row, and the rows that changed since the arrays of KubeletStates were written."""
        self.states = dict(states)
        self.changed_rows = set(changed_rows)


class KubeletStates:
    """The last reports of nodes by row, with and without the queue's pods, and the states under an overlay.

    A cluster has one instance in each thread, which copies of the allocations share. The arrays hold one overlay at a
    time. When another overlay is requested, only the differences are written.
    """

    def __init__(self, states: Sequence[NodeState | None], *, allow_unknown: bool = True) -> None:
        """Use nodes without pods of the queue; None: the node has no report, so its zones are unknown.

        `allow_unknown`: nodes without a report admit every pod; otherwise they admit none.
        """
        self.allow_unknown = allow_unknown
        self._reports = [ReportedNode(state, state, {}) for state in states]
        self.has_report = np.array([state is not None for state in states], np.bool_)
        """(rows,): whether the node has a report."""
        self.revision = 0
        """Increases with each report."""
        self._revisions = np.zeros(len(states), np.int64)
        """(rows,): the revision of the last report."""
        self.versions = count()
        """Unique version numbers for allocations."""
        self._table: NodeStateTable | None = _build_table(states)
        """None: not yet built."""
        self._empty_table: NodeStateTable | None = None
        self._overlay: NodeStateOverlay | None = None
        """The overlay in the arrays."""
        self._outdated_rows: set[int] = set()
        """Rows with a new report since the arrays were written."""

    def copy(self) -> KubeletStates:
        """Return a copy that changes independently; its arrays are built at their first use.

        The copy and the original take version numbers from one sequence.
        """
        copied = copy(self)
        copied._reports, copied._outdated_rows = list(self._reports), set()
        copied.has_report, copied._revisions = self.has_report.copy(), self._revisions.copy()
        copied._table = copied._empty_table = copied._overlay = None
        return copied

    def report(self, row: int, report: ReportedNode) -> None:
        """Store a new report of a node."""
        self._reports[row] = report
        self.revision += 1
        self._revisions[row] = self.revision
        self.has_report[row] = report.base is not None
        self._outdated_rows.add(row)
        if self._empty_table is not None:
            self._empty_table.set(row, report.base)

    def last_report(self, row: int) -> ReportedNode:
        """Return the last report of a node."""
        return self._reports[row]

    def row_revision(self, row: int) -> int:
        """Return the revision of the last report of a node."""
        return int(self._revisions[row])

    def rows_reported_since(self, revision: int) -> list[int]:
        """Return the rows with a report after a revision."""
        return np.flatnonzero(self._revisions > revision).tolist()

    def empty_table(self) -> NodeStateTable:
        """Return all nodes without the queue's pods."""
        if self._empty_table is None:
            self._empty_table = _build_table([report.base for report in self._reports])
        return self._empty_table

    def table(self, overlay: NodeStateOverlay) -> NodeStateTable:
        """Return all nodes under an overlay; valid until the next call."""
        if self._table is None:
            self._table = _build_table([report.state for report in self._reports])
        previous, self._overlay = self._overlay, overlay
        rows: Iterable[int] = overlay.changed_rows | self._outdated_rows
        if previous is not overlay:
            previous_rows = () if previous is None else previous.states.keys() | previous.changed_rows
            rows = {*previous_rows, *overlay.states, *rows}
        for row in rows:
            state = overlay.states.get(row, self._reports[row].state)
            if state is not self._table.state(row):
                self._table.set(row, state)
        overlay.changed_rows.clear()
        self._outdated_rows.clear()
        return self._table


def build_kubelet_states(
    nodes: NodeInfoTable, states: Mapping[str, NodeState], *, allow_unknown: bool = True
) -> KubeletStates:
    """Return the kubelet states of a table's nodes from states by node name."""
    states_by_row = (states.get(nodes.name(row)) for row in range(len(nodes)))
    return KubeletStates(list(states_by_row), allow_unknown=allow_unknown)


def _build_table(states: Sequence[NodeState | None]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states)))
    table.flush()
    return table
