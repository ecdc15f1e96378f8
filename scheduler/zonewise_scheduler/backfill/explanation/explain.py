"""Explains why a workload waits: shortages, reservations it would delay, and workloads that must start or end first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.explanation.explanation import Explanation, QuotaShortage, UnsuitableFlavor
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.reservations.timeline import has_capacity, is_running
from zonewise_scheduler.backfill.types import ReservedStart
from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate, replaced_slice
from zonewise_scheduler.quota.cycle.scheduling_cycle import with_admission
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.queue.heads import admits_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.backfill.explanation.explanation import LimitKind
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorStatus, PodSetAssignment
    from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, ResourceNode
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_context import Target


def explain(state: PlannerState, key: str, now: float) -> Explanation:
    """Return why a workload waits, between two passes; raise KeyError if it does not. The state is not changed.

    The workload is nominated on a copy of the snapshot, whether or not it was a head in the last pass.
    """
    if key in state.inadmissible:
        return Explanation(key, state.inadmissible[key].queue, 0, now, state.inadmissible[key].message)
    queue = state.pending[key]
    pending_queue = state.pending_queues[queue]
    workload = state.pending_workload(key)
    if workload is None:
        raise KeyError(key)
    queue_message = _queue_message(state, queue, workload.namespace)
    position = pending_queue.heap.position(key, state.snapshot.local_queue_usage)
    explanation = Explanation(key, queue, position, now, queue_message, workload.failed_checks)
    if queue_message or workload.failed_checks:
        return explanation
    if workload.begin_at > now:
        return _before_begin(explanation, state, workload)
    return _with_nomination(explanation, state, workload)


def _with_nomination(explanation: Explanation, state: PlannerState, workload: Workload) -> Explanation:
    """Add what the nomination of a workload lacks now, and its start."""
    key, queue, now = explanation.key, explanation.queue, explanation.now
    snapshot = state.snapshot.copy()
    head = Head(workload, queue)
    assigner = flavor_assigner(snapshot, head, state.settings)
    if assigner.replace_workload_slice is not None:
        explanation = explanation._replace(replaces=workload.replaces)
    assignment, targets = nominate(assigner)
    explanation = _with_shortages(explanation, snapshot, workload, assignment, targets)
    if (failure := explanation.placement_failure) is not None:
        classes = state.configuration.device_classes
        provided = tuple((name, classes[name]) for name in failure.resources if name in classes)
        explanation = explanation._replace(device_classes=provided)
    fits = assignment.representative_mode is FlavorAssignmentMode.FIT or bool(targets)
    if fits and not explanation.gated and (delayed := _delayed_reservation(state, head, assignment, targets, now)):
        explanation = explanation._replace(delayed_reservation=delayed, victims=())
    blocker = _blocking_workload(state, key, now)
    if blocker and (state.pending_queues[queue].strict or fits):
        explanation = explanation._replace(blocked_by=blocker)
    return _with_start(explanation, state, head, snapshot, fits=fits)


def _before_begin(explanation: Explanation, state: PlannerState, workload: Workload) -> Explanation:
    """Add the begin time of a workload, and its advance reservation if it has one, or why it never fits."""
    reservation = state.reservations.by_key.get(explanation.key)
    if reservation is not None:
        return explanation._replace(begin_at=workload.begin_at, start=reservation.start, reserved=True)
    nominated = _with_nomination(explanation, state, workload)
    return (nominated if nominated.never_fits else explanation)._replace(begin_at=workload.begin_at)


def _queue_message(state: PlannerState, queue: str, namespace: str) -> str:
    """Return why a queue admits no workloads of a namespace; "" if it admits them."""
    if queue in state.snapshot.inactive:
        return f"ClusterQueue {queue} is inactive: {state.snapshot.inactive[queue]}"
    if _is_selected(state, queue, namespace):
        return ""
    return f"ClusterQueue {queue} is not for namespace {namespace}"


def _is_selected(state: PlannerState, queue: str, namespace: str) -> bool:
    return admits_namespace(state.pending_queues[queue].heap.spec, namespace, state.namespaces)


# --- flavors, quotas, topologies


def _with_shortages(
    explanation: Explanation,
    snapshot: Snapshot,
    workload: Workload,
    assignment: Assignment,
    targets: Sequence[Target],
) -> Explanation:
    queue = snapshot.cluster_queues[explanation.queue]
    statuses = [status for pod_set in assignment.pod_sets for status in _flavor_statuses(pod_set)]
    shortages = [_quota_shortage(queue, status) for status in statuses]
    unsuitable = [
        UnsuitableFlavor(status.flavor, status.message, status.resource)
        for status in statuses
        if status.reason in {"", "NoMatchingFlavor"} and status.message
    ]
    unsuitable += [UnsuitableFlavor("", pod_set.error) for pod_set in assignment.pod_sets if pod_set.error]
    return explanation._replace(
        shortages=tuple(dict.fromkeys(shortage for shortage in shortages if shortage is not None)),
        unsuitable_flavors=tuple(dict.fromkeys(unsuitable)),
        placement_failure=_placement_failure(snapshot, workload, assignment),
        gated=workload.preemption_gated and bool(targets),
        victims=tuple(target.workload.key for target in targets),
    )


def _flavor_statuses(pod_set: PodSetAssignment) -> Iterable[FlavorStatus]:
    """Return the statuses of the flavors tried and of uncovered resources; all statuses if no flavor was tried."""
    if not pod_set.considered_flavors:
        return pod_set.statuses
    uncovered = [status for status in pod_set.statuses if status.resource and not status.flavor]
    return [*(status for attempt in pod_set.considered_flavors for status in attempt.statuses), *uncovered]


def _placement_failure(
    snapshot: Snapshot, workload: Workload, assignment: Assignment
) -> TopologyPlacementFailure | None:
    """Return why there is quota but no topology assignment, in an empty cluster if the pods do not fit even there."""
    reasons = {
        status.reason
        for pod_set in assignment.pod_sets
        for status in pod_set.statuses
        if status.message and not status.resource
    }
    if not assignment.placement_requests or not reasons & {"InUse", "TopologyPlacementFailed"}:
        return None
    empty = "TopologyPlacementFailed" in reasons
    result = snapshot.tas_snapshot.find_topology_assignments(workload, assignment.placement_requests, empty=empty)
    return result if isinstance(result, TopologyPlacementFailure) else None


def _quota_shortage(queue: ClusterQueueSnapshot, status: FlavorStatus) -> QuotaShortage | None:
    """Return the quota that a flavor lacks; None if quota is not the reason."""
    if not status.missing:
        return None
    key = FlavorResource(status.flavor, status.resource)
    empty = status.reason == "ExceedsMaxQuota"
    available = queue.potential_available(key) if empty else max(0, queue.available(key))
    node, limit_kind = _binding_limit(queue, key, empty=empty)
    quota = node.quotas.get(key)
    borrowing_limit = None if quota is None else quota.borrowing_limit
    limit = node.subtree_quota[key]
    if limit_kind == "borrowing" and borrowing_limit is not None:
        limit = borrowing_limit
    not_lent = 0 if limit_kind != "cohort" else _not_lent(queue, key, empty=empty)
    requested = plus(available, status.missing)
    return QuotaShortage(key.flavor, key.resource, requested, available, limit_kind, node.name, limit, not_lent, empty)


def _binding_limit(queue: ClusterQueueSnapshot, key: FlavorResource, *, empty: bool) -> tuple[ResourceNode, LimitKind]:
    """Return the nearest node whose own limit bounds `available`, or `potential_available` if `empty`.

    See ResourceNode.available (Kueue pkg/cache/scheduler/resource_node.go).
    """
    node: ResourceNode = queue
    while node.parent is not None:
        quota = node.quotas.get(key)
        if quota is not None and quota.borrowing_limit is not None:
            local = node.local_quota(key)
            borrowed = 0 if empty else max(0, minus(node.usage[key], local))
            borrowable = plus(minus(minus(node.subtree_quota[key], local), borrowed), quota.borrowing_limit)
            if borrowable <= (node.parent.potential_available(key) if empty else node.parent.available(key)):
                return node, "borrowing"
        node = node.parent
    return node, "nominal" if isinstance(node, ClusterQueueSnapshot) else "cohort"


def _not_lent(queue: ClusterQueueSnapshot, key: FlavorResource, *, empty: bool) -> int:
    """Return the amount that other nodes of a queue's tree have available but do not lend."""
    path: set[ResourceNode] = {queue, *queue.path_parent_to_root()}
    amount = 0
    for node in _descendants(queue.root):
        if node not in path:
            amount = plus(amount, node.local_quota(key) if empty else node.local_available(key))
    return amount


def _descendants(cohort: CohortSnapshot | None) -> Iterator[ResourceNode]:
    if cohort is not None:
        yield from cohort.child_cqs
        for child in cohort.child_cohorts:
            yield child
            yield from _descendants(child)


# --- other workloads


def _delayed_reservation(
    state: PlannerState, head: Head, assignment: Assignment, targets: Sequence[Target], now: float
) -> ReservedStart | None:
    """Return the reservation that a head would delay if it started now."""
    reservations = state.reservations.by_key
    gate = ReservationTable(reservations.values())
    gate.begin_cycle(state, now)
    workload = with_admission(head.workload, state.snapshot.cluster_queues[head.cluster_queue].spec, assignment, now)
    replaced = replaced_slice(state.snapshot, head)
    ending = [target.workload for target in targets] + ([] if replaced is None else [replaced])
    key = gate.delayed_reservation(workload, ending)
    return ReservedStart(key, reservations[key].start) if key else None


def _blocking_workload(state: PlannerState, key: str, now: float) -> str:
    """Return the workload of a queue that must start before another does; "" if there is none."""
    queue, usage = state.pending[key], state.snapshot.local_queue_usage
    pending = state.pending_queues[queue]
    if pending.strict:
        order = pending.heap.sorted_keys(usage)
        head = next(other for other in order if _is_selected(state, queue, other.partition("/")[0]))
        return head if head != key else ""
    due = [
        other
        for other, reservation in state.reservations.by_key.items()
        if reservation.start <= now and reservation.preempts and other != key and state.pending.get(other) == queue
    ]
    return min(due, key=lambda other: pending.heap.position(other, usage), default="")


def _with_start(
    explanation: Explanation, state: PlannerState, head: Head, snapshot: Snapshot, *, fits: bool
) -> Explanation:
    """Add the workload's start and the workloads that must end first; for a blocked one, only a reserved start.

    The reservation is that of the last pass. Without one, the start is that of a reservation made now.
    """
    reservations = state.reservations.by_key
    reservation = reservations.get(explanation.key)
    if reservation is not None:
        explanation = explanation._replace(reserved=True)
    else:
        reservation = state.timeline(reservations.values()).earliest_reservation(head, state.settings)
    if reservation is None:
        return _with_unknown_start(explanation, state, head, snapshot, fits=fits)
    if explanation.blocked_by or (fits and explanation.delayed_reservation is None):
        return explanation._replace(start=reservation.start) if explanation.reserved else explanation
    waits_for = reservation.waits_for if fits else _must_end(state, snapshot, reservation)
    return explanation._replace(waits_for=waits_for, start=max(reservation.start, explanation.now))


def _with_unknown_start(
    explanation: Explanation, state: PlannerState, head: Head, snapshot: Snapshot, *, fits: bool
) -> Explanation:
    """Add the workloads that must end first, or that the workload never fits.

    The end of a reserved workload without a walltime is unknown, so it may leave no time for others.
    """
    reservation = state.timeline(()).earliest_reservation(head, state.settings)
    if reservation is None:
        return explanation._replace(never_fits=True)
    if explanation.blocked_by or fits:
        return explanation
    return explanation._replace(waits_for=_must_end(state, snapshot, reservation))


def _must_end(state: PlannerState, snapshot: Snapshot, reservation: Reservation) -> tuple[str, ...]:
    """Return a minimal set of running workloads that must end for a reserved workload to fit. Changes the snapshot."""
    replaced = reservation.workload.replaces
    runs = sorted(run for run in state.running.values() if run.deadline <= reservation.start)
    ended = [run.workload for run in runs if run.workload.key != replaced]
    victims = {victim.key: victim for victim in reservation.victims if is_running(snapshot, victim)}
    victims |= {run.workload.key: run.workload for run in runs if run.workload.key == replaced}
    snapshot.remove_workloads([*ended, *victims.values()])
    return tuple(workload.key for workload in _minimal_removal(snapshot, reservation.workload, ended))


def _minimal_removal(snapshot: Snapshot, workload: Workload, removed: list[Workload]) -> list[Workload]:
    """Add back removed workloads, as many at a time as possible, while `workload` fits; return those still removed."""
    snapshot.add_workloads(removed)
    if has_capacity(snapshot, workload):
        return []
    snapshot.remove_workloads(removed)
    if len(removed) < 2:
        return removed
    half = len(removed) // 2
    return [
        *_minimal_removal(snapshot, workload, removed[:half]),
        *_minimal_removal(snapshot, workload, removed[half:]),
    ]
