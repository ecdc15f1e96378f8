"""Nomination: the flavors that a head could get now, and the victims for them (scheduler.go getInitialAssignments)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner, is_flavor_suitable
from zonewise_scheduler.quota.flavorassigner.flavorassigner import assign_flavors
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import update_for_tas_result
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext
from zonewise_scheduler.quota.preemption.preemption_oracle import get_targets, new_oracle, no_candidates_oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_context import Target

Nomination = tuple["Assignment", tuple["Target", ...]]
R = TypeVar("R")


def flavor_assigner(snapshot: Snapshot, head: Head, settings: QuotaSettings) -> FlavorAssigner:
    """Return the assigner for a head's flavors."""
    queue = snapshot.cluster_queues[head.cluster_queue]
    oracle = new_oracle(snapshot, settings)
    replaced = replaced_slice(snapshot, head)
    return FlavorAssigner(snapshot, head.workload, queue, oracle, settings, head.last_assignment, replaced)


def replaced_slice(snapshot: Snapshot, head: Head) -> Workload | None:
    """Return the running slice that a pending head replaces (workloadslicing.go ReplacedWorkloadSlice); None: none.

    A slice that is being evicted is not replaced: its pods stop, so the head starts its job anew.
    """
    key = head.workload.replaces
    if not key or head.workload.admission is not None:
        return None
    replaced = snapshot.workloads_by_queue[head.cluster_queue].get(key)
    return None if replaced is None or replaced.eviction is not None else replaced


def nominate(assigner: FlavorAssigner) -> Nomination:
    """Return the flavors that a workload could get, and the victims for them.

    All pods, even with preemption, take precedence over fewer pods. If nothing helps, the assignment holds the reasons
    for all pods. A waiting workload holds a placement: the one available without its victims or, if it has no victims,
    one in an empty cluster.
    """
    assignment = assign_flavors(assigner)
    nomination = _with_targets(assigner, assignment)
    if nomination is None and assigner.settings.partial_admission and assigner.workload.admission is None:
        nomination = search_pod_counts(
            assigner.workload.pod_sets, lambda counts: _with_targets(assigner, assign_flavors(assigner, counts))
        )
    assignment, targets = (assignment, ()) if nomination is None else nomination
    return _with_future_placement(assigner, assignment, targets), targets


def assign_without_preemption(snapshot: Snapshot, head: Head, settings: QuotaSettings) -> Assignment | None:
    """Return the flavors for all pods of a head, or for fewer, without preemption; None if it does not fit."""
    queue = snapshot.cluster_queues[head.cluster_queue]
    replaced = replaced_slice(snapshot, head)
    assigner = FlavorAssigner(
        snapshot, head.workload, queue, no_candidates_oracle, settings, replace_workload_slice=replaced
    )

    def assign_if_fits(counts: tuple[int, ...] | None = None) -> Assignment | None:
        assignment = assign_flavors(assigner, counts)
        return assignment if assignment.representative_mode is FlavorAssignmentMode.FIT else None

    assignment = assign_if_fits()
    if assignment is not None or not settings.partial_admission or head.workload.admission is not None:
        return assignment
    return search_pod_counts(head.workload.pod_sets, assign_if_fits)


def is_admission_suitable(snapshot: Snapshot, workload: Workload) -> bool:
    """Return whether the flavors and nodes of an admission suit its pods now, regardless of what is available."""
    queue = snapshot.cluster_queue_of(workload)
    assigner = FlavorAssigner(snapshot, workload, queue, no_candidates_oracle)
    flavors = (
        (index, flavor, queue.rg_by_resource.get(resource))
        for index, pod_set in enumerate(workload.pod_sets)
        if pod_set.name in workload.admitted_pod_sets
        for resource, flavor in workload.admitted_pod_sets[pod_set.name].flavors.items()
    )
    return snapshot.tas_snapshot.suits(workload) and all(
        group is not None and flavor in group.flavor_names and is_flavor_suitable(assigner, [index], flavor, group)
        for index, flavor, group in flavors
    )


def pin_flavors(assigner: FlavorAssigner, assignment: Assignment) -> FlavorAssigner:
    """Return an assigner that tries only the flavors of an assignment, starting with the first."""
    mapping = {
        pod_set.name: {resource: flavor.name for resource, flavor in pod_set.flavors.items()}
        for pod_set in assignment.pod_sets
    }
    return replace(assigner, nomination_mapping=mapping)


def search_pod_counts(pod_sets: Sequence[PodSet], assign_counts: Callable[[tuple[int, ...]], R | None]) -> R | None:
    """Return the result of `assign_counts` for the largest pod counts, by pod set, for which it is not None.

    All pod sets shrink together, each by the same fraction of the way from its count to its minimum. The result is None
    if no pod set may shrink. The search is binary, on the assumption that fewer pods fit if more pods do.
    Source: podset_reducer.go Search, KEP-420.
    """
    deltas = [pod_set.pods - (pod_set.pods if pod_set.min_pods is None else pod_set.min_pods) for pod_set in pod_sets]
    steps = sum(deltas)
    if not steps:
        return None
    results: dict[int, R] = {}

    def is_small_enough(step: int) -> bool:
        counts = (pod_set.pods - delta * step // steps for pod_set, delta in zip(pod_sets, deltas, strict=True))
        result = assign_counts(tuple(counts))
        if result is not None:
            results[step] = result
        return result is not None

    return results.get(bisect_left(range(steps + 1), True, key=is_small_enough))


def _with_future_placement(assigner: FlavorAssigner, assignment: Assignment, targets: tuple[Target, ...]) -> Assignment:
    """Add to an assignment that waits for a preemption the placement that is available afterwards."""
    if assignment.representative_mode is not FlavorAssignmentMode.PREEMPT or not assignment.placement_requests:
        return assignment
    tas_snapshot = assigner.snapshot.tas_snapshot
    with assigner.snapshot.simulate_workload_removal(target.workload for target in targets):
        result = tas_snapshot.find_topology_assignments(
            assigner.workload, assignment.placement_requests, empty=not targets
        )
    return assignment if isinstance(result, TopologyPlacementFailure) else update_for_tas_result(assignment, result)


def _with_targets(assigner: FlavorAssigner, assignment: Assignment) -> Nomination | None:
    """Return an assignment with its victims; None if it does not fit and no preemption helps."""
    if assignment.representative_mode is FlavorAssignmentMode.FIT:
        return assignment, ()
    if assignment.representative_mode is not FlavorAssignmentMode.PREEMPT:
        return None
    targets = get_targets(
        PreemptionContext(
            assigner.snapshot,
            assigner.workload,
            assigner.queue,
            assignment.nonzero_usage if assigner.workload.admission is None else {},
            assignment.frs_need_preemption,
            assigner.settings,
            assignment.placement_requests,
        )
    )
    return (assignment, targets) if targets else None
