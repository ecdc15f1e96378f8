"""Applies the filters to all nodes at once, with arrays that have one row per node."""

from __future__ import annotations

from copy import copy
from itertools import compress
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from zonewise_common.k8s.nodeaffinity import NAME_FIELD
from zonewise_common.k8s.taints import UNSCHEDULABLE, find_matching_untolerated_taint, tolerations_tolerate_taint
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from zonewise_scheduler.nodes.filters.filter_plugins import FILTERS
from zonewise_scheduler.nodes.node.host_ports import ports_conflict
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from zonewise_common.k8s.labels import Requirement
    from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.node.host_ports import HostPort
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

V = TypeVar("V", bound="Hashable")

_SPARE_CODES = 64

UNKNOWN = "no such node"
"""The outcome for a row without a node."""

OUTCOMES = ("", *FILTERS, UNKNOWN)
"""Meanings of the codes of NodeInfoTable.filter_codes(); "": the node passes."""

MAX_AMOUNT = 1 << 62
"""Amounts are capped at this value, so that the sum of two is within 64 bits."""

MAX_LABELS = 256
"""Maximum number of labels with a column: each costs work for every change of a node, and pods may select any label."""

RequestsByRow = tuple["Resource", "NDArray[np.int64]"]
"""Requests of a pod, and the number of such pods by row, (rows,)."""

_FIRST_RESOURCES = tuple(name for name, _ in amounts_by_resource(NO_RESOURCES))


class Column(Generic[V]):
    """Values by row; a test of all rows is evaluated once per distinct value."""

    def __init__(self, rows: int, value: V) -> None:
        self.codes: NDArray[np.int64] = np.zeros(rows, np.int64)
        """Index of each row's value in `values`."""
        self.values: list[V] = [value]
        """Distinct values; some may no longer have a row."""
        self._codes: dict[V, int] = {value: 0}

    def copy(self) -> Column[V]:
        """Return an independent copy."""
        copied = copy(self)
        copied.codes, copied.values, copied._codes = self.codes.copy(), list(self.values), dict(self._codes)
        return copied

    def set(self, rows: Sequence[int], values: Iterable[V]) -> None:
        """Set the values of some rows."""
        if len(self.values) >= 2 * len(self.codes) + _SPARE_CODES:
            self._compact()
        self.codes[rows] = [self._code(value) for value in values]

    def _code(self, value: V) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def mask(self, test: Callable[[V], bool]) -> NDArray[np.bool_]:
        """Return the result of a test for the value of each row, (rows,)."""
        return np.array([test(value) for value in self.values], np.bool_)[self.codes]

    def _compact(self) -> None:
        """Drop the values that have no row."""
        used = np.bincount(self.codes, minlength=len(self.values)) > 0
        self.values = list(compress(self.values, used.tolist()))
        self.codes = (np.cumsum(used) - 1)[self.codes]
        self._codes = {value: code for code, value in enumerate(self.values)}


class NodeInfoTable:
    """Nodes by row.

    At the next query, only changed nodes cost work. The first query of a label, and one after MAX_LABELS other labels,
    costs one pass over all nodes.
    """

    def __init__(self, infos: Sequence[NodeInfo | None]) -> None:
        rows = len(infos)
        self.infos: list[NodeInfo | None] = list(infos)
        """Nodes by row; only set() may change this list."""
        self.generation = 0
        """Number that changes whenever a row is set. Results that were computed from the nodes may then be outdated."""
        self._pending_rows = set(range(rows))
        self._row_by_name: dict[str, int] = {}
        self._names = [""] * rows
        self._resource_index = {name: index for index, name in enumerate(_FIRST_RESOURCES)}
        self._available: NDArray[np.int64] = np.zeros((len(_FIRST_RESOURCES), rows), np.int64)
        """Allocatable minus requested, by resource and row, in milli-CPU, bytes or counts."""
        self._taints: Column[tuple[Taint, ...]] = Column(rows, ())
        self._unschedulable = np.zeros(rows, np.bool_)
        self._ports: Column[tuple[HostPort, ...]] = Column(rows, ())
        self._labels: dict[str, Column[str | None]] = {}
        self._has_node = np.zeros(rows, np.bool_)

    def __len__(self) -> int:
        return len(self.infos)

    def copy(self) -> NodeInfoTable:
        """Return an independent copy."""
        self._flush()
        copied = copy(self)
        copied.infos, copied._names, copied._pending_rows = list(self.infos), list(self._names), set[int]()
        copied._row_by_name, copied._resource_index = dict(self._row_by_name), dict(self._resource_index)
        copied._available, copied._has_node = self._available.copy(), self._has_node.copy()
        copied._unschedulable = self._unschedulable.copy()
        copied._taints, copied._ports = self._taints.copy(), self._ports.copy()
        copied._labels = {key: column.copy() for key, column in self._labels.items()}
        return copied

    def set(self, row: int, info: NodeInfo | None) -> None:
        """Set the node of a row; None removes the node."""
        self.infos[row] = info
        self.generation += 1
        self._pending_rows.add(row)

    def name(self, row: int) -> str:
        """Return the name of a row's node, or "" without a node."""
        info = self.infos[row]
        return "" if info is None else info.name

    def find_row(self, name: str) -> int | None:
        """Return the row of a node, or None if there is no such node."""
        self._flush()
        return self._row_by_name.get(name)

    def label_column(self, key: str) -> Column[str | None]:
        """Return the values of a label by row, None for nodes without it; a view, valid until the next change."""
        self._flush()
        column = self._labels.pop(key, None)
        if column is None:
            column = Column[str | None](len(self), None)
            column.set(range(len(self)), _label_values(self.infos, key))
        self._labels[key] = column
        if len(self._labels) > MAX_LABELS:
            del self._labels[next(iter(self._labels))]  # the one that was not queried for longest
        return column

    def filter_codes(self, pod: Constraints) -> NDArray[np.int8]:
        """Return by row the first filter that rejects a pod, as an index into OUTCOMES; (rows,), 0 if none does."""
        self._flush()
        codes = np.zeros(len(self), np.int8)
        passes = (
            self._passes_unschedulable(pod),
            self._is_named(pod.node_name) if pod.node_name else None,
            self._passes_taints(pod),
            self._passes_affinity(pod),
            self._ports.mask(lambda used: not ports_conflict(pod.ports, used)) if pod.ports else None,
            self.pod_counts(pod.requests) > 0,
        )
        for code in range(len(passes), 0, -1):
            mask = passes[code - 1]
            if mask is not None:
                codes[~mask] = code
        codes[~self._has_node] = len(OUTCOMES) - 1
        return codes

    def available(self, resource: str) -> NDArray[np.int64]:
        """Return by row the available amount of a resource, negative if requests exceed it; (rows,), a view."""
        self._flush()
        index = self._resource_index.get(resource)
        return np.zeros(len(self), np.int64) if index is None else self._available[index]

    def pod_counts(self, requests: Resource, assumed: Sequence[RequestsByRow] = ()) -> NDArray[np.int64]:
        """Return by row how many pods with these requests fit in addition to assumed pods; (rows,)."""
        counts = np.full(len(self), MAX_AMOUNT, np.int64)
        for name, size in amounts_by_resource(requests):
            if size > 0:
                remaining = self.available(name)
                for assumed_requests, count in assumed:
                    remaining = remaining - count * dict(amounts_by_resource(assumed_requests)).get(name, 0)
                counts = np.minimum(counts, remaining // min(size, MAX_AMOUNT))
        return np.maximum(counts, 0)

    def leftover(self, requests: Resource, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by row the amounts of the requested resources that remain after `counts` pods; (rows,).

        The unit is a thousandth of the largest available amount of a row; all resources except pods are added up.
        """
        leftover = np.zeros(len(self), np.int64)
        for name, size in amounts_by_resource(requests):
            if name != PODS and size > 0:
                available = self.available(name)
                leftover += (available - counts * size) // max(int(available.max(initial=0)) // 1000, 1)
        return leftover

    def taints(self, rows: NDArray[np.int64]) -> Iterator[tuple[tuple[Taint, ...], int]]:
        """Yield the distinct taints of some rows, and the number of rows with each."""
        self._flush()
        counts = np.bincount(self._taints.codes[rows])
        for code in np.flatnonzero(counts).tolist():
            yield self._taints.values[code], int(counts[code])

    def names(self, rows: NDArray[np.int64], taints: tuple[Taint, ...]) -> list[str]:
        """Return the names of the nodes in some rows that have exactly these taints."""
        numbers: list[int] = rows.tolist()
        infos = (self.infos[row] for row in numbers)
        return [info.name for info in infos if info is not None and info.taints == taints]

    def _passes_unschedulable(self, pod: Constraints) -> NDArray[np.bool_] | None:
        return None if tolerations_tolerate_taint(UNSCHEDULABLE, pod.tolerations) else ~self._unschedulable

    def _passes_taints(self, pod: Constraints) -> NDArray[np.bool_]:
        def passes(taints: tuple[Taint, ...]) -> bool:
            return find_matching_untolerated_taint(taints, pod.tolerations) is None

        return self._taints.mask(passes)

    def _is_named(self, name: str) -> NDArray[np.bool_]:
        mask = np.zeros(len(self), np.bool_)
        row = self._row_by_name.get(name)
        if row is not None:
            mask[row] = True
        return mask

    def _passes_affinity(self, pod: Constraints) -> NDArray[np.bool_]:
        mask = np.ones(len(self), np.bool_)
        for requirement in pod.selector:
            mask &= self.label_column(requirement.key).mask(requirement.matches)
        if pod.terms is not None:
            mask &= np.logical_or.reduce(
                [np.zeros(len(self), np.bool_), *(self._matches_term(term) for term in pod.terms)]
            )
        return mask

    def _matches_term(self, term: NodeSelectorTerm) -> NDArray[np.bool_]:
        mask = np.ones(len(self), np.bool_)
        for requirement in term.match_expressions:
            mask &= self.label_column(requirement.key).mask(requirement.matches)
        for requirement in term.match_fields:
            mask &= self._matches_name(requirement) if requirement.key == NAME_FIELD else requirement.matches("")
        return mask

    def _matches_name(self, requirement: Requirement) -> NDArray[np.bool_]:
        mask = self._is_named(requirement.values[0])
        return mask if requirement.operator == "In" else ~mask

    def _flush(self) -> None:
        """Write the rows that were set since the last query."""
        if not self._pending_rows:
            return
        rows = sorted(self._pending_rows)
        self._pending_rows.clear()
        infos = [self.infos[row] for row in rows]
        self._write_names(rows, infos)
        self._has_node[rows] = [info is not None for info in infos]
        self._unschedulable[rows] = [info is not None and info.unschedulable for info in infos]
        self._taints.set(rows, [() if info is None else info.taints for info in infos])
        self._ports.set(rows, [() if info is None else info.ports for info in infos])
        for key, column in self._labels.items():
            column.set(rows, _label_values(infos, key))
        self._write_available(rows, infos)

    def _write_names(self, rows: list[int], infos: list[NodeInfo | None]) -> None:
        for row in rows:
            if self._row_by_name.get(self._names[row]) == row:
                del self._row_by_name[self._names[row]]
        for row, info in zip(rows, infos, strict=True):
            self._names[row] = "" if info is None else info.name
            if info is not None:
                self._row_by_name[info.name] = row

    def _write_available(self, rows: list[int], infos: list[NodeInfo | None]) -> None:
        allocatable = [NO_RESOURCES if info is None else info.allocatable for info in infos]
        requested = [NO_RESOURCES if info is None else info.requested for info in infos]
        available = {name: [0] * len(rows) for name in self._resource_index}
        pairs = list(zip(allocatable, requested, strict=True))
        available[PODS] = [total.pods - used.pods for total, used in pairs]
        available[CPU] = [total.milli_cpus - used.milli_cpus for total, used in pairs]
        available[MEMORY] = [total.memory - used.memory for total, used in pairs]
        available[EPHEMERAL_STORAGE] = [total.ephemeral_storage - used.ephemeral_storage for total, used in pairs]
        for resources, sign in ((allocatable, 1), (requested, -1)):
            for column, resource in enumerate(resources):
                for name, size in resource.scalar_resources:
                    if name not in available:
                        available[name] = [0] * len(rows)
                    available[name][column] += sign * size
        self._resource_index = {name: index for index, name in enumerate(available)}
        missing = len(available) - len(self._available)
        self._available = (
            np.vstack([self._available, np.zeros((missing, len(self)), np.int64)]) if missing else self._available
        )
        for index, sizes in enumerate(available.values()):
            self._available[index, rows] = [max(-MAX_AMOUNT, min(size, MAX_AMOUNT)) for size in sizes]


def _label_values(infos: Iterable[NodeInfo | None], key: str) -> list[str | None]:
    return [None if info is None else info.label(key) for info in infos]
