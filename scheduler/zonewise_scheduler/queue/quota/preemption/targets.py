"""Who is to give way to a workload, and whether anyone could for one resource of a flavor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from zonewise_scheduler.queue.quota.preemption.classical import classical_targets
from zonewise_scheduler.queue.quota.preemption.fair import fair_targets
from zonewise_scheduler.queue.quota.preemption.values import Ask
from zonewise_scheduler.queue.quota.tree.node import borrowing_height

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
    from zonewise_scheduler.queue.quota.model.workload import Settings, Workload
    from zonewise_scheduler.queue.quota.preemption.values import Target
    from zonewise_scheduler.queue.quota.tree.node import QueueNode
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

Possibility = Literal["NoCandidates", "Preempt", "Reclaim"]
"""Reclaim: all that would give way are of other queues."""


class Oracle(Protocol):
    """What foretells a preemption."""

    def __call__(
        self, queue: QueueNode, workload: Workload, key: FlavorResource, amount: int, /
    ) -> tuple[Possibility, int]:
        """Tell whether room can be made for an amount, and from how far it is then borrowed (a height, 0: not)."""
        ...


def find_targets(ask: Ask) -> tuple[Target, ...]:
    """Return who is to give way; none where nobody may, or that does not help. The snapshot is as before."""
    return fair_targets(ask) if ask.settings.fair_sharing else classical_targets(ask)


def oracle(snapshot: Snapshot, settings: Settings) -> Oracle:
    """Return what foretells preemptions in a snapshot (preemption_oracle.go)."""

    def foretell(queue: QueueNode, workload: Workload, key: FlavorResource, amount: int) -> tuple[Possibility, int]:
        targets = find_targets(Ask(snapshot, workload, queue, {key: amount}, frozenset([key]), settings))
        if not targets:
            return "NoCandidates", borrowing_height(queue, key, amount)[0]
        with snapshot.without(one.workload for one in targets):
            height = borrowing_height(queue, key, amount)[0]
        within = any(snapshot.queue_of(one.workload) is queue for one in targets)
        return "Preempt" if within else "Reclaim", height

    return foretell


def nobody(
    queue: QueueNode,
    workload: Workload,  # noqa: ARG001 -- an Oracle
    key: FlavorResource,
    amount: int,
) -> tuple[Possibility, int]:
    """Foretell that nobody gives way."""
    return "NoCandidates", borrowing_height(queue, key, amount)[0]
