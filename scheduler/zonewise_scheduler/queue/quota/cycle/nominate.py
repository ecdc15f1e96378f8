"""What a head could have now: its flavors, and who would have to give way (scheduler.go getInitialAssignments)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.flavors.assign import assign
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.flavors.partial import with_fewer_pods
from zonewise_scheduler.queue.quota.flavors.placing import with_places
from zonewise_scheduler.queue.quota.flavors.scan import Request
from zonewise_scheduler.queue.quota.places import NoPlace
from zonewise_scheduler.queue.quota.preemption.targets import find_targets, nobody, oracle
from zonewise_scheduler.queue.quota.preemption.values import Ask

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.cycle.values import Head
    from zonewise_scheduler.queue.quota.flavors.assignment import Assignment
    from zonewise_scheduler.queue.quota.model.workload import Settings
    from zonewise_scheduler.queue.quota.preemption.values import Target
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

Nomination = tuple["Assignment", tuple["Target", ...]]


def request_of(snapshot: Snapshot, head: Head, settings: Settings) -> Request:
    """Return the request for a head's flavors."""
    queue = snapshot.queues[head.queue]
    return Request(snapshot, head.workload, queue, oracle(snapshot, settings), settings, head.progress)


def nominate(request: Request) -> Nomination:
    """Return the flavors that a workload could have, and who would have to give way.

    All its pods, by preemption too, before fewer of them. Where nothing helps, what is in the way of all of them. While
    it waits it keeps the places where its pods will go: those who give way gone, or if nobody does, all.
    """
    full = assign(request)
    found = _helped(request, full)
    if found is None and request.settings.partial_admission and request.workload.admission is None:
        found = with_fewer_pods(request.workload.pod_sets, lambda counts: _helped(request, assign(request, counts)))
    assignment, targets = (full, ()) if found is None else found
    return _with_places_ahead(request, assignment, targets), targets


def fitting(snapshot: Snapshot, head: Head, settings: Settings) -> Assignment | None:
    """Return what a head could have with nobody giving way, for all its pods or fewer; None: it does not fit."""
    request = Request(snapshot, head.workload, snapshot.queues[head.queue], nobody, settings)

    def fit(counts: tuple[int, ...] | None = None) -> Assignment | None:
        found = assign(request, counts)
        return found if found.mode == Mode.FIT else None

    full = fit()
    if full is not None or not settings.partial_admission or head.workload.admission is not None:
        return full
    return with_fewer_pods(head.workload.pod_sets, fit)


def _with_places_ahead(request: Request, assignment: Assignment, targets: tuple[Target, ...]) -> Assignment:
    """Return an assignment that waits for others to give way with the places that are then free."""
    if assignment.mode != Mode.PREEMPT or not assignment.wishes:
        return assignment
    with request.snapshot.without(one.workload for one in targets):
        found = request.snapshot.places.find(request.workload, assignment.wishes, empty=not targets)
    return assignment if isinstance(found, NoPlace) else with_places(assignment, found)


def pinned(request: Request, assignment: Assignment) -> Request:
    """Return the request for no other flavors than those of an assignment, from the first on."""
    flavors = {
        pods.name: {resource: choice.name for resource, choice in pods.flavors.items()} for pods in assignment.pod_sets
    }
    return replace(request, pinned=flavors)


def _helped(request: Request, assignment: Assignment) -> Nomination | None:
    """Return it with those who give way; None where it does not fit and nobody may be made to."""
    if assignment.mode == Mode.FIT:
        return assignment, ()
    if assignment.mode != Mode.PREEMPT:
        return None
    targets = find_targets(
        Ask(
            request.snapshot,
            request.workload,
            request.queue,
            assignment.needs if request.workload.admission is None else {},
            assignment.contested,
            request.settings,
            assignment.wishes,
        )
    )
    return (assignment, targets) if targets else None
