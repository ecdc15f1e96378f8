"""A placement in the making: pods of several sets on one snapshot."""

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
    from zonewise_scheduler.nodes.gang.snapshot import NodeSnapshot
    from zonewise_scheduler.nodes.gang.types import GangPodSet


class PodSetDemand:
    """A set of pods, and how many of them each node takes as it is in the snapshot."""

    def __init__(self, snapshot: NodeSnapshot, pods: GangPodSet) -> None:
        self.pods = pods
        self.filter_codes = snapshot.nodes.filter_codes(pods.constraints)
        """(rows,): the filter that refuses them, as places in nodes.table OUTCOMES."""
        self.pod_counts = self._copies(snapshot)
        """(rows,): how many the kubelets admit, of those that the filters let pass, at most the size of the set."""

    def _copies(self, snapshot: NodeSnapshot) -> NDArray[np.int64]:
        room = np.minimum(snapshot.nodes.pod_counts(self.pods.constraints.requests), self.pods.size)
        room[self.filter_codes != 0] = 0
        most = int(room.max(initial=0))
        return np.minimum(room, snapshot.table.pod_counts(self.pods.shape, most)) if most else room


class DraftPlacement:
    """Pods on nodes, given set by set."""

    def __init__(self, snapshot: NodeSnapshot, folds: SequentialVerdicts) -> None:
        self.snapshot = snapshot
        self.states: dict[int, NodeState] = {}
        """Of the nodes with pods, by row."""
        self.placements: dict[str, GangPodSetPlacement] = {}
        self._folds = folds
        self._sets: list[tuple[GangPodSet, NDArray[np.int64]]] = []
        """With how many pods of it each row has."""

    def copy(self) -> DraftPlacement:
        """Return one that can be changed without this one."""
        made = DraftPlacement(self.snapshot, self._folds)
        made.states, made.placements, made._sets = dict(self.states), dict(self.placements), list(self._sets)
        return made

    def state(self, row: int) -> NodeState | None:
        """Return a node with the pods it has been given."""
        return self.states.get(row) or self.snapshot.table.state(row)

    def pod_counts(self, demand: PodSetDemand) -> NDArray[np.int64]:
        """Return by position how many pods of a set each node takes beside those it has been given; (rows,)."""
        found = self._beside(demand) if self.states else demand.pod_counts
        if demand.pods.constraints.ports:
            found = np.minimum(found, 1)
        return found[self.snapshot.levels.order]

    def domain_pod_counts(self, demand: PodSetDemand, level: int) -> NDArray[np.int64]:
        """Return how many pods of a set each domain of a level takes, (domains,); those without the label take none."""
        levels = self.snapshot.levels
        return np.add.reduceat(self.pod_counts(demand) * levels.labelled[level], levels.bounds[level][:-1])

    def nodes_in_use(self) -> NDArray[np.bool_]:
        """Return by position which nodes have been given pods; (rows,)."""
        found = np.zeros(len(self.snapshot.nodes), np.bool_)
        found[list(self.states)] = True
        return found[self.snapshot.levels.order]

    def place(self, demand: PodSetDemand, begin: int, end: int, level: int) -> bool:
        """Place all pods of a set in a range of whole domains of a level, or change nothing and return False."""
        while True:
            room = self.pod_counts(demand)
            if room[begin:end].sum() < demand.pods.size:
                return False
            taken = select_nodes(self.snapshot.levels, self._supply(demand, room), demand.pods.size, begin, end, level)
            if self._confirm(demand, taken):
                return True

    def place_on_nodes_in_use(self, demand: PodSetDemand) -> bool:
        """Place all pods of a set on nodes that have been given others, or change nothing and return False."""
        while self.states:
            room = self.pod_counts(demand) * self.nodes_in_use()
            if room.sum() < demand.pods.size:
                return False
            taken = select_nodes(self.snapshot.levels, self._supply(demand, room), demand.pods.size, 0, len(room), 0)
            if self._confirm(demand, taken):
                return True
        return False

    def _supply(self, demand: PodSetDemand, room: NDArray[np.int64]) -> NodeSupply:
        spare = self.snapshot.nodes.leftover(demand.pods.constraints.requests, demand.pod_counts)
        return NodeSupply(room, self.nodes_in_use(), spare[self.snapshot.levels.order])

    def _beside(self, demand: PodSetDemand) -> NDArray[np.int64]:
        """Return by row how many pods of a set each node takes; the changed ones are asked one by one."""
        pods = demand.pods
        promised: list[RequestsByRow] = [(other.constraints.requests, counts) for other, counts in self._sets]
        found = np.minimum(demand.pod_counts, self.snapshot.nodes.pod_counts(pods.constraints.requests, promised))
        for other, counts in self._sets:
            if ports_conflict(pods.constraints.ports, other.constraints.ports):
                found[counts > 0] = 0
        for row, state in self.states.items():
            if found[row]:
                found[row] = len(self._folds.verdicts(state, pods.shape, int(found[row])))
        return found

    def _confirm(self, demand: PodSetDemand, taken: NDArray[np.int64]) -> bool:
        """Ask every node for its pods, one by one; note how many it takes where it takes fewer, and return False."""
        levels = self.snapshot.levels
        positions = np.flatnonzero(taken)
        rows = levels.order[positions]
        verdicts: list[Verdict] = []
        after: dict[int, NodeState] = {}
        for row, count in zip(rows.tolist(), taken[positions].tolist(), strict=True):
            state = self.state(row)
            found = [] if state is None else self._folds.verdicts(state, demand.pods.shape, count)
            if len(found) < count:
                demand.pod_counts[row] = len(found)
            elif found[-1].after is not None:
                after[row] = found[-1].after
            verdicts += found
        if len(verdicts) < demand.pods.size:
            return False
        self._add(demand.pods, np.repeat(rows, taken[positions]), verdicts)
        self.states |= after
        return True

    def _add(self, pods: GangPodSet, rows: NDArray[np.int64], verdicts: list[Verdict]) -> None:
        nodes = self.snapshot.nodes
        names = tuple(nodes.name(row) for row in rows.tolist())
        self.placements[pods.name] = GangPodSetPlacement(pods.name, rows, names, tuple(verdicts))
        self._sets.append((pods, np.bincount(rows, minlength=len(nodes))))
