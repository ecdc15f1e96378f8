"""Pending admission checks of workloads with quota, as their ClusterQueues currently require them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.backfill.state.planner_state import PlannerState


def keys_with_pending_checks(state: PlannerState) -> Iterator[str]:
    """Yield the keys of the workloads with quota that wait for a check."""
    for key, run in state.running.items():
        if run.workload.admission is not None and run.workload.admission.pending_checks:
            yield key


def checks_required(state: PlannerState, key: str) -> tuple[str, ...] | None:
    """Return the checks that a workload's ClusterQueue requires for its flavors; None: the workload has no quota."""
    run = state.running.get(key)
    if run is None or run.workload.admission is None:
        return None
    return admission_checks_for_workload(state.snapshot.cluster_queue_of(run.workload).spec, run.workload.admission)
