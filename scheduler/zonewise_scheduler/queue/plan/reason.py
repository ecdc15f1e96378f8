"""Why a workload waits, as a value: which quota, flavor or place it lacks, whose promise is in the way, who is before
it, and what would have to end first.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.plan.ahead import has_room, runs_in
from zonewise_scheduler.queue.plan.promises import Promises
from zonewise_scheduler.queue.plan.shortage import shortage_of
from zonewise_scheduler.queue.quota.cycle.cycle import admitted
from zonewise_scheduler.queue.quota.cycle.nominate import nominate, request_of
from zonewise_scheduler.queue.quota.cycle.values import Head
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.order.heads import suits
from zonewise_scheduler.queue.quota.places import NoPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.queue.plan.planner import Planner
    from zonewise_scheduler.queue.plan.shortage import Shortage
    from zonewise_scheduler.queue.plan.values import Promise
    from zonewise_scheduler.queue.quota.flavors.assignment import Assignment, Hindrance, PodSetAssignment
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.preemption.values import Target
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot


class Unsuited(NamedTuple):
    """A flavor that is not for the workload, whatever there is of it."""

    flavor: str
    """"": all of them, or it is no matter of a flavor."""
    detail: str
    resource: str = ""


class Reason(NamedTuple):
    """Why a workload does not start now; where nothing is named, its turn comes with the next decision."""

    key: str
    queue: str
    """The ClusterQueue."""
    place: int
    """In the order of its queue, from 1 on; 0: it stands in none."""
    now: float
    """When this was asked; seconds, as all times."""
    stopped: str = ""
    """Why nobody like it is admitted now, whatever there is: a sentence."""
    failed_checks: tuple[str, ...] = ()
    """Names of the admission checks that it has failed."""
    first: str = ""
    """The key of who is before it, and is not passed: the first of a StrictFIFO queue, or one that others make way
    for."""
    shortages: tuple[Shortage, ...] = ()
    """Quotas of flavors that were tried, in their order; each flavor that is named here lacks all that is named."""
    unsuited: tuple[Unsuited, ...] = ()
    place_missing: NoPlace | None = None
    """There is quota, but no room at places that suit."""
    gated: bool = False
    """It may not make others give way, and would have to."""
    yielding: tuple[str, ...] = ()
    """Who gives way to it, and is not gone yet; or would, once it is its turn."""
    delayed: Promise | None = None
    """There is room now, but this promise would be broken."""
    after: tuple[str, ...] = ()
    """Who must have ended for it, the first to end first: a smallest set with which there is room; or, where it is only
    `delayed`, who ends or starts right before it can start."""
    start: float = inf
    """When that is if all run to their latest ends: the earliest start that breaks no promise. Infinite: unknown."""
    promised: bool = False
    """It is promised to start then or earlier; otherwise others may come before it."""
    never: bool = False
    """It cannot start even when all has ended."""


def why(planner: Planner, key: str, now: float) -> Reason:
    """Return why a workload waits, between two decisions; raise KeyError if it does not. The planner is not changed.

    It is looked at anew on a copy of the snapshot, whether it was its turn in the last decision or not.
    """
    if key in planner.aside:
        return Reason(key, planner.aside[key].queue, 0, now, planner.aside[key].why)
    queue = planner.waiting[key]
    line = planner.lines[queue]
    order = line.pending.order(planner.snapshot.usage_of_local_queues)
    workload = line.pending.get(key)
    if workload is None:
        raise KeyError(key)
    stopped = _stopped(planner, queue, workload.namespace)
    found = Reason(key, queue, order.index(key) + 1, now, stopped, workload.failed_checks)
    if stopped or workload.failed_checks:
        return found
    snapshot = planner.snapshot.copy()
    head = Head(workload, queue)
    assignment, targets = nominate(request_of(snapshot, head, planner.settings))
    found = _with_lacks(found, snapshot, workload, assignment, targets)
    helped = assignment.mode == Mode.FIT or bool(targets)
    if helped and not found.gated and (delayed := _delayed(planner, head, assignment, targets, now)):
        found = found._replace(delayed=delayed, yielding=())
    first = _first(planner, key, order, now)
    if first and (line.strict or helped):
        found = found._replace(first=first)
    return _with_start(found, planner, head, snapshot, room=helped)


def _stopped(planner: Planner, queue: str, namespace: str) -> str:
    """Return why a queue admits nobody of a namespace."""
    if queue in planner.snapshot.inactive:
        return f"ClusterQueue {queue} is inactive: {planner.snapshot.inactive[queue]}"
    labels = None if planner.namespaces is None else planner.namespaces.get(namespace, {})
    return (
        ""
        if suits(planner.lines[queue].pending.spec, labels)
        else f"ClusterQueue {queue} is not for namespace {namespace}"
    )


def _with_lacks(
    found: Reason, snapshot: Snapshot, workload: Workload, assignment: Assignment, targets: Sequence[Target]
) -> Reason:
    """Tell what was found of flavors, quotas and places."""
    queue = snapshot.queues[found.queue]
    hindrances = [one for pods in assignment.pod_sets for one in _hindrances(pods)]
    shortages = [shortage_of(queue, one) for one in hindrances]
    unsuited = [
        Unsuited(one.flavor, one.detail, one.resource)
        for one in hindrances
        if one.why in {"", "NoMatchingFlavor"} and one.detail
    ]
    unsuited += [Unsuited("", one.error) for one in assignment.pod_sets if one.error]
    return found._replace(
        shortages=tuple(dict.fromkeys(one for one in shortages if one is not None)),
        unsuited=tuple(dict.fromkeys(unsuited)),
        place_missing=_place_missing(snapshot, workload, assignment),
        gated=workload.gated and bool(targets),
        yielding=tuple(one.workload.key for one in targets),
    )


def _hindrances(pods: PodSetAssignment) -> Iterable[Hindrance]:
    """Yield what is in the way of each flavor that was tried, or of all."""
    if not pods.attempts:
        return pods.hindrances
    return [one for attempt in pods.attempts for one in attempt.hindrances]


def _place_missing(snapshot: Snapshot, workload: Workload, assignment: Assignment) -> NoPlace | None:
    """Return why there is no place, though there is quota; told of an empty cluster where there is none even there."""
    found = [one for pods in assignment.pod_sets for one in pods.hindrances if one.detail and not one.resource]
    if not assignment.wishes or not any(one.why in {"InUse", "TopologyPlacementFailed"} for one in found):
        return None
    empty = any(one.why == "TopologyPlacementFailed" for one in found)
    place = snapshot.places.find(workload, assignment.wishes, empty=empty)
    return place if isinstance(place, NoPlace) else None


def _delayed(
    planner: Planner, head: Head, assignment: Assignment, targets: Sequence[Target], now: float
) -> Promise | None:
    """Return whose promise would be broken if it started now."""
    made = planner.promised.made
    gate = Promises(planner, planner.settings)
    gate.restore(made.values())
    gate.open(now)
    workload = admitted(head.workload, planner.snapshot.queues[head.queue].spec, assignment, now)
    key = gate.delays(workload, [one.workload for one in targets])
    return made.get(key)


def _first(planner: Planner, key: str, order: Sequence[str], now: float) -> str:
    """Return who has its turn before a workload, and keeps it until it has started."""
    made, line = planner.promised.made, planner.lines[planner.waiting[key]]
    if line.strict:
        return order[0] if order[0] != key else ""
    claims = (one for one in order if one in made and made[one].start <= now and made[one].victims)
    return next((one for one in claims if one != key), "")


def _with_start(found: Reason, planner: Planner, head: Head, snapshot: Snapshot, *, room: bool) -> Reason:
    """Tell when it can start, and who must have ended for that; of one that is not passed, its forerunners tell that.

    A promise is as of the last decision; where there is none, it is as if one were made now.
    """
    made = planner.promised.made
    promise = made.get(found.key)
    if promise is not None:
        found = found._replace(promised=True)
    else:
        promise = planner.ahead(made.values()).earliest(head, planner.settings)
    if promise is None:
        return found._replace(never=True)
    if found.first or (room and found.delayed is None):
        return found._replace(start=promise.start) if found.promised else found
    after = promise.after if room else _needed(planner, snapshot, promise)
    return found._replace(after=after, start=max(promise.start, found.now))


def _needed(planner: Planner, snapshot: Snapshot, promise: Promise) -> tuple[str, ...]:
    """Return a smallest set of those that run, without whom there is room for what is promised; snapshot is used up."""
    ends = sorted(run for run in planner.running.values() if run.end <= promise.start)
    gone = [run.workload for run in ends]
    victims = [one for one in promise.victims if runs_in(snapshot, one)]
    snapshot.remove_all([*gone, *victims])
    return tuple(one.key for one in _not_to_spare(snapshot, promise.workload, gone))


def _not_to_spare(snapshot: Snapshot, workload: Workload, gone: list[Workload]) -> list[Workload]:
    """Put those back that leave room for a workload, as many at a time as do; return the others."""
    snapshot.add_all(gone)
    if has_room(snapshot, workload):
        return []
    snapshot.remove_all(gone)
    if len(gone) < 2:
        return gone
    half = len(gone) // 2
    return [*_not_to_spare(snapshot, workload, gone[:half]), *_not_to_spare(snapshot, workload, gone[half:])]
