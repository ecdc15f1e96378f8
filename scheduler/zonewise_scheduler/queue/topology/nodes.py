"""What leaves that are nodes have, and who may go there: kept until a node changes.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts, scheduling_simulator_default.go FindFeasibleNodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.fit.nodes.constraints import Constraints
from zonewise_scheduler.fit.nodes.requests import NOTHING
from zonewise_scheduler.fit.nodes.table import OUTCOMES
from zonewise_scheduler.fit.nodes.taints import untolerated
from zonewise_scheduler.queue.topology.excluded import Excluded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.fit.nodes.taints import Toleration
    from zonewise_scheduler.queue.topology.model import Preference
    from zonewise_scheduler.queue.topology.tree import Tree

_TAINTS, _AFFINITY = (OUTCOMES.index(one) for one in ("TaintToleration", "NodeAffinity"))
_REMEMBERED = 64
"""Resources, and sets of constraints."""


class Matched(NamedTuple):
    """Which leaves the pods of a set may go to; the arrays are not to be changed."""

    mask: NDArray[np.bool_]
    """(leaves,)."""
    score: NDArray[np.int64]
    """(leaves,): the weights of the preferences that a node meets; 0 where the mask is not set."""
    excluded: Excluded


class NodeLeaves:
    """The nodes of a tree, or groups of nodes: of these the resources are added up, and filters do not apply."""

    def __init__(self, tree: Tree, nodes: NodeTable, tolerations: Sequence[Toleration] = ()) -> None:
        """Take the nodes, and the tolerations of a resource flavor, which pods get in addition to their own."""
        self.tree = tree
        self._nodes = nodes
        self._tolerations = tuple(tolerations)
        self._revision = nodes.revision
        self._have = lru_cache(_REMEMBERED)(self._added_up)
        self._matched = lru_cache(_REMEMBERED)(self._filtered)

    def have(self, resource: str) -> NDArray[np.int64]:
        """Return what the leaves have of a resource; (leaves,), not to be changed, the same array while it is so."""
        self._look()
        return self._have(resource)

    def matched(self, asked: Constraints, preferences: tuple[Preference, ...]) -> Matched:
        """Return which leaves pods may go to; the same object while it is so."""
        self._look()
        return self._matched(asked, preferences)

    def _look(self) -> None:
        """Forget what was known of nodes that have changed."""
        if self._revision != self._nodes.revision:
            self._revision = self._nodes.revision
            self._have.cache_clear()
            self._matched.cache_clear()

    def _added_up(self, resource: str) -> NDArray[np.int64]:
        left = self._nodes.left(resource)[self.tree.members]
        return np.add.reduceat(left, self.tree.starts) if len(left) else left

    def _filtered(self, asked: Constraints, preferences: tuple[Preference, ...]) -> Matched:
        leaves = self.tree.leaves
        if not self.tree.has_nodes:
            return Matched(np.ones(leaves, np.bool_), np.zeros(leaves, np.int64), Excluded(leaves))
        rows = self.tree.members[self.tree.starts]
        asked = Constraints(
            NOTHING, tolerations=asked.tolerations + self._tolerations, selector=asked.selector, terms=asked.terms
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
        return Matched(mask, np.where(mask, self._score(preferences, asked, rows), 0), excluded)

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
