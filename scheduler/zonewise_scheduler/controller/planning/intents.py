"""Intents: decisions of the planner that have still to be written to their Workloads.

An intent is lost by a restart. Then the planner starts from objects that do not show it, and decides again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.quota.api.workload_types import Workload


class AdmitIntent(NamedTuple):
    """A workload is admitted, or the pods of one that has quota are placed."""

    workload: Workload
    """With its admission."""
    has_quota: bool = False
    """Whether it had its quota before."""
    generation: int = 0
    """Of the object that was decided about."""


class EvictIntent(NamedTuple):
    """A workload that has quota is to stop."""

    reason: str
    """Of the condition Evicted: "Preempted", "ClusterQueueStopped", ..."""
    message: str
    preemption_reason: str = ""
    """Of the condition Preempted: "InClusterQueue", ...; "": no other workload preempts it."""


Intent = AdmitIntent | EvictIntent


def intents_of(plan: Plan) -> Iterator[tuple[str, Intent]]:
    """Yield what a plan has decided, by the key of the workload."""
    for workload in plan.admitted:
        yield workload.key, AdmitIntent(workload)
    for workload in plan.placed:
        yield workload.key, AdmitIntent(workload, has_quota=True)
    for victim in plan.victims:
        preemptor = victim.preemptor
        message = f"Preempted to accommodate a workload (UID: {preemptor.uid}) due to {victim.reason}"
        yield victim.workload.key, EvictIntent("Preempted", message, victim.reason)
    for order in plan.stopped:
        yield order.workload.key, EvictIntent(order.reason, f"Evicted: {order.reason}")
