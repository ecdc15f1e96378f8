"""Preemption without fair sharing: a greedy search for a small set of victims, with fill-back.

pkg/scheduler/preemption/preemption.go classicalPreemptions; preemption/classical/hierarchical_preemption.go and
candidate_generator.go. Candidates in other queues are collected cohort by cohort, from the preemptor's queue upwards.
Once the quota of a subtree is enough for the request, the preemptor has the hierarchical advantage. The advantage
applies to workloads that use that quota from outside the subtree. Candidates from the cohorts above are then reclaimed
for the subtree's own quota. Only workloads of queues and cohorts that exceed their nominal quota are candidates.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import minus
from zonewise_scheduler.quota.preemption.candidate_ordering import find_candidates_for_policy, sort_candidates
from zonewise_scheduler.quota.preemption.preemption_context import Target, fill_back_workloads, restore_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot, ResourceNode
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext, PreemptionReason


class PreemptionVariant(Enum):
    """Why a workload is a candidate (preemptionVariant)."""

    WITHIN_CQ = auto()
    """The workload is in the preemptor's queue."""
    HIERARCHICAL_RECLAIM = auto()
    """The preemptor has the hierarchical advantage over the workload."""
    RECLAIM_WITHOUT_BORROWING = auto()
    """The workload is a candidate only while the preemptor's queue does not borrow."""
    RECLAIM_WHILE_BORROWING = auto()

    @property
    def preemption_reason(self) -> PreemptionReason:
        """The reason of the condition Preempted."""
        if self is PreemptionVariant.WITHIN_CQ:
            return "InClusterQueue"
        while_borrowing = self is PreemptionVariant.RECLAIM_WHILE_BORROWING
        return "InCohortReclaimWhileBorrowing" if while_borrowing else "InCohortReclamation"


class PreemptionCandidate(NamedTuple):
    """A workload that may be preempted."""

    workload: Workload
    variant: PreemptionVariant
    lca: CohortSnapshot | None
    """The lowest common cohort of both queues; None within one queue."""


class PreemptionCandidates(NamedTuple):
    """All candidates."""

    candidates: tuple[PreemptionCandidate, ...]
    """Candidates in the order in which they are tried."""
    from_other_queues: bool
    """Whether some candidates are in other queues."""
    for_hierarchical_reclaim: bool
    """Whether the preemptor has the hierarchical advantage over some candidates."""


def classical_preemptions(context: PreemptionContext) -> tuple[Target, ...]:
    """Return the victims; none if no preemption helps (classicalPreemptions).

    Candidates are removed in order until the preemptor fits. Those that are not needed are then added back in reverse
    order. An attempt with borrowing has fewer candidates. In an attempt without borrowing, the preemptor must fit into
    the nominal quota.
    """
    candidates = collect_candidates(context)
    for borrow in _attempts(context, candidates):
        if targets := _attempt(context, candidates, borrow=borrow):
            return tuple(targets)
    return ()


def _attempts(context: PreemptionContext, candidates: PreemptionCandidates) -> tuple[bool, ...]:
    """Return whether to borrow in each attempt, in order."""
    forbidden = context.preemptor_cq.spec.preemption.borrow_within_cohort == "Never"
    if not candidates.from_other_queues or (forbidden and not _is_under_nominal(context)):
        return (True,)
    return (False, True) if forbidden and not candidates.for_hierarchical_reclaim else (True, False)


def _is_under_nominal(context: PreemptionContext) -> bool:
    queue = context.preemptor_cq
    return all(queue.subtree_quota[key] > queue.usage[key] for key in context.frs_need_preemption)


def _attempt(context: PreemptionContext, candidates: PreemptionCandidates, *, borrow: bool) -> list[Target]:
    targets: list[Target] = []
    for candidate in candidates.candidates:
        if not candidate_is_valid(context, candidate, borrow=borrow):
            continue
        context.snapshot.remove_workload(candidate.workload)
        targets.append(Target(candidate.workload, candidate.variant.preemption_reason))
        if context.workload_fits(allow_borrowing=borrow):
            targets = fill_back_workloads(context, targets, allow_borrowing=borrow)
            restore_snapshot(context, targets)
            return targets
    restore_snapshot(context, targets)
    return []


# --- candidates


def collect_candidates(context: PreemptionContext) -> PreemptionCandidates:
    """Return all candidates: first those that are already evicted, then the others.

    Each part begins with hierarchical reclaim, continues with other queues, and ends with the preemptor's queue.
    """
    same_queue = [
        PreemptionCandidate(workload, PreemptionVariant.WITHIN_CQ, None)
        for workload in find_candidates_for_policy(context, context.preemptor_cq)
    ]
    hierarchical, other_queues = _collect_from_cohorts(context)
    lists = [_sorted(context, candidates) for candidates in (hierarchical, other_queues, same_queue)]
    evicted = [candidate for candidates in lists for candidate in candidates if candidate.workload.eviction is not None]
    rest = [candidate for candidates in lists for candidate in candidates if candidate.workload.eviction is None]
    return PreemptionCandidates((*evicted, *rest), bool(hierarchical or other_queues), bool(hierarchical))


def candidate_is_valid(context: PreemptionContext, candidate: PreemptionCandidate, *, borrow: bool) -> bool:
    """Return whether a candidate is still one after the removal of earlier candidates (candidateIsValid)."""
    if candidate.variant is PreemptionVariant.WITHIN_CQ:
        return True
    if borrow and candidate.variant is PreemptionVariant.RECLAIM_WITHOUT_BORROWING:
        return False
    node: ResourceNode | None = context.snapshot.cluster_queue_of(candidate.workload)
    while node is not None and node is not candidate.lca:
        if node.is_within_nominal(context.frs_need_preemption):
            return False
        node = node.parent
    return True


def _sorted(context: PreemptionContext, candidates: list[PreemptionCandidate]) -> list[PreemptionCandidate]:
    by_key = {candidate.workload.key: candidate for candidate in candidates}
    workloads = (candidate.workload for candidate in candidates)
    ordered = sort_candidates(workloads, context.preemptor_cq.name, context.snapshot.local_queue_usage)
    return [by_key[workload.key] for workload in ordered]


def _collect_from_cohorts(context: PreemptionContext) -> tuple[list[PreemptionCandidate], list[PreemptionCandidate]]:
    """Return the candidates for hierarchical reclaim, and the remaining candidates in other queues.

    Upstream: collectCandidatesForHierarchicalReclaim.
    """
    hierarchical: list[PreemptionCandidate] = []
    other_queues: list[PreemptionCandidate] = []
    if not context.preemptor_cq.spec.preemption.reclaims:
        return hierarchical, other_queues
    advantage, remaining = _quantities_fit_in_quota(context.preemptor_cq, dict(context.workload_usage))
    previous: CohortSnapshot | None = None
    for cohort in context.preemptor_cq.path_parent_to_root():
        for queue in _borrowing_queues(context, cohort, previous):
            candidates = _candidates_of_queue(context, queue, cohort, hierarchical_advantage=advantage)
            (hierarchical if advantage else other_queues).extend(candidates)
        fits, remaining = _quantities_fit_in_quota(cohort, remaining)
        advantage = advantage or fits
        previous = cohort
    return hierarchical, other_queues


def _quantities_fit_in_quota(
    node: ResourceNode, usage: dict[FlavorResource, int]
) -> tuple[bool, dict[FlavorResource, int]]:
    """Return whether usage fits into the subtree's quota, and the usage beyond the local quota."""
    fits = not any(node.borrowing_with(key, amount) for key, amount in usage.items())
    return fits, {key: max(0, minus(amount, node.local_available(key))) for key, amount in usage.items()}


def _borrowing_queues(
    context: PreemptionContext, cohort: CohortSnapshot, previous: CohortSnapshot | None
) -> Iterator[ClusterQueueSnapshot]:
    """Yield the borrowing queues below a cohort, within cohorts that also borrow; skip the subtree `previous`."""
    for child in cohort.child_cohorts:
        if child is not previous and not child.is_within_nominal(context.frs_need_preemption):
            yield from _borrowing_queues(context, child, previous)
    for queue in cohort.child_cqs:
        if queue is not context.preemptor_cq and not queue.is_within_nominal(context.frs_need_preemption):
            yield queue


def _candidates_of_queue(
    context: PreemptionContext, queue: ClusterQueueSnapshot, lca: CohortSnapshot, *, hierarchical_advantage: bool
) -> list[PreemptionCandidate]:
    """Return the candidates of another queue."""
    return [
        PreemptionCandidate(
            workload, _classify_variant(context, workload, hierarchical_advantage=hierarchical_advantage), lca
        )
        for workload in find_candidates_for_policy(context, queue)
    ]


def _classify_variant(
    context: PreemptionContext, workload: Workload, *, hierarchical_advantage: bool
) -> PreemptionVariant:
    """Return the variant of a candidate in another queue (classifyPreemptionVariant)."""
    if hierarchical_advantage:
        return PreemptionVariant.HIERARCHICAL_RECLAIM
    preemption = context.preemptor_cq.spec.preemption
    threshold = preemption.max_priority_threshold
    too_high = workload.priority >= context.preemptor.priority or (
        threshold is not None and workload.priority > threshold
    )
    if preemption.borrow_within_cohort == "Never" or too_high:
        return PreemptionVariant.RECLAIM_WITHOUT_BORROWING
    return PreemptionVariant.RECLAIM_WHILE_BORROWING
