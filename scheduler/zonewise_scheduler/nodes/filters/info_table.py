"""All nodes at once: the filters as arrays, one row a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_common.k8s.nodeaffinity import NAME_FIELD
from zonewise_common.k8s.taints import UNSCHEDULABLE, find_matching_untolerated_taint, tolerations_tolerate_taint
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from zonewise_scheduler.nodes.filters.column import Column
from zonewise_scheduler.nodes.filters.filter_plugins import FILTERS
from zonewise_scheduler.nodes.node.host_ports import ports_conflict
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_common.k8s.labels import Requirement
    from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.node.host_ports import HostPort
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

UNKNOWN = "no such node"
"""The outcome for a row without a node."""

OUTCOMES = ("", *FILTERS, UNKNOWN)
"""What the codes of NodeTable.refused() stand for; "": the node passes."""

MAX_AMOUNT = 1 << 62
"""Amounts are cut off here, so that sums of two stay within 64 bits."""

RequestsByRow = tuple["Resource", "NDArray[np.int64]"]
"""Requests of a pod, and by row how many of such pods; (rows,)."""

_FIRST = tuple(name for name, _ in amounts_by_resource(NO_RESOURCES))


class NodeInfoTable:
    """Nodes by row.

    A changed node costs its own work, when the next question is asked; what is asked for the first time of a label
    costs one pass over all nodes.
    """

    def __init__(self, infos: Sequence[NodeInfo | None]) -> None:
        rows = len(infos)
        self.infos: list[NodeInfo | None] = list(infos)
        """By row; to be changed by set() only."""
        self.generation = 0
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
        self.generation += 1
        self._pending.add(row)

    def name(self, row: int) -> str:
        """Return the name of a row's node; "" where there is none."""
        info = self.infos[row]
        return "" if info is None else info.name

    def label_column(self, key: str) -> Column[str | None]:
        """Return the values of a label by row; None where a node lacks it. It is kept up to date from now on."""
        self._absorb()
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = Column(len(self), None)
            column.set(range(len(self)), _values(self.infos, key))
        return column

    def filter_codes(self, pod: Constraints) -> NDArray[np.int8]:
        """Return by row which filter refuses a pod first, as places in OUTCOMES; (rows,), 0 where it passes."""
        self._absorb()
        found = np.zeros(len(self), np.int8)
        passes = (
            self._schedulable(pod),
            self._named(pod.node_name) if pod.node_name else None,
            self._tolerated(pod),
            self._selected(pod),
            self._ports.mask(lambda used: not ports_conflict(pod.ports, used)) if pod.ports else None,
            self.pod_counts(pod.requests) > 0,
        )
        for code in range(len(passes), 0, -1):
            passed = passes[code - 1]
            if passed is not None:
                found[~passed] = code
        found[~self._known] = len(OUTCOMES) - 1
        return found

    def available(self, resource: str) -> NDArray[np.int64]:
        """Return by row what is left of a resource, below 0 where pods request more than there is; (rows,), a view."""
        self._absorb()
        place = self._resources.get(resource)
        return np.zeros(len(self), np.int64) if place is None else self._left[place]

    def pod_counts(self, requests: Resource, assumed: Sequence[RequestsByRow] = ()) -> NDArray[np.int64]:
        """Return by row how many pods of these requests there is room for, beside those promised; (rows,)."""
        found = np.full(len(self), MAX_AMOUNT, np.int64)
        for name, size in amounts_by_resource(requests):
            if size > 0:
                left = self.available(name)
                for other, count in assumed:
                    left = left - count * dict(amounts_by_resource(other)).get(name, 0)
                found = np.minimum(found, left // min(size, MAX_AMOUNT))
        return np.maximum(found, 0)

    def leftover(self, requests: Resource, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by row how much is left of what is requested once there are so many copies; (rows,).

        In thousandths of the most that any row has left of a resource, added up over resources but pods.
        """
        found = np.zeros(len(self), np.int64)
        for name, size in amounts_by_resource(requests):
            if name != PODS and size > 0:
                left = self.available(name)
                found += (left - counts * size) // max(int(left.max(initial=0)) // 1000, 1)
        return found

    def taints(self, rows: NDArray[np.int64]) -> Iterator[tuple[tuple[Taint, ...], int]]:
        """Yield the distinct taints of some rows, and how many of them have each."""
        self._absorb()
        codes, counts = np.unique(self._taints.codes[rows], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            yield self._taints.values[code], count

    def _schedulable(self, pod: Constraints) -> NDArray[np.bool_] | None:
        return None if tolerations_tolerate_taint(UNSCHEDULABLE, pod.tolerations) else ~self._unschedulable

    def _tolerated(self, pod: Constraints) -> NDArray[np.bool_]:
        def passes(taints: tuple[Taint, ...]) -> bool:
            return find_matching_untolerated_taint(taints, pod.tolerations) is None

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
            found &= self.label_column(one.key).mask(one.matches)
        if pod.terms is not None:
            found &= np.logical_or.reduce([np.zeros(len(self), np.bool_), *(self._meets(term) for term in pod.terms)])
        return found

    def _meets(self, term: NodeSelectorTerm) -> NDArray[np.bool_]:
        found = np.ones(len(self), np.bool_)
        for one in term.match_expressions:
            found &= self.label_column(one.key).mask(one.matches)
        for one in term.match_fields:
            found &= self._has_name(one) if one.key == NAME_FIELD else one.matches("")
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
        have = [NO_RESOURCES if info is None else info.allocatable for info in infos]
        taken = [NO_RESOURCES if info is None else info.requested for info in infos]
        left = {name: [0] * len(rows) for name in self._resources}
        both = list(zip(have, taken, strict=True))
        left[PODS] = [whole.pods - used.pods for whole, used in both]
        left[CPU] = [whole.milli_cpus - used.milli_cpus for whole, used in both]
        left[MEMORY] = [whole.memory - used.memory for whole, used in both]
        left[EPHEMERAL_STORAGE] = [whole.ephemeral_storage - used.ephemeral_storage for whole, used in both]
        for rooms, sign in ((have, 1), (taken, -1)):
            for at, one in enumerate(rooms):
                for name, size in one.scalar_resources:
                    if name not in left:
                        left[name] = [0] * len(rows)
                    left[name][at] += sign * size
        self._resources = {name: place for place, name in enumerate(left)}
        missing = len(left) - len(self._left)
        self._left = np.vstack([self._left, np.zeros((missing, len(self)), np.int64)]) if missing else self._left
        for place, sizes in enumerate(left.values()):
            self._left[place, rows] = [max(-MAX_AMOUNT, min(size, MAX_AMOUNT)) for size in sizes]


def _values(infos: Iterable[NodeInfo | None], key: str) -> list[str | None]:
    return [None if info is None else info.label(key) for info in infos]
