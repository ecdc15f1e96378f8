"""Who may be preempted by whom, and who first (pkg/scheduler/preemption/common)."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.queue.quota.model.queues import PreemptionPolicy
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.preemption.values import Ask
    from zonewise_scheduler.queue.quota.tree.node import QueueNode


def preemptible(ask: Ask, queue: QueueNode) -> list[Workload]:
    """Return those of a queue that its policy lets give way, and have something of what is contested."""
    rules = ask.queue.spec.preemption
    policy = rules.within if queue is ask.queue else rules.reclaim
    if policy == "Never":
        return []
    forbidden = ask.snapshot.yielded.forbidden(ask.workload.key)
    return [
        one
        for key, one in ask.snapshot.running[queue.name].items()
        if not one.flavor_resources.isdisjoint(ask.contested)
        and allows(policy, ask.workload, one, from_timeout=ask.settings.from_timeout)
        and key not in forbidden
    ]


def allows(policy: PreemptionPolicy, preemptor: Workload, candidate: Workload, *, from_timeout: bool = True) -> bool:
    """Tell whether a policy lets a workload preempt another."""
    lower = preemptor.priority > candidate.priority
    match policy:
        case "Any":
            return True
        case "LowerPriority":
            return lower
        case "LowerOrNewerEqualPriority":
            newer = preemptor.queued_at(from_timeout=from_timeout) < candidate.queued_at(from_timeout=from_timeout)
            return lower or (preemptor.priority == candidate.priority and newer)
        case "Never" | "":
            return False


def in_order(candidates: Iterable[Workload], queue: str, usages: Mapping[str, float]) -> list[Workload]:
    """Return running workloads in the order in which a workload of `queue` preempts them.

    Those evicted already, those of other queues, those of the LocalQueue with more usage (of one queue, where its
    `usages` are known, by key), of lower priority, admitted later, and then by UID.
    """
    if not usages:
        return sorted(candidates, key=lambda one: (_rank(one, queue), _age(one)))
    return sorted(candidates, key=cmp_to_key(lambda one, other: compare(one, other, queue, usages)))


def compare(one: Workload, other: Workload, queue: str, usages: Mapping[str, float]) -> int:
    """Return a negative number where `one` goes first: see in_order."""
    mine, yours = _rank(one, queue), _rank(other, queue)
    if mine != yours:
        return -1 if mine < yours else 1
    if usages and _queue(one) == _queue(other):
        used, used_too = usages.get(f"{one.namespace}/{one.queue}"), usages.get(f"{other.namespace}/{other.queue}")
        if used is not None and used_too is not None and used != used_too:
            return -1 if used > used_too else 1
    mine, yours = _age(one), _age(other)
    return -1 if mine < yours else int(mine > yours)


def _rank(one: Workload, queue: str) -> tuple[bool, bool]:
    return one.eviction is None, _queue(one) == queue


def _age(one: Workload) -> tuple[int, float, str]:
    return one.priority, 0.0 if one.admission is None else -one.admission.at, one.uid


def _queue(one: Workload) -> str:
    return "" if one.admission is None else one.admission.cluster_queue
