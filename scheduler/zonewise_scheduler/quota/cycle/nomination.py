"""What a head could have now: its flavors, and who would have to give way (scheduler.go getInitialAssignments)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import assign_flavors
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.flavorassigner.podset_reducer import search_pod_counts
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import update_for_tas_result
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext
from zonewise_scheduler.quota.preemption.preemption_oracle import get_targets, new_oracle, no_candidates_oracle

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_context import Target

Nomination = tuple["Assignment", tuple["Target", ...]]


def flavor_assigner(snapshot: Snapshot, head: Head, settings: QuotaSettings) -> FlavorAssigner:
    """Return the request for a head's flavors."""
    queue = snapshot.cluster_queues[head.cluster_queue]
    return FlavorAssigner(
        snapshot, head.workload, queue, new_oracle(snapshot, settings), settings, head.last_assignment
    )


def nominate(assigner: FlavorAssigner) -> Nomination:
    """Return the flavors that a workload could have, and who would have to give way.

    All its pods, by preemption too, before fewer of them. Where nothing helps, what is in the way of all of them. While
    it waits it keeps the places where its pods will go: those who give way gone, or if nobody does, all.
    """
    full = assign_flavors(assigner)
    found = _helped(assigner, full)
    if found is None and assigner.settings.partial_admission and assigner.workload.admission is None:
        found = search_pod_counts(
            assigner.workload.pod_sets, lambda counts: _helped(assigner, assign_flavors(assigner, counts))
        )
    assignment, targets = (full, ()) if found is None else found
    return _with_places_ahead(assigner, assignment, targets), targets


def assign_without_preemption(snapshot: Snapshot, head: Head, settings: QuotaSettings) -> Assignment | None:
    """Return what a head could have with nobody giving way, for all its pods or fewer; None: it does not fit."""
    request = FlavorAssigner(
        snapshot, head.workload, snapshot.cluster_queues[head.cluster_queue], no_candidates_oracle, settings
    )

    def fit(counts: tuple[int, ...] | None = None) -> Assignment | None:
        found = assign_flavors(request, counts)
        return found if found.representative_mode == FlavorAssignmentMode.FIT else None

    full = fit()
    if full is not None or not settings.partial_admission or head.workload.admission is not None:
        return full
    return search_pod_counts(head.workload.pod_sets, fit)


def _with_places_ahead(request: FlavorAssigner, assignment: Assignment, targets: tuple[Target, ...]) -> Assignment:
    """Return an assignment that waits for others to give way with the places that are then free."""
    if assignment.representative_mode != FlavorAssignmentMode.PREEMPT or not assignment.placement_requests:
        return assignment
    with request.snapshot.simulate_workload_removal(one.workload for one in targets):
        found = request.snapshot.tas_snapshot.find_topology_assignments(
            request.workload, assignment.placement_requests, empty=not targets
        )
    return assignment if isinstance(found, TopologyPlacementFailure) else update_for_tas_result(assignment, found)


def pin_flavors(assigner: FlavorAssigner, assignment: Assignment) -> FlavorAssigner:
    """Return the request for no other flavors than those of an assignment, from the first on."""
    flavors = {
        pods.name: {resource: choice.name for resource, choice in pods.flavors.items()} for pods in assignment.pod_sets
    }
    return replace(assigner, nomination_mapping=flavors)


def _helped(request: FlavorAssigner, assignment: Assignment) -> Nomination | None:
    """Return it with those who give way; None where it does not fit and nobody may be made to."""
    if assignment.representative_mode == FlavorAssignmentMode.FIT:
        return assignment, ()
    if assignment.representative_mode != FlavorAssignmentMode.PREEMPT:
        return None
    targets = get_targets(
        PreemptionContext(
            request.snapshot,
            request.workload,
            request.queue,
            assignment.nonzero_usage if request.workload.admission is None else {},
            assignment.frs_need_preemption,
            request.settings,
            assignment.placement_requests,
        )
    )
    return (assignment, targets) if targets else None
