"""Elastic workloads: pods of the previous workload slice keep their leaves when the pod count changes.

pkg/cache/scheduler/tas_elastic_workloads.go; KEP-77.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.tas.placement.pod_set_group import PodSetGroup, find_topology_assignment
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.tas_usage import with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import merge_topology_assignments, truncate_assignment

if TYPE_CHECKING:
    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree
    from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests


def handle_elastic_workload(
    snapshot: TASFlavorSnapshot, group: PodSetGroup, assumed_usage: TASUsage, gates: TASFeatureGates
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure | None:
    """Return the previous assignments, truncated or extended to the new pod count, or why they cannot be extended.

    None: all pods need a new assignment, because the previous one is absent or contains a stale domain. Neither the
    snapshot nor the assumed usage may contain the usage of the previous slice.
    """
    tree, workers, leader = snapshot.tree, group.workers, group.leader
    previous = workers.previous_assignment
    if previous is None or _has_stale_domain(tree, workers) or (leader is not None and _has_stale_domain(tree, leader)):
        return None
    retained = {workers.name: truncate_assignment(previous, workers.pod_count)}
    if leader is not None and leader.previous_assignment is not None:
        retained[leader.name] = leader.previous_assignment
    delta = workers._replace(pod_count=max(workers.pod_count - previous.pod_count, 0))
    unassigned = [pod_set for pod_set in group.pod_sets if pod_set.name not in retained]
    if not delta.pod_count and not unassigned:
        return retained
    usage = assumed_usage
    for pod_set in group.pod_sets:
        if pod_set.name in retained:
            usage = with_assignment_usage(tree, usage, retained[pod_set.name], pod_set.single_pod_requests)
    result = find_topology_assignment(snapshot, PodSetGroup(delta, *unassigned), usage, gates)
    if isinstance(result, TopologyAssignmentFailure):
        return result
    merged = merge_topology_assignments(tree, result[delta.name], retained[delta.name])
    return result | retained | {delta.name: merged}


def _has_stale_domain(tree: TopologyTree, pod_set: TASPodSetRequests) -> bool:
    return pod_set.previous_assignment is not None and bool(tree.stale_domain(pod_set.previous_assignment))
