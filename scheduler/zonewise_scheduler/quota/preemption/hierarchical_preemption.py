"""Candidates of classical preemption (pkg/scheduler/preemption/classical).

Those of other queues are sought cohort by cohort, upwards from the queue. Once a subtree's quota has room for what is
asked, the queue has the nearer claim to it than whoever uses it from outside: those of the cohorts above are then
preempted for the quota that is the subtree's own. Only what is over its nominal quota is sought.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import minus
from zonewise_scheduler.quota.preemption.candidate_ordering import find_candidates_for_policy, sort_candidates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot, ResourceNode
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext, PreemptionReason


class PreemptionVariant(Enum):
    """What makes a workload a candidate."""

    WITHIN_CQ = auto()
    """It is of the same queue."""
    HIERARCHICAL_RECLAIM = auto()
    RECLAIM_WITHOUT_BORROWING = auto()
    """Only if the preemptor's queue will not borrow."""
    RECLAIM_WHILE_BORROWING = auto()

    @property
    def preemption_reason(self) -> PreemptionReason:
        """What the workload is told."""
        if self is PreemptionVariant.WITHIN_CQ:
            return "InClusterQueue"
        return (
            "InCohortReclaimWhileBorrowing"
            if self is PreemptionVariant.RECLAIM_WHILE_BORROWING
            else "InCohortReclamation"
        )


class PreemptionCandidate(NamedTuple):
    """A workload that may be preempted."""

    workload: Workload
    variant: PreemptionVariant
    lca: CohortSnapshot | None
    """The lowest cohort above both queues; None within one queue."""


class PreemptionCandidates(NamedTuple):
    """All of them, in the order in which they are tried."""

    candidates: tuple[PreemptionCandidate, ...]
    from_other_queues: bool
    """Some are of other queues."""
    for_hierarchical_reclaim: bool
    """To some the preemptor has the nearer claim."""


def collect_candidates(context: PreemptionContext) -> PreemptionCandidates:
    """Find them: those already evicted, then the rest; of each, nearer claims, others, and those of the same queue."""
    within = _of_queue(context, context.preemptor_cq, None, nearer=False)
    nearer, others = _of_cohorts(context)
    lists = [_sorted(context, found) for found in (nearer, others, within)]
    evicted = [one for found in lists for one in found if one.workload.eviction is not None]
    rest = [one for found in lists for one in found if one.workload.eviction is None]
    return PreemptionCandidates((*evicted, *rest), bool(nearer or others), bool(nearer))


def candidate_is_valid(context: PreemptionContext, candidate: PreemptionCandidate, *, borrow: bool) -> bool:
    """Tell whether a candidate is one still after those before it are gone."""
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


def _sorted(ask: PreemptionContext, found: list[PreemptionCandidate]) -> list[PreemptionCandidate]:
    if len(found) < 2:
        return found
    by_key = {one.workload.key: one for one in found}
    usages = ask.snapshot.local_queue_usage
    return [by_key[one.key] for one in sort_candidates((one.workload for one in found), ask.preemptor_cq.name, usages)]


def _of_cohorts(ask: PreemptionContext) -> tuple[list[PreemptionCandidate], list[PreemptionCandidate]]:
    """Return those of other queues to whom the preemptor has the nearer claim, and the others."""
    nearer: list[PreemptionCandidate] = []
    others: list[PreemptionCandidate] = []
    if ask.preemptor_cq.spec.preemption.reclaim_within_cohort == "Never":
        return nearer, others
    claim, rest = _room(ask.preemptor_cq, dict(ask.workload_usage))
    seen: CohortSnapshot | None = None
    for cohort in ask.preemptor_cq.path_parent_to_root():
        for queue in _exceeding(ask, cohort, seen):
            (nearer if claim else others).extend(_of_queue(ask, queue, cohort, nearer=claim))
        fits, rest = _room(cohort, rest)
        claim = claim or fits
        seen = cohort
    return nearer, others


def _room(node: ResourceNode, usage: dict[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Tell whether the subtree's quota has room, and return what is beyond what is local (QuantitiesFitInQuota)."""
    fits = not any(node.borrowing_with(key, amount) for key, amount in usage.items())
    return fits, {key: max(0, minus(amount, node.local_available(key))) for key, amount in usage.items()}


def _exceeding(
    ask: PreemptionContext, cohort: CohortSnapshot, seen: CohortSnapshot | None
) -> Iterator[ClusterQueueSnapshot]:
    """Yield the queues below that are over their quota, within cohorts that are so too, but for those seen."""
    for child in cohort.child_cohorts:
        if child is not seen and not child.is_within_nominal(ask.frs_need_preemption):
            yield from _exceeding(ask, child, seen)
    for queue in cohort.child_cqs:
        if queue is not ask.preemptor_cq and not queue.is_within_nominal(ask.frs_need_preemption):
            yield queue


def _of_queue(
    ask: PreemptionContext, queue: ClusterQueueSnapshot, below: CohortSnapshot | None, *, nearer: bool
) -> list[PreemptionCandidate]:
    return [
        PreemptionCandidate(one, _kind(ask, one, queue, nearer=nearer), below)
        for one in find_candidates_for_policy(ask, queue)
    ]


def _kind(ask: PreemptionContext, one: Workload, queue: ClusterQueueSnapshot, *, nearer: bool) -> PreemptionVariant:
    if queue is ask.preemptor_cq:
        return PreemptionVariant.WITHIN_CQ
    if nearer:
        return PreemptionVariant.HIERARCHICAL_RECLAIM
    rules = ask.preemptor_cq.spec.preemption
    too_high = one.priority >= ask.preemptor.priority or (
        rules.max_priority_threshold is not None and one.priority > rules.max_priority_threshold
    )
    return (
        PreemptionVariant.RECLAIM_WITHOUT_BORROWING
        if rules.borrow_within_cohort == "Never" or too_high
        else PreemptionVariant.RECLAIM_WHILE_BORROWING
    )
