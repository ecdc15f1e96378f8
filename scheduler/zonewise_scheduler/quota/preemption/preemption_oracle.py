"""Finds the targets of a preemption, and whether a preemption could free one resource of a flavor.

pkg/scheduler/preemption/preemption.go GetTargets; preemption_oracle.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from zonewise_scheduler.quota.hierarchy.resource_node import find_height_of_lowest_subtree_that_fits
from zonewise_scheduler.quota.preemption.classical_preemption import classical_preemptions
from zonewise_scheduler.quota.preemption.fair_preemption import fair_preemptions
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_context import Target

PreemptionPossibility = Literal["NoCandidates", "Preempt", "Reclaim"]
"""Reclaim: all victims are in other ClusterQueues."""


class PreemptionOracle(Protocol):
    """A function that simulates a preemption."""

    def __call__(
        self, queue: ClusterQueueSnapshot, workload: Workload, key: FlavorResource, amount: int, /
    ) -> tuple[PreemptionPossibility, int]:
        """Return whether a preemption can free an amount, and the height at which it is then borrowed (or 0)."""
        ...


def get_targets(context: PreemptionContext) -> tuple[Target, ...]:
    """Return the victims; none if no workload may be preempted or no preemption helps. The snapshot does not change."""
    return fair_preemptions(context) if context.settings.fair_sharing else classical_preemptions(context)


def new_oracle(snapshot: Snapshot, settings: QuotaSettings) -> PreemptionOracle:
    """Return an oracle for a snapshot (SimulatePreemption)."""

    def simulate_preemption(
        queue: ClusterQueueSnapshot, workload: Workload, key: FlavorResource, amount: int
    ) -> tuple[PreemptionPossibility, int]:
        targets = get_targets(PreemptionContext(snapshot, workload, queue, {key: amount}, frozenset([key]), settings))
        if not targets:
            return "NoCandidates", find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
        with snapshot.simulate_workload_removal(target.workload for target in targets):
            height = find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
        within_queue = any(snapshot.cluster_queue_of(target.workload) is queue for target in targets)
        return "Preempt" if within_queue else "Reclaim", height

    return simulate_preemption


def no_candidates_oracle(
    queue: ClusterQueueSnapshot,
    workload: Workload,  # noqa: ARG001 -- a PreemptionOracle
    key: FlavorResource,
    amount: int,
) -> tuple[PreemptionPossibility, int]:
    """Report that no workload may be preempted."""
    return "NoCandidates", find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
