"""A workload that grows or shrinks while it runs: pods that run stay where they are.

pkg/cache/scheduler/tas_elastic_workloads.go; KEP-77.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.tas.placement.pod_set_group import PodSetGroup, find_topology_assignment
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.tas_usage import with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import merge_topology_assignments, truncate_assignment

if TYPE_CHECKING:
    from zonewise_scheduler.quota.topology.types import TASFeatureGates, TASPodSetRequests, TopologyAssignment
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage


def handle_elastic_workload(
    snapshot: TASFlavorSnapshot, group: PodSetGroup, assumed_usage: TASUsage, gates: TASFeatureGates
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure | None:
    """Return where the pods are: those of the slice before, without its last ones or with further ones beside them.

    None where there is no slice before, or any of its domains is no more: all pods are to be placed then. What the
    slice before uses is no part of the supply or of what is assumed.
    """
    before = group.workers.previous_assignment
    leader = group.leader
    if before is None or _stale(snapshot, group.workers) or (leader is not None and _stale(snapshot, leader)):
        return None
    kept = {group.workers.name: truncate_assignment(before, group.workers.pod_count)}
    if leader is not None and leader.previous_assignment is not None:
        kept[leader.name] = leader.previous_assignment
    further = group.workers._replace(pod_count=max(group.workers.pod_count - before.pod_count, 0))
    missing = [one for one in group.pod_sets if one.name not in kept]
    if not further.pod_count and not missing:
        return kept
    usage = assumed_usage
    for one in group.pod_sets:
        usage = (
            with_assignment_usage(snapshot.tree, usage, kept[one.name], one.single_pod_requests)
            if one.name in kept
            else usage
        )
    found = find_topology_assignment(snapshot, PodSetGroup(further, *missing), usage, gates)
    if isinstance(found, TopologyAssignmentFailure):
        return found
    return (
        found
        | kept
        | {further.name: merge_topology_assignments(snapshot.tree, found[further.name], kept[further.name])}
    )


def _stale(supply: TASFlavorSnapshot, pods: TASPodSetRequests) -> bool:
    return pods.previous_assignment is not None and bool(supply.tree.stale_domain(pods.previous_assignment))
