"""Finds placements for the pods of an assignment (pkg/scheduler/flavorassigner/tas_flavorassigner.go).

Some placements are decided only after the quota is reserved: see is_topology_request_delayed and needs_second_pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorStatus
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import PodSetAssignment
    from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyAssignments, TopologySnapshot
    from zonewise_scheduler.quota.topology.types import TopologyAssignment

PROVISIONING_REQUEST_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
"""The controller of admission checks that pass once nodes have been provisioned."""

MULTIKUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"
"""The controller of admission checks that find another cluster, which then places the pods."""


def update_assignment_for_tas(assigner: FlavorAssigner, assignment: Assignment) -> Assignment:
    """Return an assignment with placements, or with the reason why there are none.

    If there is quota but no placement, a preemption is needed. If not even an empty cluster has a placement, the
    workload does not fit. Pods that leave an unhealthy node do not preempt.
    """
    assignment = _with_placement_requests(assigner, assignment)
    if not assignment.placement_requests:
        return assignment
    tas_snapshot, requests = assigner.snapshot.tas_snapshot, assignment.placement_requests
    if assignment.representative_mode is FlavorAssignmentMode.FIT:
        result = tas_snapshot.find_topology_assignments(assigner.workload, requests, empty=False)
        if not isinstance(result, TopologyPlacementFailure):
            return update_for_tas_result(assignment, result)
        status = FlavorStatus("InUse", result.flavor, message=result.reason)
        moves = bool(tas_snapshot.pod_sets_on_unhealthy_nodes(assigner.workload))
        mode = FlavorAssignmentMode.NO_FIT if moves else FlavorAssignmentMode.PREEMPT
        assignment = _update_mode(assignment, result.pod_set, mode, status)
    if assignment.representative_mode is FlavorAssignmentMode.PREEMPT:
        result = tas_snapshot.find_topology_assignments(assigner.workload, requests, empty=True)
        if isinstance(result, TopologyPlacementFailure):
            status = FlavorStatus("TopologyPlacementFailed", result.flavor, message=result.reason)
            return _update_mode(assignment, result.pod_set, FlavorAssignmentMode.NO_FIT, status)
        for name in {request.pod_set.name for by_flavor in requests.values() for request in by_flavor}:
            assignment = _update_mode(assignment, name, FlavorAssignmentMode.PREEMPT, None)
    return assignment


def update_for_tas_result(assignment: Assignment, result: TopologyAssignments) -> Assignment:
    """Return an assignment with the placements of a result."""
    pod_sets = (
        replace(
            pod_set,
            topology_assignment=result[pod_set.name],
            delayed_topology_request="Ready" if pod_set.delayed_topology_request else "",
        )
        if pod_set.name in result
        else pod_set
        for pod_set in assignment.pod_sets
    )
    return replace(assignment, pod_sets=tuple(pod_sets))


def is_topology_request_delayed(spec: ClusterQueue, flavor: str, workload: Workload) -> bool:
    """Return whether pods with this flavor are placed only later."""
    for check in spec.admission_checks:
        if check.controller_name == MULTIKUEUE_CONTROLLER:
            return True
        if (
            check.controller_name == PROVISIONING_REQUEST_CONTROLLER
            and (not check.on_flavors or flavor in check.on_flavors)
            and workload.admission is None
        ):
            return True
    return False


def needs_second_pass(workload: Workload, tas_snapshot: TopologySnapshot) -> bool:
    """Return whether a workload with quota must be a head again for its placement (workload.go NeedsSecondPass).

    The caller must wait until its admission checks have passed.
    """
    if workload.admission is None or workload.eviction is not None:
        return False
    pending = any(
        pod_set.delayed_topology_request == "Pending" and pod_set.topology_assignment is None
        for pod_set in workload.admission.pod_sets
    )
    return pending or bool(tas_snapshot.pod_sets_on_unhealthy_nodes(workload))


def _with_placement_requests(assigner: FlavorAssigner, assignment: Assignment) -> Assignment:
    """Return an assignment with the pods to place now.

    It is an error if a pod set has no flavor with a topology, or flavors with different topologies. Pod sets keep an
    existing placement, unless they are on unhealthy nodes. Some pod sets are placed later.
    """
    workload, tas_snapshot = assigner.workload, assigner.snapshot.tas_snapshot
    if not any(_needs_placement(assigner, spec) for spec in workload.pod_sets):
        return assignment
    requests: dict[str, list[PlacementRequest]] = {}
    pod_sets: list[PodSetAssignment] = []
    unhealthy = tas_snapshot.pod_sets_on_unhealthy_nodes(workload)
    for spec, pod_set in zip(workload.pod_sets, assignment.pod_sets, strict=True):
        names = sorted({flavor.name for flavor in pod_set.flavors.values() if tas_snapshot.has_topology(flavor.name)})
        keeps_placement = pod_set.topology_assignment is not None and (
            pod_set.name not in unhealthy or workload.owned_by_single_pod
        )
        if not _needs_placement(assigner, spec) or not pod_set.pods or keeps_placement:
            pod_sets.append(pod_set)
            continue
        previous = _previous_assignment(assigner, spec.name)
        match names:
            case [flavor] if is_topology_request_delayed(assigner.queue.spec, flavor, workload):
                pod_sets.append(replace(pod_set, delayed_topology_request="Pending"))
            case [_] if previous is not None and _names_level(spec):
                pod_sets.append(replace(pod_set, error="a job that grows can keep no required or preferred level"))
            case [flavor]:
                pod_sets.append(pod_set)
                requests.setdefault(flavor, []).append(PlacementRequest(spec, pod_set.pods, flavor, previous))
            case []:
                pod_sets.append(replace(pod_set, error="no flavor with a topology"))
            case _:
                problem = f"flavors with different topologies: {', '.join(names)}"
                pod_sets.append(replace(pod_set, error=problem))
    return replace(assignment, pod_sets=tuple(pod_sets), placement_requests=requests)


def _previous_assignment(assigner: FlavorAssigner, pod_set: str) -> TopologyAssignment | None:
    """Return where the pods of the replaced slice run (getPreviousTopologyAssignment); None: nowhere."""
    replaced = assigner.replace_workload_slice
    admitted = None if replaced is None else replaced.admitted_pod_sets.get(pod_set)
    return None if admitted is None else admitted.topology_assignment


def _names_level(spec: PodSet) -> bool:
    """Return whether all pods must, or should, be in one domain. The search for more pods does not see the others."""
    return spec.topology is not None and bool(spec.topology.request.required or spec.topology.request.preferred)


def _needs_placement(assigner: FlavorAssigner, spec: PodSet) -> bool:
    return (spec.topology is not None and spec.topology.explicit) or assigner.is_tas_only


def _update_mode(
    assignment: Assignment, name: str, mode: FlavorAssignmentMode, status: FlavorStatus | None
) -> Assignment:
    """Return an assignment with another mode for the flavors of one pod set."""
    pod_sets = (
        _with_mode(pod_set, mode, status) if pod_set.name == name else pod_set for pod_set in assignment.pod_sets
    )
    return replace(assignment, pod_sets=tuple(pod_sets))


def _with_mode(pod_set: PodSetAssignment, mode: FlavorAssignmentMode, status: FlavorStatus | None) -> PodSetAssignment:
    flavors = {resource: flavor._replace(mode=mode) for resource, flavor in pod_set.flavors.items()}
    if status is None:
        return replace(pod_set, flavors=flavors)
    considered_flavors = tuple(
        considered._replace(mode=mode, statuses=(status,)) if considered.flavor == status.flavor else considered
        for considered in pod_set.considered_flavors
    )
    return replace(
        pod_set, flavors=flavors, statuses=(*pod_set.statuses, status), considered_flavors=considered_flavors
    )
