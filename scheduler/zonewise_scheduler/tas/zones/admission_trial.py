"""A check, before a decision is made, that the kubelets admit its pods, pod set by pod set."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE, SINGLE_ZONE, fill_node, fill_nodes, in_whole_slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates


class PodsOnNodes(NamedTuple):
    """The pods of one pod set on their nodes."""

    pod_set: str
    shape: PodShape
    zone_slice_size: int
    """See node_filling.py."""
    pods_by_row: dict[int, int]


class AdmissionTrial:
    """Nodes with the pods assumed so far; the table does not change."""

    def __init__(self, kubelet_states: KubeletStates, table: NodeStateTable) -> None:
        self._kubelet_states = kubelet_states
        self._table = table
        self._pending: dict[int, list[tuple[PodShape, int]]] = {}
        """By row: assumed pods that are not yet in the states."""
        self._states: dict[int, NodeState] = {}
        """By row: nodes with assumed pods."""

    def max_pods(self, shape: PodShape, limit: int, zone_slice_size: int = ANY_ZONE) -> NDArray[np.int64]:
        """Return (rows,): the number of pods, up to a limit, that each node admits in addition to its assumed pods."""
        max_pods = fill_nodes(self._table, shape, limit, zone_slice_size)
        if self._kubelet_states.allow_unknown:
            max_pods[~self._kubelet_states.has_report] = limit
        for row in (*self._states, *self._pending):
            state = self.node_state(row)
            if state is not None:
                max_pods[row] = fill_node(state, shape, limit, zone_slice_size).pods
        return max_pods

    def max_pods_with_leader(
        self, leader: PodShape, shape: PodShape, limit: int, zone_slice_size: int, row: int
    ) -> int:
        """Return the number of pods, up to a limit, that a node admits after the leader; 0 if it rejects the leader."""
        state = self.node_state(row)
        if state is None:
            return limit if self._kubelet_states.allow_unknown else 0
        with_leader = fill_node(state, leader, 1)
        return fill_node(with_leader.state, shape, limit, zone_slice_size).pods if with_leader.pods else 0

    def node_state(self, row: int) -> NodeState | None:
        """Return a node with its assumed pods."""
        state = self._states.get(row) or self._table.state(row)
        for shape, count in self._pending.pop(row, ()):
            if state is not None:
                state = self._states[row] = fill_node(state, shape, count).state
        return state

    def shortfalls(self, pod_sets: Sequence[PodsOnNodes]) -> dict[tuple[str, int], int]:
        """Return, by pod set and row, how many pods a node admits besides the other pod sets, if this is too few.

        On each node, pod sets are filled in their order. Pod sets that need one zone for all pods share that zone.
        """
        shortfalls: dict[tuple[str, int], int] = {}
        if len(pod_sets) < 2:
            return shortfalls
        set_counts = Counter(row for pods in pod_sets for row in pods.pods_by_row)
        for row in (row for row, set_count in set_counts.items() if set_count > 1):
            state, zones = self.node_state(row), 0
            for pods in pod_sets:
                if row not in pods.pods_by_row or state is None:
                    continue
                count = pods.pods_by_row[row]
                limit = in_whole_slices(count, pods.zone_slice_size)
                filled = fill_node(state, pods.shape, limit, pods.zone_slice_size)
                zones |= filled.zones
                several_zones = pods.zone_slice_size == SINGLE_ZONE and zones.bit_count() > 1
                if filled.pods < count or several_zones:
                    shortfalls[pods.pod_set, row] = 0 if several_zones else filled.pods
                    break
                # if the last slice is smaller, the node was filled with more pods than it gets
                state = filled.state if filled.pods == count else fill_node(state, pods.shape, count).state
        return shortfalls

    def assume(self, pod_sets: Sequence[PodsOnNodes]) -> None:
        """Add pods to the nodes."""
        for pods in pod_sets:
            for row, count in pods.pods_by_row.items():
                self._pending.setdefault(row, []).append((pods.shape, count))
