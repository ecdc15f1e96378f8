"""Which workloads a policy allows a preemptor to preempt, and in which order (pkg/scheduler/preemption/common)."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.quota.api.queue_types import PreemptionPolicy
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

CandidateKey = tuple[tuple[bool, bool], tuple[int, float, str]]
"""Whether a candidate is not evicted and whether it is in the preemptor's queue; its priority, admission time and
UID."""
Key = TypeVar("Key", float, CandidateKey)


def find_candidates_for_policy(context: PreemptionContext, queue: ClusterQueueSnapshot) -> list[Workload]:
    """Return a queue's workloads that use a contested flavor resource and that the preemptor may preempt.

    Workloads that the preemption graph or the planner protects are left out, and so is the slice that the preemptor
    replaces. Upstream: preemption.go findCandidatesForPolicy.
    """
    preemption = context.preemptor_cq.spec.preemption
    within_queue = queue is context.preemptor_cq
    policy = preemption.within_cluster_queue if within_queue else preemption.reclaim_within_cohort
    if policy in {"Never", ""}:
        return []
    forbidden = context.snapshot.preemption_graph.forbidden(context.preemptor.key) | context.snapshot.not_preempted
    from_eviction = context.settings.requeue_from_eviction
    return [
        workload
        for key, workload in context.snapshot.workloads_by_queue[queue.name].items()
        if not workload.flavor_resources.isdisjoint(context.frs_need_preemption)
        and satisfies_preemption_policy(policy, context.preemptor, workload, requeue_from_eviction=from_eviction)
        and key not in forbidden
        and key != context.preemptor.replaces
    ]


def satisfies_preemption_policy(
    policy: PreemptionPolicy, preemptor: Workload, candidate: Workload, *, requeue_from_eviction: bool = True
) -> bool:
    """Return whether a policy allows a workload to preempt a candidate."""
    match policy:
        case "Any":
            return True
        case "LowerPriority":
            return candidate.priority < preemptor.priority
        case "LowerOrNewerEqualPriority":
            age, candidate_age = (
                -workload.queue_order_timestamp(requeue_from_eviction=requeue_from_eviction)
                for workload in (preemptor, candidate)
            )
            return (candidate.priority, candidate_age) < (preemptor.priority, age)
        case "Never" | "":
            return False


def sort_candidates(
    candidates: Iterable[Workload], queue: str, local_queue_usage: Mapping[str, float]
) -> list[Workload]:
    """Return running workloads in the order in which a workload of `queue` should preempt them (CandidatesOrdering).

    Workloads that are already evicted come first. Then the order prefers those of other queues, of a LocalQueue with
    more usage, of lower priority, and admitted later; the UID breaks ties. LocalQueue usage (`local_queue_usage`, by
    key) counts only within one queue.
    """
    if not local_queue_usage:
        return sorted(candidates, key=lambda candidate: candidate_key(candidate, queue))
    return sorted(candidates, key=cmp_to_key(lambda a, b: candidates_ordering(a, b, queue, local_queue_usage)))


def candidate_key(workload: Workload, queue: str) -> CandidateKey:
    """Return the sort key of sort_candidates for when usage does not count."""
    return _rank(workload, queue), _age(workload)


def candidates_ordering(a: Workload, b: Workload, queue: str, local_queue_usage: Mapping[str, float]) -> int:
    """Return a negative number if `a` is before `b`, a positive one if it is after `b`; see sort_candidates."""
    usage_a = local_queue_usage.get(a.local_queue_key)
    usage_b = local_queue_usage.get(b.local_queue_key)
    if (
        usage_a is not None
        and usage_b is not None
        and usage_a != usage_b
        and _cluster_queue(a) == _cluster_queue(b)
        and _rank(a, queue) == _rank(b, queue)
    ):
        return _compare(usage_b, usage_a)
    return _compare(candidate_key(a, queue), candidate_key(b, queue))


def _compare(a: Key, b: Key) -> int:
    return (a > b) - (a < b)


def _rank(workload: Workload, queue: str) -> tuple[bool, bool]:
    return workload.eviction is None, _cluster_queue(workload) == queue


def _age(workload: Workload) -> tuple[int, float, str]:
    return workload.priority, 0.0 if workload.admission is None else -workload.admission.reserved_at, workload.uid


def _cluster_queue(workload: Workload) -> str:
    return "" if workload.admission is None else workload.admission.cluster_queue
