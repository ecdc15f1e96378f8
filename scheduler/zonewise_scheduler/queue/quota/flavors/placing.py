"""Places for the pods of an assignment, where they are to be placed in topologies (tas_flavorassigner.go)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.flavors.assignment import Assignment, Hindrance
from zonewise_scheduler.queue.quota.flavors.delayed import is_delayed
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.places import NoPlace, Wish

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.flavors.assignment import PodSetAssignment
    from zonewise_scheduler.queue.quota.flavors.scan import Request
    from zonewise_scheduler.queue.quota.model.workload import PodSet
    from zonewise_scheduler.queue.quota.places import Found


def placed(request: Request, assignment: Assignment) -> Assignment:
    """Return an assignment with places, or with what is in the way of them.

    Where there is quota but no place, others would have to give way; where there would be no place in an empty cluster
    either, it does not fit. Nobody gives way to pods that move from a failed node.
    """
    assignment = _with_wishes(request, assignment)
    if not assignment.wishes:
        return assignment
    find, wishes = request.snapshot.places.find, assignment.wishes
    if assignment.mode == Mode.FIT:
        found = find(request.workload, wishes, empty=False)
        if not isinstance(found, NoPlace):
            return with_places(assignment, found)
        problem = Hindrance("InUse", found.flavor, detail=found.reason)
        mode = Mode.NO_FIT if request.snapshot.places.broken(request.workload) else Mode.PREEMPT
        assignment = _hindered(assignment, found.pod_set, mode, problem)
    if assignment.mode == Mode.PREEMPT:
        found = find(request.workload, wishes, empty=True)
        if isinstance(found, NoPlace):
            problem = Hindrance("TopologyPlacementFailed", found.flavor, detail=found.reason)
            return _hindered(assignment, found.pod_set, Mode.NO_FIT, problem)
        for name in {wish.pod_set.name for each in wishes.values() for wish in each}:
            assignment = _hindered(assignment, name, Mode.PREEMPT, None)
    return assignment


def with_places(assignment: Assignment, found: Found) -> Assignment:
    """Return an assignment with the places that were found for it."""
    pods = (
        replace(one, place=found[one.name], delayed="Ready" if one.delayed else "") if one.name in found else one
        for one in assignment.pod_sets
    )
    return replace(assignment, pod_sets=tuple(pods))


def _with_wishes(request: Request, assignment: Assignment) -> Assignment:
    """Find which pods are to be placed where; a pod set with no flavor to be placed in, or with two, is an error.

    Those that have their places keep them, but for those on failed nodes; some are to be placed later.
    """
    workload = request.workload
    if not workload.held and not any(_is_placed(request, spec) for spec in workload.pod_sets):
        return assignment
    wishes: dict[str, list[Wish]] = {}
    pods: list[PodSetAssignment] = []
    broken = request.snapshot.places.broken(workload)
    for spec, given in zip(request.workload.pod_sets, assignment.pod_sets, strict=True):
        one = _as_held(request, given)
        names = sorted({choice.name for choice in one.flavors.values() if request.snapshot.places.has(choice.name)})
        kept = one.place is not None and (one.name not in broken or request.workload.of_one_pod)
        if not _is_placed(request, spec) or not one.pods or kept:
            pods.append(one)
        elif len(names) == 1 and is_delayed(request.queue.spec, names[0], request.workload):
            pods.append(replace(one, delayed="Pending"))
        elif len(names) == 1:
            pods.append(one)
            wishes.setdefault(names[0], []).append(Wish(spec, one.pods, names[0]))
        else:
            problem = f"flavors with different topologies: {', '.join(names)}" if names else "no flavor with a topology"
            pods.append(replace(one, error=problem))
    return replace(assignment, pod_sets=tuple(pods), wishes=wishes)


def _as_held(request: Request, one: PodSetAssignment) -> PodSetAssignment:
    """Return an assignment with the pods that have their quota, which may be fewer, and the places of those that do.

    workload.go totalRequestsFromAdmission.
    """
    held = request.workload.held.get(one.name)
    if held is None:
        return one
    return replace(one, pods=held.pods, requests=held.usage, place=held.place, delayed=held.delayed)


def _is_placed(request: Request, spec: PodSet) -> bool:
    return (spec.topology is not None and spec.topology.explicit) or request.everywhere


def _hindered(assignment: Assignment, name: str, mode: Mode, problem: Hindrance | None) -> Assignment:
    """Return an assignment with another mode for a pod set's flavors, and for its attempt at the hindrance's flavor."""
    return replace(
        assignment,
        pod_sets=tuple(_hinder(one, mode, problem) if one.name == name else one for one in assignment.pod_sets),
    )


def _hinder(pods: PodSetAssignment, mode: Mode, problem: Hindrance | None) -> PodSetAssignment:
    flavors = {resource: choice._replace(mode=mode) for resource, choice in pods.flavors.items()}
    if problem is None:
        return replace(pods, flavors=flavors)
    attempts = tuple(
        one._replace(mode=mode, hindrances=(problem,)) if one.flavor == problem.flavor else one for one in pods.attempts
    )
    return replace(pods, flavors=flavors, hindrances=(*pods.hindrances, problem), attempts=attempts)
