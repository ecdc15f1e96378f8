"""Places for the pods of an assignment, where they are to be placed in topologies (tas_flavorassigner.go)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorStatus
from zonewise_scheduler.quota.flavorassigner.delayed_topology import is_topology_request_delayed
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import PodSet
    from zonewise_scheduler.quota.flavorassigner.assignment import PodSetAssignment
    from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyAssignments


def update_assignment_for_tas(assigner: FlavorAssigner, assignment: Assignment) -> Assignment:
    """Return an assignment with places, or with what is in the way of them.

    Where there is quota but no place, others would have to give way; where there would be no place in an empty cluster
    either, it does not fit. Nobody gives way to pods that move from a failed node.
    """
    assignment = _with_wishes(assigner, assignment)
    if not assignment.placement_requests:
        return assignment
    find, wishes = assigner.snapshot.tas_snapshot.find_topology_assignments, assignment.placement_requests
    if assignment.representative_mode == FlavorAssignmentMode.FIT:
        found = find(assigner.workload, wishes, empty=False)
        if not isinstance(found, TopologyPlacementFailure):
            return update_for_tas_result(assignment, found)
        problem = FlavorStatus("InUse", found.flavor, message=found.reason)
        mode = (
            FlavorAssignmentMode.NO_FIT
            if assigner.snapshot.tas_snapshot.pod_sets_on_unhealthy_nodes(assigner.workload)
            else FlavorAssignmentMode.PREEMPT
        )
        assignment = _hindered(assignment, found.pod_set, mode, problem)
    if assignment.representative_mode == FlavorAssignmentMode.PREEMPT:
        found = find(assigner.workload, wishes, empty=True)
        if isinstance(found, TopologyPlacementFailure):
            problem = FlavorStatus("TopologyPlacementFailed", found.flavor, message=found.reason)
            return _hindered(assignment, found.pod_set, FlavorAssignmentMode.NO_FIT, problem)
        for name in {wish.pod_set.name for each in wishes.values() for wish in each}:
            assignment = _hindered(assignment, name, FlavorAssignmentMode.PREEMPT, None)
    return assignment


def update_for_tas_result(assignment: Assignment, result: TopologyAssignments) -> Assignment:
    """Return an assignment with the places that were found for it."""
    pods = (
        replace(
            one,
            topology_assignment=result[one.name],
            delayed_topology_request="Ready" if one.delayed_topology_request else "",
        )
        if one.name in result
        else one
        for one in assignment.pod_sets
    )
    return replace(assignment, pod_sets=tuple(pods))


def _with_wishes(request: FlavorAssigner, assignment: Assignment) -> Assignment:
    """Find which pods are to be placed where; a pod set with no flavor to be placed in, or with two, is an error.

    Those that have their places keep them, but for those on failed nodes; some are to be placed later.
    """
    workload = request.workload
    if not workload.admitted_pod_sets and not any(_is_placed(request, spec) for spec in workload.pod_sets):
        return assignment
    wishes: dict[str, list[PlacementRequest]] = {}
    pods: list[PodSetAssignment] = []
    broken = request.snapshot.tas_snapshot.pod_sets_on_unhealthy_nodes(workload)
    for spec, given in zip(request.workload.pod_sets, assignment.pod_sets, strict=True):
        one = _as_held(request, given)
        names = sorted(
            {choice.name for choice in one.flavors.values() if request.snapshot.tas_snapshot.has_topology(choice.name)}
        )
        kept = one.topology_assignment is not None and (one.name not in broken or request.workload.owned_by_single_pod)
        if not _is_placed(request, spec) or not one.pods or kept:
            pods.append(one)
        elif len(names) == 1 and is_topology_request_delayed(request.queue.spec, names[0], request.workload):
            pods.append(replace(one, delayed_topology_request="Pending"))
        elif len(names) == 1:
            pods.append(one)
            wishes.setdefault(names[0], []).append(PlacementRequest(spec, one.pods, names[0]))
        else:
            problem = f"flavors with different topologies: {', '.join(names)}" if names else "no flavor with a topology"
            pods.append(replace(one, error=problem))
    return replace(assignment, pod_sets=tuple(pods), placement_requests=wishes)


def _as_held(request: FlavorAssigner, one: PodSetAssignment) -> PodSetAssignment:
    """Return an assignment with the pods that have their quota, which may be fewer, and the places of those that do.

    workload.go totalRequestsFromAdmission.
    """
    held = request.workload.admitted_pod_sets.get(one.name)
    if held is None:
        return one
    return replace(
        one,
        pods=held.pods,
        requests=held.usage,
        topology_assignment=held.topology_assignment,
        delayed_topology_request=held.delayed_topology_request,
    )


def _is_placed(request: FlavorAssigner, spec: PodSet) -> bool:
    return (spec.topology is not None and spec.topology.explicit) or request.is_tas_only


def _hindered(
    assignment: Assignment, name: str, mode: FlavorAssignmentMode, problem: FlavorStatus | None
) -> Assignment:
    """Return an assignment with another mode for a pod set's flavors, and for its attempt at the hindrance's flavor."""
    return replace(
        assignment,
        pod_sets=tuple(_hinder(one, mode, problem) if one.name == name else one for one in assignment.pod_sets),
    )


def _hinder(pods: PodSetAssignment, mode: FlavorAssignmentMode, problem: FlavorStatus | None) -> PodSetAssignment:
    flavors = {resource: choice._replace(mode=mode) for resource, choice in pods.flavors.items()}
    if problem is None:
        return replace(pods, flavors=flavors)
    attempts = tuple(
        one._replace(mode=mode, statuses=(problem,)) if one.flavor == problem.flavor else one
        for one in pods.considered_flavors
    )
    return replace(pods, flavors=flavors, statuses=(*pods.statuses, problem), considered_flavors=attempts)
