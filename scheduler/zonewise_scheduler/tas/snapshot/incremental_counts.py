"""What the domains of a tree take of pods of one kind, kept: a leaf that has changed costs its own work.

Most workloads ask for what another asked for before, of a tree of which a few leaves have changed since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.tas.snapshot.domain_states import LeafCounts, fill_in_counts, update_counts
from zonewise_scheduler.tas.snapshot.leaf_counts import count_in_with_limiting_resource, count_limiting_resources

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.snapshot.exclusion_stats import ExclusionStats
    from zonewise_scheduler.tas.snapshot.leaf_counts import FreeCapacity
    from zonewise_scheduler.tas.snapshot.leaf_nodes import MatchingLeaves
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_FEW = 4
"""Where more than one leaf of so many has changed, all are worked out anew."""


class IncrementalCounts:
    """Pods without a leader, and bound by nothing but what they request."""

    def __init__(
        self,
        tree: TopologyTree,
        requests: Mapping[str, int],
        matched: MatchingLeaves,
        shape: TopologyAssignmentParameters,
    ) -> None:
        """Take what each pod requests, itself too; of the shape matters only what slices there are."""
        self.matching_leaves = matched
        self.domain_states: list[DomainStates] = []
        """By level, as of the last update; not to be changed."""
        self.results: dict[Hashable, dict[str, TopologyAssignment] | TopologyAssignmentFailure] = {}
        """What was found since there was a change, for whoever asks again."""
        self._tree = tree
        self._requests = requests
        self._shape = shape
        self._free: FreeCapacity = {}
        self._shortest: NDArray[np.int64] = np.zeros(0, np.int64)

    def update(self, free: FreeCapacity) -> None:
        """Take what is free of each resource that is requested; arrays that are given are not to be changed."""
        before, self._free = self._free, free
        if not before:
            self._renew_all()
            return
        changed = [free[name] != before[name] for name in free if free[name] is not before[name]]
        rows = np.flatnonzero(np.logical_or.reduce(changed)) if changed else np.zeros(0, np.int64)
        if not rows.size:
            return
        self.results.clear()
        if rows.size * _FEW > self._tree.leaf_count:
            self._renew_all()
            return
        leaves, self._shortest[rows] = self._leaves({name: amount[rows] for name, amount in free.items()}, rows)
        update_counts(self.domain_states, self._tree, rows, leaves, self._shape)

    def exclusions(self) -> ExclusionStats:
        """Return why leaves take nothing."""
        full = self.matching_leaves.mask & (self.domain_states[-1].pod_count == 0)
        return self.matching_leaves.exclusions._replace(
            resources=count_limiting_resources(self._requests, self._shortest[full])
        )

    def _renew_all(self) -> None:
        leaves, self._shortest = self._leaves(self._free, slice(None))
        self.domain_states = fill_in_counts(leaves, self._tree.child_offsets, 0, self._shape)

    def _leaves(self, free: FreeCapacity, rows: NDArray[np.int64] | slice) -> tuple[LeafCounts, NDArray[np.int64]]:
        """Return what some leaves take, and of which resource they have least."""
        room, shortest = count_in_with_limiting_resource(free, self._requests)
        room *= self.matching_leaves.mask[rows]
        return LeafCounts(room, room, np.zeros_like(room), self.matching_leaves.affinity_score[rows]), shortest
