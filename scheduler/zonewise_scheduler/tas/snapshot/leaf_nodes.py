"""Free capacity of leaves that are nodes, and the leaves that match a pod set; cached until a node changes.

pkg/cache/scheduler/tas_flavor_snapshot.go leafCapacity, getMatchingLeaves;
pkg/cache/scheduler/scheduling_simulator_default.go FindFeasibleNodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_common.k8s.taints import find_matching_untolerated_taint
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.info_table import OUTCOMES
from zonewise_scheduler.nodes.node.avoided_conditions import KEY, SINGLE_POD, describe_condition
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats
from zonewise_scheduler.tas.tree.tas_usage import count_in_with_limiting_resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_common.k8s.taints import Taint, Toleration
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.topology.types import PreferredSchedulingTerm
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_TAINTS, _AFFINITY = (OUTCOMES.index(outcome) for outcome in ("TaintToleration", "NodeAffinity"))
_CACHE_SIZE = 64
"""Maximum number of resources in one cache, and of sets of constraints in the other."""


class MatchingLeaves(NamedTuple):
    """The leaves whose nodes pass the filters of a pod set; the arrays are read-only."""

    mask: NDArray[np.bool_]
    """(leaves,): whether the leaf's node passes."""
    affinity_score: NDArray[np.int64]
    """(leaves,): sum of the weights of the preferences that the node matches; 0 outside the mask."""
    exclusions: ExclusionStats


class NodeBound(NamedTuple):
    """An upper bound on the pods of each leaf, from its single nodes without pods that have a topology assignment."""

    pod_count: NDArray[np.int64]
    limiting: NDArray[np.int64]
    """(leaves,): index of a resource that limits one of its nodes, in sorted order."""


def bound_by_nodes(
    pod_count: NDArray[np.int64],
    limiting: NDArray[np.int64],
    bound: NodeBound | None,
    leaves: NDArray[np.int64] | slice = slice(None),
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of pods that fit in some leaves, and the limiting resources, with the bound of their nodes."""
    if bound is None:
        return pod_count, limiting
    is_lower = bound.pod_count[leaves] < pod_count
    return np.minimum(pod_count, bound.pod_count[leaves]), np.where(is_lower, bound.limiting[leaves], limiting)


class LeafNodes:
    """The nodes of each leaf of a tree.

    If a leaf is a group of nodes, their capacities are summed, and the leaf passes a filter if any of them does. The
    pods that fit on its single nodes bound the number of its pods.
    """

    def __init__(self, tree: TopologyTree, nodes: NodeInfoTable, tolerations: Sequence[Toleration] = ()) -> None:
        """Use the nodes of a table; pods get the `tolerations` of the resource flavor in addition to their own."""
        self.tree = tree
        self._nodes = nodes
        self._tolerations = tuple(tolerations)
        self._generation = nodes.generation
        self._free_capacity = lru_cache(_CACHE_SIZE)(self._sum_free_capacity)
        self._matching_leaves = lru_cache(_CACHE_SIZE)(self._find_matching_leaves)
        self._node_bound = lru_cache(_CACHE_SIZE)(self._find_node_bound)

    def free_capacity(self, resource: str) -> NDArray[np.int64]:
        """Return the leaves' free capacity; (leaves,), read-only, the same array as long as no node changes."""
        self._drop_outdated()
        return self._free_capacity(resource)

    def matching_leaves(
        self, constraints: Constraints, preferences: tuple[PreferredSchedulingTerm, ...]
    ) -> MatchingLeaves:
        """Return the leaves that pods may use; the same object as long as no node changes."""
        self._drop_outdated()
        return self._matching_leaves(constraints, preferences)

    def node_bound(self, constraints: Constraints, requests: Mapping[str, int]) -> NodeBound | None:
        """Return how many pods fit on the nodes of each leaf; None: a leaf is a node, so its capacity is exact."""
        if self.tree.is_lowest_level_node or not self.tree.leaf_count:
            return None
        self._drop_outdated()
        return self._node_bound(constraints, tuple(requests.items()))

    def _drop_outdated(self) -> None:
        """Clear the caches if a node has changed."""
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._free_capacity.cache_clear()
            self._matching_leaves.cache_clear()
            self._node_bound.cache_clear()

    def _sum_free_capacity(self, resource: str) -> NDArray[np.int64]:
        available = self._nodes.available(resource)[self.tree.rows]
        return np.add.reduceat(available, self.tree.leaf_offsets) if len(available) else available

    def _find_matching_leaves(
        self, constraints: Constraints, preferences: tuple[PreferredSchedulingTerm, ...]
    ) -> MatchingLeaves:
        constraints = self._node_constraints(constraints)
        if not self.tree.is_lowest_level_node:
            return self._find_matching_groups(constraints)
        rows = self.tree.rows[self.tree.leaf_offsets]
        codes = self._nodes.filter_codes(constraints)[rows]
        tainted, unselected = codes == _TAINTS, codes == _AFFINITY
        fails_selector = self._nodes.filter_codes(constraints._replace(terms=None))[rows] == _AFFINITY
        mask = ~(tainted | unselected)
        taints, avoided = self._count_taints(rows[tainted], constraints)
        exclusions = ExclusionStats(
            self.tree.leaf_count,
            int(fails_selector.sum()),
            int((unselected & ~fails_selector).sum()),
            taints=taints,
            avoided=avoided,
        )
        return MatchingLeaves(mask, np.where(mask, self._score(preferences, constraints, rows), 0), exclusions)

    def _node_constraints(self, constraints: Constraints) -> Constraints:
        """Return the constraints of pods with the flavor's tolerations, and without requests.

        Conditions that gangs avoid do not apply to groups of nodes.
        """
        tolerations = constraints.tolerations + self._tolerations
        if not self.tree.is_lowest_level_node:
            tolerations += (SINGLE_POD,)
        return Constraints(
            NO_RESOURCES, tolerations=tolerations, selector=constraints.selector, terms=constraints.terms
        )

    def _find_node_bound(self, constraints: Constraints, requests: tuple[tuple[str, int], ...]) -> NodeBound:
        rows, offsets = self.tree.rows, self.tree.leaf_offsets
        codes = self._nodes.filter_codes(self._node_constraints(constraints))[rows]
        suitable = (codes != _TAINTS) & (codes != _AFFINITY)
        available = {name: self._nodes.available(name)[rows] for name, _ in requests}
        pod_count, limiting = count_in_with_limiting_resource(available, dict(requests))
        return NodeBound(
            np.add.reduceat(np.where(suitable, pod_count, 0), offsets),
            np.maximum.reduceat(np.where(suitable, limiting, 0), offsets),
        )

    def _find_matching_groups(self, constraints: Constraints) -> MatchingLeaves:
        """Return the groups of nodes in which any node passes. Preferences do not apply."""
        rows, offsets, group_count = self.tree.rows, self.tree.leaf_offsets, self.tree.leaf_count
        codes = self._nodes.filter_codes(constraints)[rows]
        selector_codes = self._nodes.filter_codes(constraints._replace(terms=None))[rows]
        excluded = np.logical_and.reduceat((codes == _TAINTS) | (codes == _AFFINITY), offsets)
        unselected = excluded & np.logical_or.reduceat(codes == _AFFINITY, offsets)
        fails_selector = unselected & np.logical_or.reduceat(selector_codes == _AFFINITY, offsets)
        taints, _ = self._count_taints(rows[offsets][excluded & ~unselected], constraints)
        exclusions = ExclusionStats(
            group_count, int(fails_selector.sum()), int((unselected & ~fails_selector).sum()), taints=taints
        )
        return MatchingLeaves(~excluded, np.zeros(group_count, np.int64), exclusions)

    def _count_taints(self, rows: NDArray[np.int64], constraints: Constraints) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many nodes are excluded by each taint, and by each condition that gangs avoid."""
        taints: dict[str, int] = {}
        avoided: dict[Taint, list[str]] = {}
        for node_taints, count in self._nodes.taints(rows):
            taint = find_matching_untolerated_taint(node_taints, constraints.tolerations)
            if taint is not None and taint.key == KEY:
                avoided.setdefault(taint, []).extend(self._nodes.names(rows, node_taints))
            else:
                taints[str(taint)] = taints.get(str(taint), 0) + count
        return taints, {describe_condition(taint, sorted(nodes)): len(nodes) for taint, nodes in avoided.items()}

    def _score(
        self, preferences: Sequence[PreferredSchedulingTerm], constraints: Constraints, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        scores = np.zeros(len(rows), np.int64)
        for weight, term in preferences:
            codes = self._nodes.filter_codes(constraints._replace(selector=(), terms=(term,)))[rows]
            scores += weight * (codes != _AFFINITY)
        return scores
