"""A planner's admission as status.admission of a Workload (apis/kueue/v1beta2/workload_types.go Admission)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import amount_text
from zonewise_scheduler.quota.topology.assignment_writer import write_topology_assignment

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission


def write_admission(admission: Admission) -> Json:
    """Return the admission as decoded JSON, without its times and checks: they are conditions of the Workload."""
    return {
        "clusterQueue": admission.cluster_queue,
        "podSetAssignments": [_pod_set_assignment(pod_set) for pod_set in admission.pod_sets],
    }


def _pod_set_assignment(pod_set: PodSetAdmission) -> Json:
    assignment: Json = {
        "name": pod_set.name,
        "flavors": dict(pod_set.flavors),
        "resourceUsage": {name: amount_text(name, amount) for name, amount in pod_set.usage.items()},
        "count": pod_set.pods,
    }
    if pod_set.topology_assignment is not None:
        assignment["topologyAssignment"] = write_topology_assignment(pod_set.topology_assignment)
    if pod_set.delayed_topology_request:
        assignment["delayedTopologyRequest"] = pod_set.delayed_topology_request
    return assignment
