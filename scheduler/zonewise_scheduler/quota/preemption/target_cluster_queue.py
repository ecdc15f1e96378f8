"""From which queue a fair preemption takes next (pkg/scheduler/preemption/fairsharing/ordering.go).

From the root down, to the child with the largest dominant resource share that borrows and has candidates; of a cohort
and a queue with equal shares, the cohort. What does not borrow is passed over, but for the preemptor's own queue and
the cohorts above it: below these there may be an imbalance of their own.
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
    """The queues to take from. Between two of them, pop() or drop() must be called for the first."""

    def __init__(self, preemptor_cq: ClusterQueueSnapshot, candidates: Iterable[Workload]) -> None:
        """Take the candidates in the order of in_order()."""
        self._preemptor = preemptor_cq
        self._above = list(preemptor_cq.path_parent_to_root())
        self._waiting: dict[str, list[Workload]] = {}
        for one in candidates:
            if one.admission is not None:
                self._waiting.setdefault(one.admission.cluster_queue, []).append(one)
        for found in self._waiting.values():
            found.reverse()  # so that the first can be popped
        self._pruned: set[ResourceNode] = set()

    def target_cluster_queues(self) -> Iterator[ClusterQueueSnapshot]:
        """Yield the queues; each as often as its share is still the largest."""
        root = self._preemptor.root
        if root is None:
            while self.has_workload(self._preemptor) and self._preemptor not in self._pruned:
                yield self._preemptor
            return
        while root not in self._pruned:
            queue = self._next(root)
            if queue is not None:
                yield queue

    def has_workload(self, queue: ClusterQueueSnapshot) -> bool:
        """Tell whether a queue has candidates left."""
        return bool(self._waiting.get(queue.name))

    def pop_workload(self, queue: ClusterQueueSnapshot) -> Workload:
        """Take the first candidate of a queue."""
        return self._waiting[queue.name].pop()

    def drop_queue(self, queue: ClusterQueueSnapshot) -> None:
        """Consider a queue no more."""
        self._pruned.add(queue)

    def almost_lcas(self, queue: ClusterQueueSnapshot) -> tuple[ResourceNode, ResourceNode]:
        """Return the nodes just below the lowest cohort above both: the preemptor's and the queue's."""
        target: ResourceNode = queue
        while target.parent is not None and target.parent not in self._above:
            target = target.parent
        preemptor: ResourceNode = self._preemptor
        while preemptor.parent is not None and preemptor.parent is not target.parent:
            preemptor = preemptor.parent
        return preemptor, target

    def _next(self, cohort: CohortSnapshot) -> ClusterQueueSnapshot | None:
        """Return the next queue below a cohort; None where something was pruned instead."""
        queue, largest = self._largest_queue(cohort)
        child, larger = self._largest_cohort(cohort)
        if child is not None and larger.comparison_key >= largest.comparison_key:
            return self._next(child)
        if queue is None:
            self._pruned.add(cohort)
        return queue

    def _largest_queue(self, cohort: CohortSnapshot) -> tuple[ClusterQueueSnapshot | None, DRS]:
        best, largest = None, NEGATIVE_DRS
        for queue in cohort.child_cqs:
            if queue in self._pruned:
                continue
            own = dominant_resource_share(queue)
            if not self.has_workload(queue) or (not own.borrowed_frs and queue is not self._preemptor):
                self._pruned.add(queue)
            elif own.comparison_key > largest.comparison_key or (
                best is not None and self._ties(queue, best, own, largest)
            ):
                best, largest = queue, own
        return best, largest

    def _ties(self, queue: ClusterQueueSnapshot, best: ClusterQueueSnapshot, own: DRS, largest: DRS) -> bool:
        """Tell whether a queue with an equal share has the candidate that goes first."""
        firsts = self._waiting[queue.name][-1], self._waiting[best.name][-1]
        return (
            own.comparison_key == largest.comparison_key and candidates_ordering(*firsts, self._preemptor.name, {}) < 0
        )

    def _largest_cohort(self, cohort: CohortSnapshot) -> tuple[CohortSnapshot | None, DRS]:
        best, largest = None, NEGATIVE_DRS
        for child in cohort.child_cohorts:
            if child in self._pruned:
                continue
            own = dominant_resource_share(child)
            if not own.borrowed_frs and child not in self._above:
                self._pruned.add(child)
            elif own.comparison_key >= largest.comparison_key:
                best, largest = child, own
        return best, largest
