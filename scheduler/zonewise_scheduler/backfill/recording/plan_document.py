"""Plans as JSON, for recording and comparison: the same decisions give the same document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.recording.documents import json_document

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.recording.documents import Json
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.quota.api.workload_types import Workload


def plan_document(plan: Plan) -> dict[str, Json]:
    """Return the decisions of a plan: admissions with flavors and placements, victims, stops and reservations."""
    return {
        "admitted": [_admission(workload) for workload in plan.admitted],
        "placed": [_admission(workload) for workload in plan.placed],
        "victims": [
            {"key": victim.workload.key, "preemptor": victim.preemptor.key, "reason": victim.reason}
            for victim in plan.victims
        ],
        "stopped": [{"key": order.workload.key, "reason": order.reason} for order in plan.stopped],
        "reserved": [
            {"key": reservation.workload.key, "start": json_document(reservation.start)}
            for reservation in plan.reserved
        ],
        "wakeAt": json_document(plan.wake_at),
    }


def _admission(workload: Workload) -> Json:
    admission = workload.admission
    if admission is None:
        return {"key": workload.key}
    pod_sets: list[Json] = []
    for pod_set in admission.pod_sets:
        placement = pod_set.topology_assignment
        pod_sets.append(
            {
                "name": pod_set.name,
                "pods": pod_set.pods,
                "flavors": dict(pod_set.flavors),
                "domains": None if placement is None else json_document(placement.domains),
            }
        )
    return {"key": workload.key, "clusterQueue": admission.cluster_queue, "podSets": pod_sets}
