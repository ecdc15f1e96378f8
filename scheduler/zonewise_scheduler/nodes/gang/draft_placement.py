"""A placement under construction: pods of several sets on one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.gang.node_selection import NodeSupply, select_nodes
from zonewise_scheduler.nodes.gang.types import GangPodSetPlacement
from zonewise_scheduler.nodes.node.host_ports import ports_conflict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.filters.info_table import RequestsByRow
    from zonewise_scheduler.nodes.gang.sequential_verdicts import SequentialVerdicts
    from zonewise_scheduler.nodes.gang.types import GangPodSet, NodeSnapshot


class PodSetDemand:
    """A set of pods, and the number of these pods that fit on each node of the snapshot."""

    def __init__(self, snapshot: NodeSnapshot, pods: GangPodSet) -> None:
        self.pods = pods
        self.filter_codes = snapshot.nodes.filter_codes(pods.constraints)
        """(rows,): the filter that rejects the pods, as an index into filters.info_table OUTCOMES."""
        self.pod_counts = self._pod_counts(snapshot)
        """(rows,): the number of pods that kubelets admit on nodes that pass the filters, up to the size of the set."""

    def _pod_counts(self, snapshot: NodeSnapshot) -> NDArray[np.int64]:
        counts = np.minimum(snapshot.nodes.pod_counts(self.pods.constraints.requests), self.pods.size)
        counts[self.filter_codes != 0] = 0
        for row, most in self.pods.limits.items():
            counts[row] = min(counts[row], most)
        limit = int(counts.max(initial=0))
        return np.minimum(counts, snapshot.table.pod_counts(self.pods.shape, limit)) if limit else counts


class DraftPlacement:
    """Pods on nodes, added set by set."""

    def __init__(self, snapshot: NodeSnapshot, verdicts: SequentialVerdicts) -> None:
        self.snapshot = snapshot
        self.states: dict[int, NodeState] = {}
        """States of the nodes with pods of the draft, by row."""
        self.placements: dict[str, GangPodSetPlacement] = {}
        self._verdicts = verdicts
        self._counts_by_set: list[tuple[GangPodSet, NDArray[np.int64]]] = []
        """Each set with the number of its pods by row."""

    def copy(self) -> DraftPlacement:
        """Return an independent copy."""
        copied = DraftPlacement(self.snapshot, self._verdicts)
        copied.states, copied.placements = dict(self.states), dict(self.placements)
        copied._counts_by_set = list(self._counts_by_set)
        return copied

    def state(self, row: int) -> NodeState | None:
        """Return the state of a node with its pods of the draft."""
        return self.states.get(row) or self.snapshot.table.state(row)

    def pod_counts(self, demand: PodSetDemand) -> NDArray[np.int64]:
        """Return by position the number of pods of a set that fit in addition to the pods of the draft; (rows,)."""
        counts = self._counts_beside(demand) if self.states else demand.pod_counts
        if demand.pods.constraints.ports:
            counts = np.minimum(counts, 1)
        return counts[self.snapshot.levels.order]

    def domain_pod_counts(self, demand: PodSetDemand, level: int) -> NDArray[np.int64]:
        """Return the number of pods of a set that fit in each domain of a level, (domains,); 0 without the label."""
        levels = self.snapshot.levels
        return np.add.reduceat(self.pod_counts(demand) * levels.labelled[level], levels.bounds[level][:-1])

    def nodes_in_use(self) -> NDArray[np.bool_]:
        """Return by position whether the node has pods of the draft; (rows,)."""
        mask = np.zeros(len(self.snapshot.nodes), np.bool_)
        mask[list(self.states)] = True
        return mask[self.snapshot.levels.order]

    def place(self, demand: PodSetDemand, begin: int, end: int, level: int) -> bool:
        """Place all pods of a set in a range of whole domains of a level, or change nothing and return False."""
        while True:
            pod_counts = self.pod_counts(demand)
            if pod_counts[begin:end].sum() < demand.pods.size:
                return False
            counts = select_nodes(
                self.snapshot.levels, self._node_supply(demand, pod_counts), demand.pods.size, begin, end, level
            )
            if self._confirm(demand, counts):
                return True

    def place_on_nodes_in_use(self, demand: PodSetDemand) -> bool:
        """Place all pods of a set on nodes with pods of the draft, or change nothing and return False."""
        while self.states:
            pod_counts = self.pod_counts(demand) * self.nodes_in_use()
            if pod_counts.sum() < demand.pods.size:
                return False
            counts = select_nodes(
                self.snapshot.levels, self._node_supply(demand, pod_counts), demand.pods.size, 0, len(pod_counts), 0
            )
            if self._confirm(demand, counts):
                return True
        return False

    def _node_supply(self, demand: PodSetDemand, pod_counts: NDArray[np.int64]) -> NodeSupply:
        leftover = self.snapshot.nodes.leftover(demand.pods.constraints.requests, demand.pod_counts)
        return NodeSupply(pod_counts, self.nodes_in_use(), leftover[self.snapshot.levels.order])

    def _counts_beside(self, demand: PodSetDemand) -> NDArray[np.int64]:
        """Return by row the number of pods of a set that fit; nodes with pods of the draft are decided one by one."""
        pods = demand.pods
        assumed: list[RequestsByRow] = [
            (placed_pods.constraints.requests, counts) for placed_pods, counts in self._counts_by_set
        ]
        fitting = np.minimum(demand.pod_counts, self.snapshot.nodes.pod_counts(pods.constraints.requests, assumed))
        for placed_pods, counts in self._counts_by_set:
            if ports_conflict(pods.constraints.ports, placed_pods.constraints.ports):
                fitting[counts > 0] = 0
        for row, state in self.states.items():
            if fitting[row]:
                fitting[row] = len(self._verdicts.verdicts(state, pods.shape, int(fitting[row])))
        return fitting

    def _confirm(self, demand: PodSetDemand, pod_counts: NDArray[np.int64]) -> bool:
        """Predict the verdicts on all pods one by one; if a node admits fewer, store that number and return False."""
        levels = self.snapshot.levels
        positions = np.flatnonzero(pod_counts)
        rows = levels.order[positions]
        verdicts: list[Verdict] = []
        after: dict[int, NodeState] = {}
        for row, count in zip(rows.tolist(), pod_counts[positions].tolist(), strict=True):
            state = self.state(row)
            row_verdicts = [] if state is None else self._verdicts.verdicts(state, demand.pods.shape, count)
            if len(row_verdicts) < count:
                demand.pod_counts[row] = len(row_verdicts)
            elif row_verdicts[-1].after is not None:
                after[row] = row_verdicts[-1].after
            verdicts += row_verdicts
        if len(verdicts) < demand.pods.size:
            return False
        self._add(demand.pods, np.repeat(rows, pod_counts[positions]), verdicts)
        self.states |= after
        return True

    def _add(self, pods: GangPodSet, rows: NDArray[np.int64], verdicts: list[Verdict]) -> None:
        nodes = self.snapshot.nodes
        names = tuple(nodes.name(row) for row in rows.tolist())
        self.placements[pods.name] = GangPodSetPlacement(pods.name, rows, names, tuple(verdicts))
        self._counts_by_set.append((pods, np.bincount(rows, minlength=len(nodes))))
