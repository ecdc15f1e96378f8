"""The messages of evictions: the preemptor and the reason of a preemption, or why the planner stops a workload.

Kueue's guides find the preemptor by the JobUID of the message. Names of other namespaces stay secret. Source:
pkg/scheduler/preemption/preemption.go preemptionMessage, buildCQPath; pkg/controller/core/workload_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.types import StopOrder, Victim
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot

_UNKNOWN = "UNKNOWN"
_PREEMPTION_REASONS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}


def preemption_message(
    victim: Victim, job_uid: str, queue: str, cluster_queues: Mapping[str, ClusterQueueSnapshot]
) -> str:
    """Return why a workload is preempted. `job_uid`: UID of the preemptor's job; `queue`: its ClusterQueue."""
    admission = victim.workload.admission
    paths = [_path(name, cluster_queues) for name in (queue, admission.cluster_queue if admission else "")]
    return (
        f"Preempted to accommodate a workload (UID: {victim.preemptor.uid or _UNKNOWN}, JobUID: {job_uid or _UNKNOWN}) "
        f"due to {_PREEMPTION_REASONS[victim.reason]}; preemptor path: {paths[0]}; preemptee path: {paths[1]}"
    )


def stop_message(order: StopOrder) -> str:
    """Return why the planner stops a workload that no other one preempts."""
    if order.reason == "NodeFailures":
        return f"Nodes failed and no replacement was found: {', '.join(order.workload.unhealthy_nodes)}"
    return {
        "ClusterQueueStopped": "The ClusterQueue is stopped",
        "LocalQueueStopped": "The LocalQueue is stopped",
        "Deactivated": "The workload is deactivated",
        "AdmissionCheck": "An admission check has failed",
    }[order.reason]


def _path(name: str, cluster_queues: Mapping[str, ClusterQueueSnapshot]) -> str:
    """Return the path of a ClusterQueue from its root cohort, such as "/root/team/queue"."""
    node = cluster_queues.get(name)
    if node is None:
        return _UNKNOWN
    return "/" + "/".join(reversed([name, *(cohort.name for cohort in node.path_parent_to_root())]))
