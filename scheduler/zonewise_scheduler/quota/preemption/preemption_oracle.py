"""Who is to give way to a workload, and whether anyone could for one resource of a flavor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from zonewise_scheduler.quota.hierarchy.resource_node import find_height_of_lowest_subtree_that_fits
from zonewise_scheduler.quota.preemption.classical_preemption import classical_preemptions
from zonewise_scheduler.quota.preemption.fair_preemption import fair_preemptions
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings, Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_context import Target

PreemptionPossibility = Literal["NoCandidates", "Preempt", "Reclaim"]
"""Reclaim: all that would give way are of other queues."""


class PreemptionOracle(Protocol):
    """What foretells a preemption."""

    def __call__(
        self, queue: ClusterQueueSnapshot, workload: Workload, key: FlavorResource, amount: int, /
    ) -> tuple[PreemptionPossibility, int]:
        """Tell whether room can be made for an amount, and from how far it is then borrowed (a height, 0: not)."""
        ...


def get_targets(context: PreemptionContext) -> tuple[Target, ...]:
    """Return who is to give way; none where nobody may, or that does not help. The snapshot is as before."""
    return fair_preemptions(context) if context.settings.fair_sharing else classical_preemptions(context)


def new_oracle(snapshot: Snapshot, settings: QuotaSettings) -> PreemptionOracle:
    """Return what foretells preemptions in a snapshot (preemption_oracle.go)."""

    def foretell(
        queue: ClusterQueueSnapshot, workload: Workload, key: FlavorResource, amount: int
    ) -> tuple[PreemptionPossibility, int]:
        targets = get_targets(PreemptionContext(snapshot, workload, queue, {key: amount}, frozenset([key]), settings))
        if not targets:
            return "NoCandidates", find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
        with snapshot.simulate_workload_removal(one.workload for one in targets):
            height = find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
        within = any(snapshot.cluster_queue_of(one.workload) is queue for one in targets)
        return "Preempt" if within else "Reclaim", height

    return foretell


def no_candidates_oracle(
    queue: ClusterQueueSnapshot,
    workload: Workload,  # noqa: ARG001 -- an Oracle
    key: FlavorResource,
    amount: int,
) -> tuple[PreemptionPossibility, int]:
    """Foretell that nobody gives way."""
    return "NoCandidates", find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
