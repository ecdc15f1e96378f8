"""Workloads that a stopped queue has evicted, and whether their queues admit again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.backfill.state.planner_state import PlannerState

RESTARTS = {
    "ClusterQueueStopped": ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    "LocalQueueStopped": ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
}
"""Reason and message of the condition Requeued after a restart, by the reason of the eviction
(pkg/controller/core/workload_controller.go Reconcile)."""


def keys_after_stops(state: PlannerState) -> Iterator[str]:
    """Yield the keys of the pending workloads that a stopped queue has evicted."""
    for key in state.pending:
        workload = state.pending_workload(key)
        if workload is not None and workload.eviction is not None and workload.eviction.reason in RESTARTS:
            yield key


def is_queue_open(state: PlannerState, key: str) -> bool:
    """Return whether a workload is pending or just admitted, in a ClusterQueue that is not stopped."""
    run = state.running.get(key)
    if run is not None:
        return state.snapshot.cluster_queue_of(run.workload).spec.stop_policy == "None"
    return key in state.pending and state.snapshot.cluster_queues[state.pending[key]].spec.stop_policy == "None"
