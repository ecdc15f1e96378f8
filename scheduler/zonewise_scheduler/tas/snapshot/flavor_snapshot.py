"""What the leaves of a tree have room for: nodes by their allocatable resources, pods and filters.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts.
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
from zonewise_scheduler.tas.tree.tas_usage import one_pod_requests

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_common.k8s.taints import Toleration
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.topology.types import TASPodSetRequests
    from zonewise_scheduler.tas.snapshot.leaf_nodes import MatchingLeaves
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_UNSCHEDULABLE, _UNKNOWN = (OUTCOMES.index(one) for one in ("NodeUnschedulable", UNKNOWN))
_KEPT = 1 << 19
"""Leaves for which it is kept what they take of pods of some kind, of all kinds together."""


def nodes_matching_flavor(nodes: NodeInfoTable, labels: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which rows have a node that is schedulable and has the labels of a resource flavor; (rows,).

    pkg/cache/scheduler/tas_nodes_cache.go sync, find: of these the ready ones make up the tree.
    """
    found = ~np.isin(nodes.filter_codes(Constraints(NO_RESOURCES)), (_UNKNOWN, _UNSCHEDULABLE))
    for key, value in labels.items():
        found &= nodes.label_column(key).mask(partial(eq, value))
    return found


class TASFlavorSnapshot(Protocol):
    """Leaves, whatever they are: what of each is free, and who may go there."""

    @property
    def tree(self) -> TopologyTree:
        """Return the tree they are leaves of."""
        ...

    def remaining_capacity(self, resource: str) -> NDArray[np.int64]:
        """Return what is left of a resource; (leaves,), milli-CPU, bytes or counts, below 0 where more is used.

        Not to be changed.
        """
        ...

    def matching_leaves(self, pods: TASPodSetRequests) -> MatchingLeaves:
        """Return which leaves the pods of a set may go to."""
        ...

    def incremental_counts(self, pods: TASPodSetRequests, shape: TopologyAssignmentParameters) -> IncrementalCounts:
        """Return what domains take of the pods of a set by its requests and filters alone; good until others ask."""
        ...


class NodeTASFlavorSnapshot:
    """Leaves that are nodes, or groups of nodes where the Topology ends at racks.

    `nodes` counts the pods that no topology assignment accounts for, `used` those that one does.
    """

    def __init__(
        self,
        tree: TopologyTree,
        nodes: NodeInfoTable,
        used: TASUsage | None = None,
        tolerations: Sequence[Toleration] = (),
    ) -> None:
        """Take the nodes, what pods use of them, and the tolerations that pods get in addition to their own."""
        self._leaves = LeafNodes(tree, nodes, tolerations)
        self._used: TASUsage = used or {}
        self._free: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """By resource: what there is, and what of it is left."""
        self._standing: OrderedDict[Hashable, IncrementalCounts] = OrderedDict()

    def with_usage(self, used: TASUsage) -> NodeTASFlavorSnapshot:
        """Return the same leaves with another usage; they share what is known of nodes, and of kinds of pods."""
        other = copy(self)
        other._used, other._free = used, {}
        return other

    @property
    def tree(self) -> TopologyTree:
        """Return the tree of the nodes."""
        return self._leaves.tree

    def remaining_capacity(self, resource: str) -> NDArray[np.int64]:
        """Return what is left of a resource by leaf; (leaves,), not to be changed."""
        have = self._leaves.free_capacity(resource)
        if resource not in self._used:
            return have
        known = self._free.get(resource)
        if known is None or known[0] is not have:
            known = self._free[resource] = have, have - self._used[resource]
        return known[1]

    def matching_leaves(self, pods: TASPodSetRequests) -> MatchingLeaves:
        """Return which leaves the pods of a set may go to."""
        return self._leaves.matching_leaves(pods.constraints, pods.preferences)

    def incremental_counts(self, pods: TASPodSetRequests, shape: TopologyAssignmentParameters) -> IncrementalCounts:
        """Return what domains take of the pods of a set by its requests and filters alone; good until others ask."""
        requests, matched = one_pod_requests(pods.single_pod_requests), self.matching_leaves(pods)
        slices = shape.slice_level, shape.slice_size, *shape.slice_size_at_level.items()
        # nothing used is a state of its own: it is asked for again and again beside what is now
        kind = (bool(self._used), tuple(requests.items()), pods.constraints, pods.preferences, slices)
        found = self._standing.pop(kind, None)
        if found is None or found.matching_leaves is not matched:
            found = IncrementalCounts(self.tree, requests, matched, shape)
        found.update({name: self.remaining_capacity(name) for name in requests})
        self._standing[kind] = found
        while len(self._standing) > max(_KEPT // max(self.tree.leaf_count, 1), 8):
            self._standing.popitem(last=False)
        return found
