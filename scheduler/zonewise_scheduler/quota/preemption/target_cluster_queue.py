"""Selects the queue from which a fair preemption takes the next victim (pkg/scheduler/preemption/fairsharing).

The search descends from the root, each time to the child with the largest dominant resource share that borrows and has
candidates. If a cohort and a queue have equal shares, the cohort comes first. Nodes that do not borrow are pruned,
except the preemptor's queue and the cohorts above it, below which an imbalance may exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.preemption.candidate_ordering import candidate_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot, ResourceNode
    from zonewise_scheduler.quota.preemption.candidate_ordering import CandidateKey


class TargetClusterQueueOrdering:
    """The queues to preempt from. After each queue, the caller must remove a candidate or drop the queue."""

    def __init__(self, preemptor_cq: ClusterQueueSnapshot, candidates: Iterable[Workload]) -> None:
        """Initialize with candidates in the order of sort_candidates()."""
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
        """Yield queues; yield a queue again while its share is still the largest."""
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
        """Return whether a queue has candidates left."""
        return bool(self._candidates.get(queue.name))

    def pop_workload(self, queue: ClusterQueueSnapshot) -> Workload:
        """Remove and return the first candidate of a queue."""
        return self._candidates[queue.name].pop()

    def pop_workloads(self, queue: ClusterQueueSnapshot) -> list[Workload]:
        """Remove and return all candidates of a queue, the first one first."""
        return self._candidates.pop(queue.name)[::-1]

    def drop_queue(self, queue: ClusterQueueSnapshot) -> None:
        """Exclude a queue from now on."""
        self._pruned.add(queue)

    def almost_lcas(self, queue: ClusterQueueSnapshot) -> tuple[ResourceNode, ResourceNode]:
        """Return the nodes directly below the lowest common cohort: the preemptor's and the queue's (getAlmostLCAs)."""
        target: ResourceNode = queue
        while target.parent is not None and target.parent not in self._preemptor_ancestors:
            target = target.parent
        preemptor: ResourceNode = self._preemptor_cq
        while preemptor.parent is not None and preemptor.parent is not target.parent:
            preemptor = preemptor.parent
        return preemptor, target

    def _next_target(self, cohort: CohortSnapshot) -> ClusterQueueSnapshot | None:
        """Return the next queue below a cohort; None if a node was pruned instead."""
        queue_shares, cohort_shares = self._queue_shares(cohort), self._cohort_shares(cohort)
        largest = max(queue_shares.values(), default=None)
        queues = (queue for queue, share in queue_shares.items() if share == largest)
        queue = min(queues, key=self._first_candidate_key, default=None)
        child = max(reversed(cohort_shares), key=cohort_shares.__getitem__, default=None)
        if child is not None and (queue is None or cohort_shares[child] >= queue_shares[queue]):
            return self._next_target(child)
        if queue is None:
            self._pruned.add(cohort)
        return queue

    def _queue_shares(self, cohort: CohortSnapshot) -> dict[ClusterQueueSnapshot, tuple[float, float]]:
        """Return the shares of the queues that are not pruned."""
        shares: dict[ClusterQueueSnapshot, tuple[float, float]] = {}
        for queue in cohort.child_cqs:
            if queue in self._pruned:
                continue
            share = dominant_resource_share(queue)
            if self.has_workload(queue) and (share.borrowed_frs or queue is self._preemptor_cq):
                shares[queue] = share.comparison_key
            else:
                self._pruned.add(queue)
        return shares

    def _first_candidate_key(self, queue: ClusterQueueSnapshot) -> CandidateKey:
        return candidate_key(self._candidates[queue.name][-1], self._preemptor_cq.name)

    def _cohort_shares(self, cohort: CohortSnapshot) -> dict[CohortSnapshot, tuple[float, float]]:
        """Return the shares of the cohorts that are not pruned."""
        shares: dict[CohortSnapshot, tuple[float, float]] = {}
        for child in cohort.child_cohorts:
            if child in self._pruned:
                continue
            share = dominant_resource_share(child)
            if share.borrowed_frs or child in self._preemptor_ancestors:
                shares[child] = share.comparison_key
            else:
                self._pruned.add(child)
        return shares
