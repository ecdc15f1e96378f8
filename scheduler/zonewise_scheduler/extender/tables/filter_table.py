"""Determines at once all nodes that pass kube-scheduler's own filters for a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import lacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

_INITIAL_ROWS = 64


class FilterTable:
    """A growing NodeInfoTable, indexed by node name."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._free = list(range(_INITIAL_ROWS))[::-1]
        self._table = NodeInfoTable([None] * _INITIAL_ROWS)

    def update(self, changed: Iterable[tuple[str, NodeInfo | None]]) -> None:
        """Write nodes; None removes a node."""
        for name, info in changed:
            row = self._rows.get(name)
            if info is None:
                if row is not None:
                    del self._rows[name]
                    self._free.append(row)
                    self._table.set(row, None)
                continue
            if row is None:
                row = self._rows[name] = self._new_row()
            self._table.set(row, info)

    def passes(self, pod: Constraints, name: str) -> bool:
        """Return whether a node passes every filter."""
        row = self._rows.get(name)
        info = None if row is None else self._table.infos[row]
        return info is not None and run_filter_plugins(pod, info) is None

    def lacking(self, resource: str, names: Iterable[str]) -> frozenset[str]:
        """Return the nodes that have none of an extended resource, even when they are idle."""
        found: set[str] = set()
        lacking: dict[int, bool] = {}  # by identity of the allocatable, which nodes of one model share
        for name in names:
            info = None if (row := self._rows.get(name)) is None else self._table.infos[row]
            if info is None:
                continue
            key = id(info.allocatable)
            if key not in lacking:
                lacking[key] = lacks(info, resource)
            if lacking[key]:
                found.add(name)
        return frozenset(found)

    def passing(self, pod: Constraints) -> PassingNodes:
        """Return the nodes that pass every filter."""
        return PassingNodes(self._rows, self._table.filter_codes(pod) == 0)

    def _new_row(self) -> int:
        if not self._free:
            rows = len(self._table)
            self._table = NodeInfoTable([*self._table.infos, *[None] * rows])
            self._free = list(range(rows, 2 * rows))[::-1]
        return self._free.pop()


class PassingNodes:
    """A set of nodes, as a mask over rows; valid until the table changes."""

    def __init__(self, rows: dict[str, int], mask: NDArray[np.bool_]) -> None:
        self._rows = rows
        self._mask = mask

    def __contains__(self, name: str) -> bool:
        row = self._rows.get(name)
        return row is not None and bool(self._mask[row])

    def __iter__(self) -> Iterator[str]:
        return (name for name, row in self._rows.items() if self._mask[row])

    def __bool__(self) -> bool:
        return bool(self._mask.any())
