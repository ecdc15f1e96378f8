"""Preemption without fair sharing: a small set that makes room, by a greedy search with fill-back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.preemption.hierarchical_preemption import candidate_is_valid, collect_candidates
from zonewise_scheduler.quota.preemption.preemption_context import Target, fill_back_workloads, restore_snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.quota.preemption.hierarchical_preemption import PreemptionCandidates
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext


def classical_preemptions(context: PreemptionContext) -> tuple[Target, ...]:
    """Return who is to give way, none where that does not help (preemption.go classicalPreemptions).

    Candidates are taken out in their order until the workload fits; then those without whom it fits as well are put
    back, last first. With borrowing, candidates are fewer; without, the workload has to fit into nominal quota.
    """
    candidates = collect_candidates(context)
    for borrowing in _attempts(context, candidates):
        if found := _attempt(context, candidates, borrowing=borrowing):
            return tuple(found)
    return ()


def _attempts(ask: PreemptionContext, candidates: PreemptionCandidates) -> tuple[bool, ...]:
    """Return with or without borrowing, in the order of the attempts."""
    forbidden = ask.preemptor_cq.spec.preemption.borrow_within_cohort == "Never"
    if not candidates.from_other_queues or (forbidden and not _below_nominal(ask)):
        return (True,)
    return (False, True) if forbidden and not candidates.for_hierarchical_reclaim else (True, False)


def _below_nominal(ask: PreemptionContext) -> bool:
    queue = ask.preemptor_cq
    return all(queue.subtree_quota.get(key, 0) > queue.usage.get(key, 0) for key in ask.frs_need_preemption)


def _attempt(ask: PreemptionContext, candidates: PreemptionCandidates, *, borrowing: bool) -> list[Target]:
    found: list[Target] = []
    for one in candidates.candidates:
        if not candidate_is_valid(ask, one, borrow=borrowing):
            continue
        ask.snapshot.remove_workload(one.workload)
        found.append(Target(one.workload, one.variant.preemption_reason))
        if ask.workload_fits(allow_borrowing=borrowing):
            found = fill_back_workloads(ask, found, allow_borrowing=borrowing)
            restore_snapshot(ask, found)
            return found
    restore_snapshot(ask, found)
    return []
