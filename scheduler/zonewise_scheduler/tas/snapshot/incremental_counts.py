"""Cached domain states for pods of one kind; after a change, only changed leaves and their ancestors are recounted.

Most workloads have the same requests as an earlier workload, and few leaves have changed since then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.tas.snapshot.domain_states import LeafCounts, fill_in_counts, update_counts
from zonewise_scheduler.tas.snapshot.leaf_nodes import bound_by_nodes
from zonewise_scheduler.tas.tree.tas_usage import count_in_with_limiting_resource, count_limiting_resources

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats, TopologyAssignmentFailure
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.snapshot.leaf_nodes import MatchingLeaves, NodeBound
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.tas_usage import FreeCapacity
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_RECOUNT_FRACTION = 4
"""If more than one leaf in `_RECOUNT_FRACTION` has changed, all leaves are recounted."""


class IncrementalCounts:
    """Domain states for pods without a leader, bounded only by their requests and filters."""

    def __init__(
        self,
        tree: TopologyTree,
        requests: Mapping[str, int],
        matching_leaves: MatchingLeaves,
        node_bound: NodeBound | None,
        params: TopologyAssignmentParameters,
    ) -> None:
        """Count pods with these requests, which include the pod itself; of the parameters, only the slices matter."""
        self.matching_leaves = matching_leaves
        self.domain_states: list[DomainStates] = []
        """By level, as of the last update; read-only."""
        self.results: dict[Hashable, dict[str, TopologyAssignment] | TopologyAssignmentFailure] = {}
        """Search results since the last change."""
        self._tree = tree
        self._requests = requests
        self._node_bound = node_bound
        self._params = params
        self._free: FreeCapacity = {}
        self._limiting: NDArray[np.int64] = np.zeros(0, np.int64)
        """(leaves,): index of the limiting resource in sorted order."""

    def update(self, free: FreeCapacity) -> None:
        """Use new free capacities of all requested resources; the caller must not modify the arrays."""
        previous, self._free = self._free, free
        if not previous:
            self._recount()
            return
        changed = [free[name] != previous[name] for name in free if free[name] is not previous[name]]
        leaves = np.flatnonzero(np.logical_or.reduce(changed)) if changed else np.zeros(0, np.int64)
        if not leaves.size:
            return
        self.results.clear()
        if leaves.size * _RECOUNT_FRACTION > self._tree.leaf_count:
            self._recount()
            return
        counts, self._limiting[leaves] = self._count({name: amount[leaves] for name, amount in free.items()}, leaves)
        update_counts(self.domain_states, self._tree, leaves, counts, self._params)

    def exclusions(self) -> ExclusionStats:
        """Return why no pod fits in some leaves."""
        full = self.matching_leaves.mask & (self.domain_states[-1].pod_count == 0)
        return self.matching_leaves.exclusions._replace(
            resources=count_limiting_resources(self._requests, self._limiting[full])
        )

    def _recount(self) -> None:
        counts, self._limiting = self._count(self._free, slice(None))
        self.domain_states = fill_in_counts(counts, self._tree.child_offsets, 0, self._params)

    def _count(self, free: FreeCapacity, leaves: NDArray[np.int64] | slice) -> tuple[LeafCounts, NDArray[np.int64]]:
        """Return what fits in some leaves, and the index of each leaf's limiting resource."""
        pod_count, limiting = bound_by_nodes(
            *count_in_with_limiting_resource(free, self._requests), self._node_bound, leaves
        )
        pod_count *= self.matching_leaves.mask[leaves]
        affinity_score = self.matching_leaves.affinity_score[leaves]
        return LeafCounts(pod_count, pod_count, np.zeros_like(pod_count), affinity_score), limiting
