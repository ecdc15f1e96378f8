"""The snapshot of a flavor: its tree, and the free capacity and filters of the leaves.

pkg/cache/scheduler/tas_flavor_snapshot.go TASFlavorSnapshot; pkg/cache/scheduler/tas_nodes_cache.go find.
"""

from __future__ import annotations

from collections import OrderedDict
from copy import copy
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Protocol

import numpy as np

from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.info_table import OUTCOMES, UNKNOWN
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.tas.snapshot.incremental_counts import IncrementalCounts
from zonewise_scheduler.tas.snapshot.leaf_nodes import LeafNodes
from zonewise_scheduler.tas.tree.tas_usage import with_pod_resource

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_common.k8s.taints import Toleration
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.tas.snapshot.leaf_nodes import MatchingLeaves, NodeBound
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree
    from zonewise_scheduler.tas.types import TASPodSetRequests

_UNSCHEDULABLE, _UNKNOWN = (OUTCOMES.index(outcome) for outcome in ("NodeUnschedulable", UNKNOWN))
_CACHED_LEAVES = 1 << 19
"""Upper bound on the total number of leaves in all cached incremental counts."""


def nodes_matching_flavor(nodes: NodeInfoTable, labels: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return (rows,): whether the row has a schedulable node with the labels of a resource flavor."""
    mask = ~np.isin(nodes.filter_codes(Constraints(NO_RESOURCES)), (_UNKNOWN, _UNSCHEDULABLE))
    for key, value in labels.items():
        mask &= nodes.label_column(key).mask(partial(eq, value))
    return mask


class TASFlavorSnapshot(Protocol):
    """Leaves of any kind: their tree, their remaining capacity and the filters of pod sets."""

    @property
    def tree(self) -> TopologyTree:
        """Return the tree of the leaves."""
        ...

    def remaining_capacity(self, resource: str) -> NDArray[np.int64]:
        """Return free capacity minus usage: (leaves,), read-only, in milli-CPU, bytes or counts; may be negative."""
        ...

    def matching_leaves(self, pod_set: TASPodSetRequests) -> MatchingLeaves:
        """Return the leaves that the pods of a pod set may use."""
        ...

    def node_bound(self, pod_set: TASPodSetRequests) -> NodeBound | None:
        """Return how many pods of a pod set fit on the nodes of each leaf; None: no leaf is a group of nodes."""
        ...

    def incremental_counts(self, pod_set: TASPodSetRequests, params: TopologyAssignmentParameters) -> IncrementalCounts:
        """Return a pod set's domain states, bounded only by its requests and filters; valid until the next call."""
        ...


class NodeTASFlavorSnapshot:
    """Leaves that are nodes, or groups of nodes if the lowest level is not the hostname.

    The node table counts pods without a topology assignment; the usage counts pods with one.
    """

    def __init__(
        self,
        tree: TopologyTree,
        nodes: NodeInfoTable,
        usage: TASUsage | None = None,
        tolerations: Sequence[Toleration] = (),
    ) -> None:
        """Use the nodes of a table and the TAS usage of the leaves; all pods get `tolerations` besides their own."""
        self._leaf_nodes = LeafNodes(tree, nodes, tolerations)
        self._usage: TASUsage = usage or {}
        self._capacities: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """By resource: free capacity, and remaining capacity."""
        self._incremental_counts: OrderedDict[Hashable, IncrementalCounts] = OrderedDict()

    def with_usage(self, usage: TASUsage) -> NodeTASFlavorSnapshot:
        """Return the same leaves with another usage; both share the caches of nodes and of incremental counts."""
        snapshot = copy(self)
        snapshot._usage, snapshot._capacities = usage, {}
        return snapshot

    @property
    def tree(self) -> TopologyTree:
        """Return the tree of the nodes."""
        return self._leaf_nodes.tree

    def remaining_capacity(self, resource: str) -> NDArray[np.int64]:
        """Return free capacity minus usage: (leaves,), read-only."""
        free = self._leaf_nodes.free_capacity(resource)
        if resource not in self._usage:
            return free
        capacities = self._capacities.get(resource)
        if capacities is None or capacities[0] is not free:
            capacities = self._capacities[resource] = free, free - self._usage[resource]
        return capacities[1]

    def matching_leaves(self, pod_set: TASPodSetRequests) -> MatchingLeaves:
        """Return the leaves that the pods of a pod set may use."""
        return self._leaf_nodes.matching_leaves(pod_set.constraints, pod_set.preferences)

    def node_bound(self, pod_set: TASPodSetRequests) -> NodeBound | None:
        """Return how many pods of a pod set fit on the nodes of each leaf; None: no leaf is a group of nodes."""
        return self._leaf_nodes.node_bound(pod_set.constraints, with_pod_resource(pod_set.single_pod_requests))

    def incremental_counts(self, pod_set: TASPodSetRequests, params: TopologyAssignmentParameters) -> IncrementalCounts:
        """Return a pod set's domain states, bounded only by its requests and filters; valid until the next call."""
        requests, matching_leaves = with_pod_resource(pod_set.single_pod_requests), self.matching_leaves(pod_set)
        slices = params.slice_level, params.slice_size, *params.slice_size_at_level.items()
        # an empty usage has its own key: callers alternate between it and the current usage
        key = (bool(self._usage), tuple(requests.items()), pod_set.constraints, pod_set.preferences, slices)
        counts = self._incremental_counts.pop(key, None)
        if counts is None or counts.matching_leaves is not matching_leaves:
            counts = IncrementalCounts(self.tree, requests, matching_leaves, self.node_bound(pod_set), params)
        counts.update({name: self.remaining_capacity(name) for name in requests})
        self._incremental_counts[key] = counts
        while len(self._incremental_counts) > max(_CACHED_LEAVES // max(self.tree.leaf_count, 1), 8):
            self._incremental_counts.popitem(last=False)
        return counts
