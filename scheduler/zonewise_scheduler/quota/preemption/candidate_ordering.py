"""Who may be preempted by whom, and who first (pkg/scheduler/preemption/common)."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.quota.api.queue_types import PreemptionPolicy
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext


def find_candidates_for_policy(context: PreemptionContext, queue: ClusterQueueSnapshot) -> list[Workload]:
    """Return those of a queue that its policy lets give way, and have something of what is contested."""
    rules = context.preemptor_cq.spec.preemption
    policy = rules.within_cluster_queue if queue is context.preemptor_cq else rules.reclaim_within_cohort
    if policy == "Never":
        return []
    forbidden = context.snapshot.preemption_graph.forbidden(context.preemptor.key)
    return [
        one
        for key, one in context.snapshot.workloads_by_queue[queue.name].items()
        if not one.flavor_resources.isdisjoint(context.frs_need_preemption)
        and satisfies_preemption_policy(
            policy, context.preemptor, one, requeue_from_eviction=context.settings.requeue_from_eviction
        )
        and key not in forbidden
    ]


def satisfies_preemption_policy(
    policy: PreemptionPolicy, preemptor: Workload, candidate: Workload, *, requeue_from_eviction: bool = True
) -> bool:
    """Tell whether a policy lets a workload preempt another."""
    lower = preemptor.priority > candidate.priority
    match policy:
        case "Any":
            return True
        case "LowerPriority":
            return lower
        case "LowerOrNewerEqualPriority":
            newer = preemptor.queue_order_timestamp(
                requeue_from_eviction=requeue_from_eviction
            ) < candidate.queue_order_timestamp(requeue_from_eviction=requeue_from_eviction)
            return lower or (preemptor.priority == candidate.priority and newer)
        case "Never" | "":
            return False


def sort_candidates(
    candidates: Iterable[Workload], queue: str, local_queue_usage: Mapping[str, float]
) -> list[Workload]:
    """Return running workloads in the order in which a workload of `queue` preempts them.

    Those evicted already, those of other queues, those of the LocalQueue with more usage (of one queue, where its
    `usages` are known, by key), of lower priority, admitted later, and then by UID.
    """
    if not local_queue_usage:
        return sorted(candidates, key=lambda one: (_rank(one, queue), _age(one)))
    return sorted(
        candidates, key=cmp_to_key(lambda one, other: candidates_ordering(one, other, queue, local_queue_usage))
    )


def candidates_ordering(a: Workload, b: Workload, queue: str, local_queue_usage: Mapping[str, float]) -> int:
    """Return a negative number where `one` goes first: see in_order."""
    mine, yours = _rank(a, queue), _rank(b, queue)
    if mine != yours:
        return -1 if mine < yours else 1
    if local_queue_usage and _queue(a) == _queue(b):
        used, used_too = (
            local_queue_usage.get(f"{a.namespace}/{a.queue_name}"),
            local_queue_usage.get(f"{b.namespace}/{b.queue_name}"),
        )
        if used is not None and used_too is not None and used != used_too:
            return -1 if used > used_too else 1
    mine, yours = _age(a), _age(b)
    return -1 if mine < yours else int(mine > yours)


def _rank(one: Workload, queue: str) -> tuple[bool, bool]:
    return one.eviction is None, _queue(one) == queue


def _age(one: Workload) -> tuple[int, float, str]:
    return one.priority, 0.0 if one.admission is None else -one.admission.reserved_at, one.uid


def _queue(one: Workload) -> str:
    return "" if one.admission is None else one.admission.cluster_queue
