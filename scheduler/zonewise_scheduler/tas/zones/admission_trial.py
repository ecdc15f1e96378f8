"""Whether kubelets admit what a decision puts on their nodes, set by set."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE, ONE_ZONE, fill_node, fill_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates


class PodsOnNodes(NamedTuple):
    """Pods of one set on their nodes."""

    pod_set: str
    shape: PodShape
    zone_slice_size: int
    """What of them is to be in one zone (fill.py)."""
    pods_by_row: dict[int, int]
    """How many on each node, by row."""


class AdmissionTrial:
    """Nodes with the pods that were given to them so far; the table is not changed."""

    def __init__(self, kubelets: KubeletStates, table: NodeStateTable) -> None:
        self._kubelets = kubelets
        self._table = table
        self._due: dict[int, list[tuple[PodShape, int]]] = {}
        """Pods that are not in the states yet."""
        self._states: dict[int, NodeState] = {}
        """Nodes that were given pods."""

    def max_pods(self, shape: PodShape, limit: int, zone_slice_size: int = ANY_ZONE) -> NDArray[np.int64]:
        """Return (rows,): how many pods, up to a limit, each node takes beside those that it was given."""
        found = fill_nodes(self._table, shape, limit, zone_slice_size)
        if self._kubelets.allow_unknown:
            found[~self._kubelets.has_report] = limit
        for row in (*self._states, *self._due):
            state = self.node_state(row)
            if state is not None:
                found[row] = fill_node(state, shape, limit, zone_slice_size).pods
        return found

    def max_pods_with_leader(self, leader: PodShape, pods: PodShape, limit: int, zone_slice_size: int, row: int) -> int:
        """Return how many pods a node takes once it has a leader."""
        state = self.node_state(row)
        first = None if state is None else fill_node(state, leader, 1)
        return 0 if first is None or not first.pods else fill_node(first.state, pods, limit, zone_slice_size).pods

    def node_state(self, row: int) -> NodeState | None:
        """Return a node with the pods that it was given."""
        state = self._states.get(row) or self._table.state(row)
        for shape, count in self._due.pop(row, ()):
            if state is not None:
                state = self._states[row] = fill_node(state, shape, count).state
        return state

    def shortfalls(self, pod_sets: Sequence[PodsOnNodes]) -> dict[tuple[str, int], int]:
        """Return by set and row how many pods a node takes beside those of other sets, where it would be given more.

        On each node sets come in their order. Those that are all to be in one zone share it.
        """
        found: dict[tuple[str, int], int] = {}
        rows = Counter(row for one in pod_sets for row in one.pods_by_row) if len(pod_sets) > 1 else Counter[int]()
        for row in (row for row, here in rows.items() if here > 1):
            state, zones = self.node_state(row), 0
            for one in (one for one in pod_sets if row in one.pods_by_row and state is not None):
                filled = fill_node(state, one.shape, one.pods_by_row[row], one.zone_slice_size)
                zones |= filled.zones
                apart = one.zone_slice_size == ONE_ZONE and zones.bit_count() > 1
                if filled.pods < one.pods_by_row[row] or apart:
                    found[one.pod_set, row] = 0 if apart else filled.pods
                    break
                state = filled.state
        return found

    def assume(self, pod_sets: Sequence[PodsOnNodes]) -> None:
        """Give nodes their pods."""
        for one in pod_sets:
            for row, count in one.pods_by_row.items():
                self._due.setdefault(row, []).append((one.shape, count))
