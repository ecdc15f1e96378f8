"""The queue that a fair preemption takes the next victim from (pkg/scheduler/preemption/fairsharing).

The search goes from the root down, each time to the child with the largest dominant resource share that borrows and has
candidates. Of a cohort and a queue with equal shares, the cohort comes first. Nodes that do not borrow are pruned, but
for the preemptor's queue and the cohorts above it: an imbalance may exist below these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.hierarchy.fair_sharing import NEGATIVE_DRS, dominant_resource_share
from zonewise_scheduler.quota.preemption.candidate_ordering import candidates_ordering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.fair_sharing import DRS
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot, ResourceNode


class TargetClusterQueueOrdering:
    """The queues to preempt from. Between two of them, pop_workload() or drop_queue() must be called for the first."""

    def __init__(self, preemptor_cq: ClusterQueueSnapshot, candidates: Iterable[Workload]) -> None:
        """Start with candidates in the order of sort_candidates()."""
        self._preemptor_cq = preemptor_cq
        self._preemptor_ancestors = list(preemptor_cq.path_parent_to_root())
        self._candidates: dict[str, list[Workload]] = {}
        for workload in candidates:
            if workload.admission is not None:
                self._candidates.setdefault(workload.admission.cluster_queue, []).append(workload)
        for workloads in self._candidates.values():
            workloads.reverse()  # so that pop() returns the first
        self._pruned: set[ResourceNode] = set()

    def target_cluster_queues(self) -> Iterator[ClusterQueueSnapshot]:
        """Yield queues; a queue is yielded again while its share is still the largest."""
        root = self._preemptor_cq.root
        if root is None:
            while self.has_workload(self._preemptor_cq) and self._preemptor_cq not in self._pruned:
                yield self._preemptor_cq
            return
        while root not in self._pruned:
            queue = self._next_target(root)
            if queue is not None:
                yield queue

    def has_workload(self, queue: ClusterQueueSnapshot) -> bool:
        """Tell whether a queue has candidates left."""
        return bool(self._candidates.get(queue.name))

    def pop_workload(self, queue: ClusterQueueSnapshot) -> Workload:
        """Remove and return the first candidate of a queue."""
        return self._candidates[queue.name].pop()

    def drop_queue(self, queue: ClusterQueueSnapshot) -> None:
        """Exclude a queue from now on."""
        self._pruned.add(queue)

    def almost_lcas(self, queue: ClusterQueueSnapshot) -> tuple[ResourceNode, ResourceNode]:
        """Return the nodes just below the lowest common cohort: the preemptor's and the queue's (getAlmostLCAs)."""
        target: ResourceNode = queue
        while target.parent is not None and target.parent not in self._preemptor_ancestors:
            target = target.parent
        preemptor: ResourceNode = self._preemptor_cq
        while preemptor.parent is not None and preemptor.parent is not target.parent:
            preemptor = preemptor.parent
        return preemptor, target

    def _next_target(self, cohort: CohortSnapshot) -> ClusterQueueSnapshot | None:
        """Return the next queue below a cohort; None where a node was pruned instead."""
        queue, queue_share = self._largest_queue(cohort)
        child, cohort_share = self._largest_cohort(cohort)
        if child is not None and cohort_share.comparison_key >= queue_share.comparison_key:
            return self._next_target(child)
        if queue is None:
            self._pruned.add(cohort)
        return queue

    def _largest_queue(self, cohort: CohortSnapshot) -> tuple[ClusterQueueSnapshot | None, DRS]:
        largest, largest_share = None, NEGATIVE_DRS
        for queue in cohort.child_cqs:
            if queue in self._pruned:
                continue
            share = dominant_resource_share(queue)
            if not self.has_workload(queue) or (not share.borrowed_frs and queue is not self._preemptor_cq):
                self._pruned.add(queue)
            elif share.comparison_key > largest_share.comparison_key or (
                largest is not None and self._wins_tie(queue, largest, share, largest_share)
            ):
                largest, largest_share = queue, share
        return largest, largest_share

    def _wins_tie(
        self, queue: ClusterQueueSnapshot, largest: ClusterQueueSnapshot, share: DRS, largest_share: DRS
    ) -> bool:
        """Tell whether a queue with an equal share has the candidate that comes first."""
        firsts = self._candidates[queue.name][-1], self._candidates[largest.name][-1]
        return (
            share.comparison_key == largest_share.comparison_key
            and candidates_ordering(*firsts, self._preemptor_cq.name, {}) < 0
        )

    def _largest_cohort(self, cohort: CohortSnapshot) -> tuple[CohortSnapshot | None, DRS]:
        largest, largest_share = None, NEGATIVE_DRS
        for child in cohort.child_cohorts:
            if child in self._pruned:
                continue
            share = dominant_resource_share(child)
            if not share.borrowed_frs and child not in self._preemptor_ancestors:
                self._pruned.add(child)
            elif share.comparison_key >= largest_share.comparison_key:
                largest, largest_share = child, share
        return largest, largest_share
