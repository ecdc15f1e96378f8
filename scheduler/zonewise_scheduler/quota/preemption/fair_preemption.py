"""Preemption with fair sharing: the queue with the largest share loses workloads until the preemptor fits (KEP-1714).

A queue within its nominal quota reclaims that quota from any queue. Otherwise, the share of the preemptor's queue,
including the preemptor, is compared with the share of the candidate's queue. There are two strategies:

- LessThanOrEqualToFinalShare (S2-a): the former must not exceed the share of that queue without the candidate.
- LessThanInitialShare (S2-b): the former must be below the share of that queue with the candidate. As the second
  strategy, this is tried for the candidates that the first one left, once per queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.preemption.candidate_ordering import find_candidates_for_policy, sort_candidates
from zonewise_scheduler.quota.preemption.preemption_context import Target, fill_back_workloads, restore_snapshot
from zonewise_scheduler.quota.preemption.target_cluster_queue import TargetClusterQueueOrdering

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.configuration import PreemptionStrategy
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext, PreemptionReason


def fair_preemptions(context: PreemptionContext) -> tuple[Target, ...]:
    """Return the victims; none if no preemption helps (preemption.go fairPreemptions)."""
    candidates = _find_candidates(context)
    if not candidates:
        return ()
    search = _FairSearch(context)
    context.preemptor_cq.add_usage(context.workload_usage)  # shares include the preemptor
    first, *more = context.settings.preemption_strategies or DEFAULT_SETTINGS.preemption_strategies
    fits = search.run_first_strategy(candidates, first) or (bool(more) and search.run_second_strategy())
    context.preemptor_cq.remove_usage(context.workload_usage)
    targets = fill_back_workloads(context, search.targets, allow_borrowing=True) if fits else []
    restore_snapshot(context, targets if fits else search.targets)
    return tuple(targets)


class _FairSearch:
    """The targets so far, which are not in the snapshot, and the remaining candidates for the second strategy."""

    def __init__(self, context: PreemptionContext) -> None:
        self.targets: list[Target] = []
        self._context = context
        self._retry_candidates: list[Workload] = []

    def run_first_strategy(self, candidates: list[Workload], strategy: PreemptionStrategy) -> bool:
        """Remove targets with the first strategy; return whether the preemptor then fits (runFirstFsStrategy)."""
        ordering = TargetClusterQueueOrdering(self._context.preemptor_cq, candidates)
        within_nominal = self._context.preemptor_cq.is_within_nominal(self._context.frs_need_preemption)
        for queue in ordering.target_cluster_queues():
            if queue is self._context.preemptor_cq:
                fits = self._remove(ordering.pop_workload(queue), "InClusterQueue")
            elif within_nominal:
                fits = self._remove(ordering.pop_workload(queue), "InCohortReclamation")
            else:
                fits = self._apply_strategy(ordering, queue, strategy)
            if fits:
                return True
        return False

    def run_second_strategy(self) -> bool:
        """Remove targets with LessThanInitialShare; return whether the preemptor then fits (runSecondFsStrategy)."""
        ordering = TargetClusterQueueOrdering(self._context.preemptor_cq, self._retry_candidates)
        for queue in ordering.target_cluster_queues():
            preemptor_node, target_node = ordering.almost_lcas(queue)
            preemptor_share = dominant_resource_share(preemptor_node).comparison_key
            allowed = preemptor_share < dominant_resource_share(target_node).comparison_key
            candidate = ordering.pop_workload(queue)
            if allowed and self._remove(candidate, "InCohortFairSharing"):
                return True
            ordering.drop_queue(queue)
        return False

    def _apply_strategy(
        self, ordering: TargetClusterQueueOrdering, queue: ClusterQueueSnapshot, strategy: PreemptionStrategy
    ) -> bool:
        """Remove the first candidate of a queue that the strategy allows; earlier ones are left for a retry.

        Without a candidate, the share of a queue is never larger. So if it is already smaller than the preemptor's, no
        candidate is allowed.
        """
        preemptor_node, target_node = ordering.almost_lcas(queue)
        preemptor_new_share = dominant_resource_share(preemptor_node).comparison_key
        target_old_share = dominant_resource_share(target_node).comparison_key
        if preemptor_new_share > target_old_share:
            self._retry_candidates += ordering.pop_workloads(queue)
        while ordering.has_workload(queue):
            candidate = ordering.pop_workload(queue)
            if strategy == "LessThanInitialShare":
                allowed = preemptor_new_share < target_old_share
            else:
                queue.remove_usage(candidate.usage)
                allowed = preemptor_new_share <= dominant_resource_share(target_node).comparison_key
                queue.add_usage(candidate.usage)
            if allowed:
                return self._remove(candidate, "InCohortFairSharing")
            self._retry_candidates.append(candidate)
        return False

    def _remove(self, candidate: Workload, reason: PreemptionReason) -> bool:
        """Make a candidate a target; return whether the preemptor then fits."""
        context = self._context
        context.snapshot.remove_workload(candidate)
        self.targets.append(Target(candidate, reason))
        context.preemptor_cq.remove_usage(context.workload_usage)
        fits = context.workload_fits(allow_borrowing=True)
        context.preemptor_cq.add_usage(context.workload_usage)
        return fits


def _find_candidates(context: PreemptionContext) -> list[Workload]:
    """Return the candidates of the preemptor's queue and of the borrowing queues of its tree (findCandidates)."""
    candidates = find_candidates_for_policy(context, context.preemptor_cq)
    root = context.preemptor_cq.root
    if root is not None and context.preemptor_cq.spec.preemption.reclaims:
        for queue in root.subtree_cluster_queues():
            if queue is not context.preemptor_cq and not queue.is_within_nominal(context.frs_need_preemption):
                candidates += find_candidates_for_policy(context, queue)
    return sort_candidates(candidates, context.preemptor_cq.name, context.snapshot.local_queue_usage)
