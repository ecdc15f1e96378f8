"""Why a workload waits, as a value: which quota, flavor or place it lacks, whose promise is in the way, who is before
it, and what would have to end first.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.reservation import ReservationTable
from zonewise_scheduler.backfill.shortage import quota_shortage
from zonewise_scheduler.backfill.timeline import has_capacity, is_running
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate
from zonewise_scheduler.quota.cycle.scheduling_cycle import with_admission
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.queue.heads import matches_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.shortage import QuotaShortage
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorStatus, PodSetAssignment
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_context import Target


class UnsuitableFlavor(NamedTuple):
    """A flavor that is not for the workload, whatever there is of it."""

    flavor: str
    """"": all of them, or it is no matter of a flavor."""
    message: str
    resource: str = ""


class Explanation(NamedTuple):
    """Why a workload does not start now; where nothing is named, its turn comes with the next decision."""

    key: str
    queue: str
    """The ClusterQueue."""
    position: int
    """In the order of its queue, from 1 on; 0: it stands in none."""
    now: float
    """When this was asked; seconds, as all times."""
    queue_message: str = ""
    """Why nobody like it is admitted now, whatever there is: a sentence."""
    failed_checks: tuple[str, ...] = ()
    """Names of the admission checks that it has failed."""
    blocked_by: str = ""
    """The key of who is before it, and is not passed: the first of a StrictFIFO queue, or one that others make way
    for."""
    shortages: tuple[QuotaShortage, ...] = ()
    """Quotas of flavors that were tried, in their order; each flavor that is named here lacks all that is named."""
    unsuitable_flavors: tuple[UnsuitableFlavor, ...] = ()
    placement_failure: TopologyPlacementFailure | None = None
    """There is quota, but no room at places that suit."""
    gated: bool = False
    """It may not make others give way, and would have to."""
    victims: tuple[str, ...] = ()
    """Who gives way to it, and is not gone yet; or would, once it is its turn."""
    delayed_reservation: Reservation | None = None
    """There is room now, but this promise would be broken."""
    waits_for: tuple[str, ...] = ()
    """Who must have ended for it, the first to end first: a smallest set with which there is room; or, where it is only
    `delayed`, who ends or starts right before it can start."""
    start: float = inf
    """When that is if all run to their latest ends: the earliest start that breaks no promise. Infinite: unknown."""
    reserved: bool = False
    """It is promised to start then or earlier; otherwise others may come before it."""
    never_fits: bool = False
    """It cannot start even when all has ended."""


def explain(planner: PlannerState, key: str, now: float) -> Explanation:
    """Return why a workload waits, between two decisions; raise KeyError if it does not. The planner is not changed.

    It is looked at anew on a copy of the snapshot, whether it was its turn in the last decision or not.
    """
    if key in planner.inadmissible:
        return Explanation(key, planner.inadmissible[key].queue, 0, now, planner.inadmissible[key].message)
    queue = planner.pending[key]
    line = planner.pending_queues[queue]
    order = line.heap.sorted_keys(planner.snapshot.local_queue_usage)
    workload = line.heap.get(key)
    if workload is None:
        raise KeyError(key)
    stopped = _stopped(planner, queue, workload.namespace)
    found = Explanation(key, queue, order.index(key) + 1, now, stopped, workload.failed_checks)
    if stopped or workload.failed_checks:
        return found
    snapshot = planner.snapshot.copy()
    head = Head(workload, queue)
    assignment, targets = nominate(flavor_assigner(snapshot, head, planner.settings))
    found = _with_lacks(found, snapshot, workload, assignment, targets)
    helped = assignment.representative_mode == FlavorAssignmentMode.FIT or bool(targets)
    if helped and not found.gated and (delayed := _delayed(planner, head, assignment, targets, now)):
        found = found._replace(delayed_reservation=delayed, victims=())
    first = _first(planner, key, order, now)
    if first and (line.strict or helped):
        found = found._replace(blocked_by=first)
    return _with_start(found, planner, head, snapshot, room=helped)


def _stopped(planner: PlannerState, queue: str, namespace: str) -> str:
    """Return why a queue admits nobody of a namespace."""
    if queue in planner.snapshot.inactive:
        return f"ClusterQueue {queue} is inactive: {planner.snapshot.inactive[queue]}"
    labels = None if planner.namespaces is None else planner.namespaces.get(namespace, {})
    return (
        ""
        if matches_namespace(planner.pending_queues[queue].heap.spec, labels)
        else f"ClusterQueue {queue} is not for namespace {namespace}"
    )


def _with_lacks(
    found: Explanation, snapshot: Snapshot, workload: Workload, assignment: Assignment, targets: Sequence[Target]
) -> Explanation:
    """Tell what was found of flavors, quotas and places."""
    queue = snapshot.cluster_queues[found.queue]
    hindrances = [one for pods in assignment.pod_sets for one in _hindrances(pods)]
    shortages = [quota_shortage(queue, one) for one in hindrances]
    unsuited = [
        UnsuitableFlavor(one.flavor, one.message, one.resource)
        for one in hindrances
        if one.reason in {"", "NoMatchingFlavor"} and one.message
    ]
    unsuited += [UnsuitableFlavor("", one.error) for one in assignment.pod_sets if one.error]
    return found._replace(
        shortages=tuple(dict.fromkeys(one for one in shortages if one is not None)),
        unsuitable_flavors=tuple(dict.fromkeys(unsuited)),
        placement_failure=_place_missing(snapshot, workload, assignment),
        gated=workload.preemption_gated and bool(targets),
        victims=tuple(one.workload.key for one in targets),
    )


def _hindrances(pods: PodSetAssignment) -> Iterable[FlavorStatus]:
    """Yield what is in the way of each flavor that was tried, or of all."""
    if not pods.considered_flavors:
        return pods.statuses
    return [one for attempt in pods.considered_flavors for one in attempt.statuses]


def _place_missing(snapshot: Snapshot, workload: Workload, assignment: Assignment) -> TopologyPlacementFailure | None:
    """Return why there is no place, though there is quota; told of an empty cluster where there is none even there."""
    found = [one for pods in assignment.pod_sets for one in pods.statuses if one.message and not one.resource]
    if not assignment.placement_requests or not any(
        one.reason in {"InUse", "TopologyPlacementFailed"} for one in found
    ):
        return None
    empty = any(one.reason == "TopologyPlacementFailed" for one in found)
    place = snapshot.tas_snapshot.find_topology_assignments(workload, assignment.placement_requests, empty=empty)
    return place if isinstance(place, TopologyPlacementFailure) else None


def _delayed(
    planner: PlannerState, head: Head, assignment: Assignment, targets: Sequence[Target], now: float
) -> Reservation | None:
    """Return whose promise would be broken if it started now."""
    made = planner.reservations.by_key
    gate = ReservationTable(made.values())
    gate.begin_cycle(planner, now)
    workload = with_admission(head.workload, planner.snapshot.cluster_queues[head.cluster_queue].spec, assignment, now)
    key = gate.delayed_reservation(workload, [one.workload for one in targets])
    return made.get(key)


def _first(planner: PlannerState, key: str, order: Sequence[str], now: float) -> str:
    """Return who has its turn before a workload, and keeps it until it has started."""
    made, line = planner.reservations.by_key, planner.pending_queues[planner.pending[key]]
    if line.strict:
        return order[0] if order[0] != key else ""
    claims = (one for one in order if one in made and made[one].start <= now and made[one].victims)
    return next((one for one in claims if one != key), "")


def _with_start(
    found: Explanation, planner: PlannerState, head: Head, snapshot: Snapshot, *, room: bool
) -> Explanation:
    """Tell when it can start, and who must have ended for that; of one that is not passed, its forerunners tell that.

    A promise is as of the last decision; where there is none, it is as if one were made now.
    """
    made = planner.reservations.by_key
    promise = made.get(found.key)
    if promise is not None:
        found = found._replace(reserved=True)
    else:
        promise = planner.timeline(made.values()).earliest_reservation(head, planner.settings)
    if promise is None:
        return found._replace(never_fits=True)
    if found.blocked_by or (room and found.delayed_reservation is None):
        return found._replace(start=promise.start) if found.reserved else found
    after = promise.waits_for if room else _needed(planner, snapshot, promise)
    return found._replace(waits_for=after, start=max(promise.start, found.now))


def _needed(planner: PlannerState, snapshot: Snapshot, promise: Reservation) -> tuple[str, ...]:
    """Return a smallest set of those that run, without whom there is room for what is promised; snapshot is used up."""
    ends = sorted(run for run in planner.running.values() if run.deadline <= promise.start)
    gone = [run.workload for run in ends]
    victims = [one for one in promise.victims if is_running(snapshot, one)]
    snapshot.remove_workloads([*gone, *victims])
    return tuple(one.key for one in _not_to_spare(snapshot, promise.workload, gone))


def _not_to_spare(snapshot: Snapshot, workload: Workload, gone: list[Workload]) -> list[Workload]:
    """Put those back that leave room for a workload, as many at a time as do; return the others."""
    snapshot.add_workloads(gone)
    if has_capacity(snapshot, workload):
        return []
    snapshot.remove_workloads(gone)
    if len(gone) < 2:
        return gone
    half = len(gone) // 2
    return [*_not_to_spare(snapshot, workload, gone[:half]), *_not_to_spare(snapshot, workload, gone[half:])]
