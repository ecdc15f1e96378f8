"""Preemption with fair sharing: until the workload fits, from whoever has the largest share (KEP-1714).

A queue that stays within its nominal quota takes that back from anyone. Otherwise a workload of another queue may be
preempted where the preemptor's share, with the new workload, is not above the other's: by LessThanOrEqualToFinalShare,
what the other has left without the preempted workload (S2-a); by LessThanInitialShare, what it has now (S2-b), which is
tried for those that the first strategy has left, once per queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.workload_types import DEFAULT_SETTINGS
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.preemption.candidate_ordering import find_candidates_for_policy, sort_candidates
from zonewise_scheduler.quota.preemption.preemption_context import Target, fill_back_workloads, restore_snapshot
from zonewise_scheduler.quota.preemption.target_cluster_queue import TargetClusterQueueOrdering

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import PreemptionStrategy, Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext, PreemptionReason


def fair_preemptions(context: PreemptionContext) -> tuple[Target, ...]:
    """Return who is to give way, none where that does not help (preemption.go fairPreemptions)."""
    candidates = _candidates(context)
    if not candidates:
        return ()
    search = _Search(context)
    context.preemptor_cq.add_usage(context.workload_usage)  # shares are those with the new workload
    first, *more = context.settings.preemption_strategies or DEFAULT_SETTINGS.preemption_strategies
    fits = search.first(candidates, first) or (bool(more) and search.second())
    context.preemptor_cq.remove_usage(context.workload_usage)
    found = fill_back_workloads(context, search.found, allow_borrowing=True) if fits else []
    restore_snapshot(context, found if fits else search.found)
    return tuple(found)


class _Search:
    """The targets found so far, which are out of the snapshot, and the candidates left for the second strategy."""

    def __init__(self, ask: PreemptionContext) -> None:
        self.found: list[Target] = []
        self._ask = ask
        self._left: list[Workload] = []

    def first(self, candidates: list[Workload], strategy: PreemptionStrategy) -> bool:
        """Take by the first strategy; tell whether the workload fits then."""
        order = TargetClusterQueueOrdering(self._ask.preemptor_cq, candidates)
        within = self._ask.preemptor_cq.is_within_nominal(self._ask.frs_need_preemption)
        for queue in order.target_cluster_queues():
            if queue is self._ask.preemptor_cq:
                fits = self._take(order.pop_workload(queue), "InClusterQueue")
            elif within:
                fits = self._take(order.pop_workload(queue), "InCohortReclamation")
            else:
                fits = self._by_strategy(order, queue, strategy)
            if fits:
                return True
        return False

    def second(self) -> bool:
        """Take by LessThanInitialShare; tell whether the workload fits then."""
        order = TargetClusterQueueOrdering(self._ask.preemptor_cq, self._left)
        for queue in order.target_cluster_queues():
            mine, theirs = order.almost_lcas(queue)
            less = dominant_resource_share(mine).comparison_key < dominant_resource_share(theirs).comparison_key
            candidate = order.pop_workload(queue)
            if less and self._take(candidate, "InCohortFairSharing"):
                return True
            order.drop_queue(queue)
        return False

    def _by_strategy(
        self, order: TargetClusterQueueOrdering, queue: ClusterQueueSnapshot, strategy: PreemptionStrategy
    ) -> bool:
        """Take the first candidate of a queue that the strategy allows; the others are left."""
        mine, theirs = order.almost_lcas(queue)
        share_of_mine, share_of_theirs = (
            dominant_resource_share(mine).comparison_key,
            dominant_resource_share(theirs).comparison_key,
        )
        while order.has_workload(queue):
            candidate = order.pop_workload(queue)
            if strategy == "LessThanInitialShare":
                allowed = share_of_mine < share_of_theirs
            else:
                queue.remove_usage(candidate.usage)
                allowed = share_of_mine <= dominant_resource_share(theirs).comparison_key
                queue.add_usage(candidate.usage)
            if allowed:
                return self._take(candidate, "InCohortFairSharing")
            self._left.append(candidate)
        return False

    def _take(self, candidate: Workload, reason: PreemptionReason) -> bool:
        """Take a workload; tell whether the new one fits then."""
        ask = self._ask
        ask.snapshot.remove_workload(candidate)
        self.found.append(Target(candidate, reason))
        ask.preemptor_cq.remove_usage(ask.workload_usage)
        fits = ask.workload_fits(allow_borrowing=True)
        ask.preemptor_cq.add_usage(ask.workload_usage)
        return fits


def _candidates(ask: PreemptionContext) -> list[Workload]:
    """Return those of the queue, and of the borrowing queues of its tree, in their order (preemption.go)."""
    found = find_candidates_for_policy(ask, ask.preemptor_cq)
    root = ask.preemptor_cq.root
    if root is not None and ask.preemptor_cq.spec.preemption.reclaim_within_cohort != "Never":
        for queue in root.subtree_cluster_queues():
            if queue is not ask.preemptor_cq and not queue.is_within_nominal(ask.frs_need_preemption):
                found += find_candidates_for_policy(ask, queue)
    return sort_candidates(found, ask.preemptor_cq.name, ask.snapshot.local_queue_usage)
