"""What the leaves of a tree have room for: nodes by their allocatable resources, pods and filters.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts, scheduling_simulator_default.go FindFeasibleNodes.
"""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from zonewise_scheduler.fit.nodes.constraints import Constraints
from zonewise_scheduler.fit.nodes.requests import NOTHING
from zonewise_scheduler.fit.nodes.table import OUTCOMES, UNKNOWN
from zonewise_scheduler.fit.nodes.taints import untolerated
from zonewise_scheduler.queue.topology.excluded import Excluded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.fit.nodes.taints import Toleration
    from zonewise_scheduler.queue.topology.model import PodSet, Preference
    from zonewise_scheduler.queue.topology.tree import Tree
    from zonewise_scheduler.queue.topology.usage import Usage

_UNSCHEDULABLE, _TAINTS, _AFFINITY, _UNKNOWN = (
    OUTCOMES.index(one) for one in ("NodeUnschedulable", "TaintToleration", "NodeAffinity", UNKNOWN)
)


class Matched(NamedTuple):
    """Which leaves the pods of a set may go to."""

    mask: NDArray[np.bool_]
    """(leaves,)."""
    score: NDArray[np.int64]
    """(leaves,): the weights of the preferences that a node meets; 0 where the mask is not set."""
    excluded: Excluded


def eligible(nodes: NodeTable, labels: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which rows have a node that is schedulable and has the labels of a resource flavor; (rows,).

    pkg/cache/scheduler/tas_nodes_cache.go sync, find: of these the ready ones make up the tree.
    """
    found = ~np.isin(nodes.refused(Constraints(NOTHING)), (_UNKNOWN, _UNSCHEDULABLE))
    for key, value in labels.items():
        found &= nodes.label(key).mask(partial(eq, value))
    return found


class Supply(Protocol):
    """Leaves, whatever they are: what of each is free, and who may go there."""

    @property
    def tree(self) -> Tree:
        """Return the tree they are leaves of."""
        ...

    def free(self, resource: str) -> NDArray[np.int64]:
        """Return what is left of a resource; (leaves,), milli-CPU, bytes or counts, below 0 where more is used."""
        ...

    def matched(self, pods: PodSet) -> Matched:
        """Return which leaves the pods of a set may go to."""
        ...


class NodeSupply:
    """Leaves that are nodes, or groups of nodes where the Topology ends at racks.

    `nodes` counts the pods that no topology assignment accounts for, `used` those that one does. Filters apply only
    where a leaf is a node; of groups of nodes the resources are added up.
    """

    def __init__(
        self, tree: Tree, nodes: NodeTable, used: Usage | None = None, tolerations: Sequence[Toleration] = ()
    ) -> None:
        self._tree = tree
        self._nodes = nodes
        self._used: Usage = used or {}
        self._tolerations = tuple(tolerations)
        """Of the resource flavor, which pods get in addition to their own."""

    @property
    def tree(self) -> Tree:
        """Return the tree of the nodes."""
        return self._tree

    def free(self, resource: str) -> NDArray[np.int64]:
        """Return what is left of a resource by leaf; (leaves,)."""
        left = self._nodes.left(resource)[self._tree.members]
        found = np.add.reduceat(left, self._tree.starts) if len(left) else left
        return found - self._used[resource] if resource in self._used else found

    def matched(self, pods: PodSet) -> Matched:
        """Return which leaves the pods of a set may go to."""
        leaves = self._tree.leaves
        if not self._tree.has_nodes:
            return Matched(np.ones(leaves, np.bool_), np.zeros(leaves, np.int64), Excluded(leaves))
        rows = self._tree.members[self._tree.starts]
        asked = Constraints(
            NOTHING,
            tolerations=pods.constraints.tolerations + self._tolerations,
            selector=pods.constraints.selector,
            terms=pods.constraints.terms,
        )
        codes = self._nodes.refused(asked)[rows]
        tainted, unselected = codes == _TAINTS, codes == _AFFINITY
        by_labels = self._nodes.refused(asked._replace(terms=None))[rows] == _AFFINITY
        mask = ~(tainted | unselected)
        excluded = Excluded(
            leaves,
            int(by_labels.sum()),
            int((unselected & ~by_labels).sum()),
            taints=self._kept_away(rows[tainted], asked),
        )
        return Matched(mask, np.where(mask, self._score(pods.preferences, asked, rows), 0), excluded)

    def _kept_away(self, rows: NDArray[np.int64], asked: Constraints) -> Mapping[str, int]:
        """Return how many nodes each taint keeps the pods away from."""
        found: dict[str, int] = {}
        for taints, count in self._nodes.taints(rows):
            name = str(untolerated(taints, asked.tolerations))
            found[name] = found.get(name, 0) + count
        return found

    def _score(
        self, preferences: Sequence[Preference], asked: Constraints, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        found = np.zeros(len(rows), np.int64)
        for weight, term in preferences:
            refused = self._nodes.refused(asked._replace(selector=(), terms=(term,)))[rows]
            found += weight * (refused != _AFFINITY)
        return found
