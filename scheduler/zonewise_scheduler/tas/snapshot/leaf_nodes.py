"""What leaves that are nodes have, and who may go there: kept until a node changes.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts, scheduling_simulator_default.go FindFeasibleNodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_common.k8s.taints import find_matching_untolerated_taint
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.info_table import OUTCOMES
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.tas.snapshot.exclusion_stats import ExclusionStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_common.k8s.taints import Toleration
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.topology.types import PreferredSchedulingTerm
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_TAINTS, _AFFINITY = (OUTCOMES.index(one) for one in ("TaintToleration", "NodeAffinity"))
_REMEMBERED = 64
"""Resources, and sets of constraints."""


class MatchingLeaves(NamedTuple):
    """Which leaves the pods of a set may go to; the arrays are not to be changed."""

    mask: NDArray[np.bool_]
    """(leaves,)."""
    affinity_score: NDArray[np.int64]
    """(leaves,): the weights of the preferences that a node meets; 0 where the mask is not set."""
    exclusions: ExclusionStats


class LeafNodes:
    """The nodes of a tree, or groups of nodes: of these the resources are added up, and filters do not apply."""

    def __init__(self, tree: TopologyTree, nodes: NodeInfoTable, tolerations: Sequence[Toleration] = ()) -> None:
        """Take the nodes, and the tolerations of a resource flavor, which pods get in addition to their own."""
        self.tree = tree
        self._nodes = nodes
        self._tolerations = tuple(tolerations)
        self._revision = nodes.generation
        self._have = lru_cache(_REMEMBERED)(self._added_up)
        self._matched = lru_cache(_REMEMBERED)(self._filtered)

    def free_capacity(self, resource: str) -> NDArray[np.int64]:
        """Return what the leaves have of a resource; (leaves,), not to be changed, the same array while it is so."""
        self._look()
        return self._have(resource)

    def matching_leaves(
        self, constraints: Constraints, preferences: tuple[PreferredSchedulingTerm, ...]
    ) -> MatchingLeaves:
        """Return which leaves pods may go to; the same object while it is so."""
        self._look()
        return self._matched(constraints, preferences)

    def _look(self) -> None:
        """Forget what was known of nodes that have changed."""
        if self._revision != self._nodes.generation:
            self._revision = self._nodes.generation
            self._have.cache_clear()
            self._matched.cache_clear()

    def _added_up(self, resource: str) -> NDArray[np.int64]:
        left = self._nodes.available(resource)[self.tree.rows]
        return np.add.reduceat(left, self.tree.leaf_offsets) if len(left) else left

    def _filtered(self, asked: Constraints, preferences: tuple[PreferredSchedulingTerm, ...]) -> MatchingLeaves:
        leaves = self.tree.leaf_count
        if not self.tree.is_lowest_level_node:
            return MatchingLeaves(np.ones(leaves, np.bool_), np.zeros(leaves, np.int64), ExclusionStats(leaves))
        rows = self.tree.rows[self.tree.leaf_offsets]
        asked = Constraints(
            NO_RESOURCES, tolerations=asked.tolerations + self._tolerations, selector=asked.selector, terms=asked.terms
        )
        codes = self._nodes.filter_codes(asked)[rows]
        tainted, unselected = codes == _TAINTS, codes == _AFFINITY
        by_labels = self._nodes.filter_codes(asked._replace(terms=None))[rows] == _AFFINITY
        mask = ~(tainted | unselected)
        excluded = ExclusionStats(
            leaves,
            int(by_labels.sum()),
            int((unselected & ~by_labels).sum()),
            taints=self._kept_away(rows[tainted], asked),
        )
        return MatchingLeaves(mask, np.where(mask, self._score(preferences, asked, rows), 0), excluded)

    def _kept_away(self, rows: NDArray[np.int64], asked: Constraints) -> Mapping[str, int]:
        """Return how many nodes each taint keeps the pods away from."""
        found: dict[str, int] = {}
        for taints, count in self._nodes.taints(rows):
            name = str(find_matching_untolerated_taint(taints, asked.tolerations))
            found[name] = found.get(name, 0) + count
        return found

    def _score(
        self, preferences: Sequence[PreferredSchedulingTerm], asked: Constraints, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        found = np.zeros(len(rows), np.int64)
        for weight, term in preferences:
            refused = self._nodes.filter_codes(asked._replace(selector=(), terms=(term,)))[rows]
            found += weight * (refused != _AFFINITY)
        return found
