"""All nodes in the form that gang placement needs: zones, whole nodes and topology, with the same rows.

Changes are recorded first, and applied before the next gang is placed, so that one placement sees one state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.gang.topology_levels import build_levels
from zonewise_scheduler.nodes.gang.types import NodeSnapshot
from zonewise_scheduler.nodes.node.node_info import lacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState, Resource
    from zonewise_scheduler.nodes.gang.topology_levels import TopologyLevels
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

_INITIAL_ROWS = 64


class GangTable:
    """A growing NodeSnapshot, indexed by node name. A node needs both a state and an info to get pods.

    note() may be called while another thread reads the snapshot, which apply() changes.
    """

    def __init__(self) -> None:
        self.version = 0
        """Number that changes with every recorded change of a node."""
        self._noted_states: dict[str, NodeState | None] = {}
        self._noted_infos: dict[str, NodeInfo | None] = {}
        self._rows: dict[str, int] = {}
        self._free = list(range(_INITIAL_ROWS))[::-1]
        self._states = NodeStateTable()
        self._states.set(_INITIAL_ROWS - 1, None)
        self._infos = NodeInfoTable([None] * _INITIAL_ROWS)
        self._levels: dict[str, TopologyLevels] = {}

    def note(
        self, states: Sequence[tuple[str, NodeState | None]], infos: Sequence[tuple[str, NodeInfo | None]]
    ) -> None:
        """Record changed nodes; None: the node has no report, or no longer exists."""
        self._noted_states.update(states)
        self._noted_infos.update(infos)
        self.version += len(states) + len(infos)

    def apply(self) -> None:
        """Write the nodes whose changes were recorded."""
        for name, state in self._noted_states.items():
            self._states.set(self._new_row(name), state)
            self._free_empty(name)
        for name, info in self._noted_infos.items():
            row = self._new_row(name)
            old = self._infos.infos[row]
            if old is None or info is None or old.labels != info.labels:
                self._levels.clear()
            self._infos.set(row, info)
            self._free_empty(name)
        self._noted_states.clear()
        self._noted_infos.clear()

    def row(self, name: str) -> int | None:
        """Return the row of a node, or None for an unknown one."""
        return self._rows.get(name)

    def snapshot(self, level: str) -> NodeSnapshot:
        """Return all nodes with one level of the topology, or without levels for "". The next apply() changes it."""
        levels = self._levels.get(level)
        if levels is None:
            levels = self._levels[level] = build_levels(self._infos, (level,) if level else ())
        return NodeSnapshot(self._states, self._infos, levels)

    def insufficient_resource(self, amounts: Resource) -> str:
        """Return a resource of which all nodes together have less left than this, or "" if they have enough of each."""
        for resource, amount in amounts_by_resource(amounts):
            if amount > 0 and self._infos.available(resource).clip(0).sum(dtype=np.float64) < amount:
                return resource
        return ""

    def rows_outside(self, level: str, nodes: Iterable[str]) -> frozenset[int]:
        """Return the rows whose label differs from that of the nodes; none if there are no nodes."""
        column = self._infos.label_column(level)
        rows = [self._rows[name] for name in nodes if name in self._rows]
        codes: list[int] = column.codes[rows].tolist()
        values = {column.values[code] for code in codes}
        if not values:
            return frozenset()
        return frozenset(column.mask(lambda value: value not in values).nonzero()[0].tolist())

    def rows_lacking(self, resource: str, besides: frozenset[str]) -> frozenset[int]:
        """Return the rows of the other nodes that have none of an extended resource, even when they are idle."""
        return frozenset(
            row
            for row, info in enumerate(self._infos.infos)
            if info is not None and info.name not in besides and lacks(info, resource)
        )

    def unlabelled_node(self, level: str, nodes: Iterable[str]) -> str:
        """Return the first known node if none of the nodes has a label, or "" if one has it or none is known."""
        infos = [info for name in nodes if name in self._rows and (info := self._infos.infos[self._rows[name]])]
        return infos[0].name if infos and all(info.label(level) is None for info in infos) else ""

    def _new_row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            if not self._free:
                self._grow()
            row = self._rows[name] = self._free.pop()
        return row

    def _grow(self) -> None:
        rows = len(self._infos)
        self._infos = NodeInfoTable([*self._infos.infos, *[None] * rows])
        self._states.set(2 * rows - 1, None)
        self._free = list(range(rows, 2 * rows))[::-1]
        self._levels.clear()

    def _free_empty(self, name: str) -> None:
        """Free the row of a node that has neither a state nor an info."""
        row = self._rows[name]
        if self._states.state(row) is None and self._infos.infos[row] is None:
            del self._rows[name]
            self._free.append(row)
