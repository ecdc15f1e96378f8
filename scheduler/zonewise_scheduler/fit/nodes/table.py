"""All nodes at once: the filters as arrays, one row a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.fit.model.node import amounts
from zonewise_scheduler.fit.model.resources import CPU, MEMORY, PODS, STORAGE
from zonewise_scheduler.fit.nodes.columns import Column
from zonewise_scheduler.fit.nodes.filters import FILTERS
from zonewise_scheduler.fit.nodes.ports import conflict
from zonewise_scheduler.fit.nodes.requests import NOTHING
from zonewise_scheduler.fit.nodes.selectors import NAME
from zonewise_scheduler.fit.nodes.taints import UNSCHEDULABLE, tolerated, untolerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.fit.model.node import Room
    from zonewise_scheduler.fit.nodes.constraints import Constraints
    from zonewise_scheduler.fit.nodes.info import NodeInfo
    from zonewise_scheduler.fit.nodes.ports import HostPort
    from zonewise_scheduler.fit.nodes.selectors import Requirement, Term
    from zonewise_scheduler.fit.nodes.taints import Taint

UNKNOWN = "no such node"
"""The outcome for a row without a node."""

OUTCOMES = ("", *FILTERS, UNKNOWN)
"""What the codes of NodeTable.refused() stand for; "": the node passes."""

MOST = 1 << 62
"""Amounts are cut off here, so that sums of two stay within 64 bits."""

Promised = tuple["Room", "NDArray[np.int64]"]
"""Requests of a pod, and by row how many of such pods; (rows,)."""

_FIRST = tuple(name for name, _ in amounts(NOTHING))


class NodeTable:
    """Nodes by row.

    A changed node costs its own work, when the next question is asked; what is asked for the first time of a label
    costs one pass over all nodes.
    """

    def __init__(self, infos: Sequence[NodeInfo | None]) -> None:
        rows = len(infos)
        self.infos: list[NodeInfo | None] = list(infos)
        """By row; to be changed by set() only."""
        self.revision = 0
        """Another number whenever a row was set: what was worked out of the nodes may not hold any more."""
        self._pending = set(range(rows))
        self._rows: dict[str, int] = {}
        self._names = [""] * rows
        self._resources = {name: place for place, name in enumerate(_FIRST)}
        self._left: NDArray[np.int64] = np.zeros((len(_FIRST), rows), np.int64)
        """Milli-CPU, bytes, counts: allocatable less requested, by resource and row."""
        self._taints: Column[tuple[Taint, ...]] = Column(rows, ())
        self._unschedulable = np.zeros(rows, np.bool_)
        self._ports: Column[tuple[HostPort, ...]] = Column(rows, ())
        self._labels: dict[str, Column[str | None]] = {}
        self._known = np.zeros(rows, np.bool_)

    def __len__(self) -> int:
        return len(self.infos)

    def set(self, row: int, info: NodeInfo | None) -> None:
        """Put a node into a row; None: there is none."""
        self.infos[row] = info
        self.revision += 1
        self._pending.add(row)

    def name(self, row: int) -> str:
        """Return the name of a row's node; "" where there is none."""
        info = self.infos[row]
        return "" if info is None else info.name

    def label(self, key: str) -> Column[str | None]:
        """Return the values of a label by row; None where a node lacks it. It is kept up to date from now on."""
        self._absorb()
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = Column(len(self), None)
            column.set(range(len(self)), _values(self.infos, key))
        return column

    def refused(self, pod: Constraints) -> NDArray[np.int8]:
        """Return by row which filter refuses a pod first, as places in OUTCOMES; (rows,), 0 where it passes."""
        self._absorb()
        found = np.zeros(len(self), np.int8)
        passes = (
            self._schedulable(pod),
            self._named(pod.node_name) if pod.node_name else None,
            self._tolerated(pod),
            self._selected(pod),
            self._ports.mask(lambda used: not conflict(pod.ports, used)) if pod.ports else None,
            self.copies(pod.requests) > 0,
        )
        for code in range(len(passes), 0, -1):
            passed = passes[code - 1]
            if passed is not None:
                found[~passed] = code
        found[~self._known] = len(OUTCOMES) - 1
        return found

    def left(self, resource: str) -> NDArray[np.int64]:
        """Return by row what is left of a resource, below 0 where pods request more than there is; (rows,), a view."""
        self._absorb()
        place = self._resources.get(resource)
        return np.zeros(len(self), np.int64) if place is None else self._left[place]

    def copies(self, requests: Room, promised: Sequence[Promised] = ()) -> NDArray[np.int64]:
        """Return by row how many pods of these requests there is room for, beside those promised; (rows,)."""
        found = np.full(len(self), MOST, np.int64)
        for name, size in amounts(requests):
            if size > 0:
                left = self.left(name)
                for other, count in promised:
                    left = left - count * dict(amounts(other)).get(name, 0)
                found = np.minimum(found, left // min(size, MOST))
        return np.maximum(found, 0)

    def spare(self, requests: Room, copies: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by row how much is left of what is requested once there are so many copies; (rows,).

        In thousandths of the most that any row has left of a resource, added up over resources but pods.
        """
        found = np.zeros(len(self), np.int64)
        for name, size in amounts(requests):
            if name != PODS and size > 0:
                left = self.left(name)
                found += (left - copies * size) // max(int(left.max(initial=0)) // 1000, 1)
        return found

    def taints(self, rows: NDArray[np.int64]) -> Iterator[tuple[tuple[Taint, ...], int]]:
        """Yield the distinct taints of some rows, and how many of them have each."""
        self._absorb()
        codes, counts = np.unique(self._taints.codes[rows], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            yield self._taints.values[code], count

    def _schedulable(self, pod: Constraints) -> NDArray[np.bool_] | None:
        return None if tolerated(UNSCHEDULABLE, pod.tolerations) else ~self._unschedulable

    def _tolerated(self, pod: Constraints) -> NDArray[np.bool_]:
        def passes(taints: tuple[Taint, ...]) -> bool:
            return untolerated(taints, pod.tolerations) is None

        return self._taints.mask(passes)

    def _named(self, name: str) -> NDArray[np.bool_]:
        found = np.zeros(len(self), np.bool_)
        row = self._rows.get(name)
        if row is not None:
            found[row] = True
        return found

    def _selected(self, pod: Constraints) -> NDArray[np.bool_]:
        found = np.ones(len(self), np.bool_)
        for one in pod.selector:
            found &= self.label(one.key).mask(one.matches)
        if pod.terms is not None:
            found &= np.logical_or.reduce([np.zeros(len(self), np.bool_), *(self._meets(term) for term in pod.terms)])
        return found

    def _meets(self, term: Term) -> NDArray[np.bool_]:
        found = np.ones(len(self), np.bool_)
        for one in term.labels:
            found &= self.label(one.key).mask(one.matches)
        for one in term.fields:
            found &= self._has_name(one) if one.key == NAME else one.matches("")
        return found

    def _has_name(self, one: Requirement) -> NDArray[np.bool_]:
        named = self._named(one.values[0])
        return named if one.operator == "In" else ~named

    def _absorb(self) -> None:
        """Write the rows that were set since the last question."""
        if not self._pending:
            return
        rows = sorted(self._pending)
        self._pending.clear()
        infos = [self.infos[row] for row in rows]
        self._rename(rows, infos)
        self._known[rows] = [info is not None for info in infos]
        self._unschedulable[rows] = [info is not None and info.unschedulable for info in infos]
        self._taints.set(rows, [() if info is None else info.taints for info in infos])
        self._ports.set(rows, [() if info is None else info.ports for info in infos])
        for key, column in self._labels.items():
            column.set(rows, _values(infos, key))
        self._write_left(rows, infos)

    def _rename(self, rows: list[int], infos: list[NodeInfo | None]) -> None:
        for row in rows:
            if self._rows.get(self._names[row]) == row:
                del self._rows[self._names[row]]
        for row, info in zip(rows, infos, strict=True):
            self._names[row] = "" if info is None else info.name
            if info is not None:
                self._rows[info.name] = row

    def _write_left(self, rows: list[int], infos: list[NodeInfo | None]) -> None:
        have = [NOTHING if info is None else info.allocatable for info in infos]
        taken = [NOTHING if info is None else info.requested for info in infos]
        left = {name: [0] * len(rows) for name in self._resources}
        both = list(zip(have, taken, strict=True))
        left[PODS] = [whole.pods - used.pods for whole, used in both]
        left[CPU] = [whole.milli_cpus - used.milli_cpus for whole, used in both]
        left[MEMORY] = [whole.memory - used.memory for whole, used in both]
        left[STORAGE] = [whole.storage - used.storage for whole, used in both]
        for rooms, sign in ((have, 1), (taken, -1)):
            for at, one in enumerate(rooms):
                for name, size in one.others:
                    if name not in left:
                        left[name] = [0] * len(rows)
                    left[name][at] += sign * size
        self._resources = {name: place for place, name in enumerate(left)}
        missing = len(left) - len(self._left)
        self._left = np.vstack([self._left, np.zeros((missing, len(self)), np.int64)]) if missing else self._left
        for place, sizes in enumerate(left.values()):
            self._left[place, rows] = [max(-MOST, min(size, MOST)) for size in sizes]


def _values(infos: Iterable[NodeInfo | None], key: str) -> list[str | None]:
    return [None if info is None else info.label(key) for info in infos]
