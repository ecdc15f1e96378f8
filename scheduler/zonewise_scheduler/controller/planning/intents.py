"""Intents: decisions of the planner that are not yet written to their Workloads.

A restart loses the intents. The planner then starts from objects that do not show them, and decides again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.controller.planning.eviction_messages import stop_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise_scheduler.backfill.types import Plan, Victim
    from zonewise_scheduler.quota.api.workload_types import Workload


class AdmitIntent(NamedTuple):
    """A workload is to be admitted, or the pods of a workload with quota are to be placed."""

    workload: Workload
    """The workload, with its admission."""
    has_quota: bool = False
    """Whether the workload already had quota."""
    generation: int = 0
    """Generation of the object on which the decision is based."""


class EvictIntent(NamedTuple):
    """A workload with quota is to be stopped."""

    reason: str
    """Reason of the condition Evicted: "Preempted", "ClusterQueueStopped", ..."""
    message: str
    preemption_reason: str = ""
    """Reason of the condition Preempted: "InClusterQueue", ...; "": no other workload preempts it."""


Intent = AdmitIntent | EvictIntent


def intents_of(plan: Plan, explain: Callable[[Victim], str]) -> Iterator[tuple[str, Intent]]:
    """Yield the decisions of a plan, each with the key of the workload; `explain` returns why one is preempted."""
    for workload in plan.admitted:
        yield workload.key, AdmitIntent(workload)
    for workload in plan.placed:
        yield workload.key, AdmitIntent(workload, has_quota=True)
    for victim in plan.victims:
        yield victim.workload.key, EvictIntent("Preempted", explain(victim), victim.reason)
    for order in plan.stopped:
        yield order.workload.key, EvictIntent(order.reason, stop_message(order))
