"""The flavors of a workload's pod sets (flavorassigner.go assignFlavors).

Pod sets get flavors in their order, those of one group (leader and workers) together; each counts on what those before
it get. All resources of a resource group get the same flavor. Once a pod set gets none, those behind it are not tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import hash_resource_name, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.flavorassigner.assignment import (
    Assignment,
    FlavorAssignment,
    FlavorStatus,
    PodSetAssignment,
    least_severe_reason,
    most_severe_reason,
)
from zonewise_scheduler.quota.flavorassigner.flavor_scan import find_flavor_for_pod_sets, is_flavor_suitable
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import update_assignment_for_tas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import PodSetResources
    from zonewise_scheduler.quota.flavorassigner.assignment import ConsideredFlavor, NoFitReason
    from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner

_PODS = "pods"

FlavorRequests = tuple[tuple[FlavorResource, int], ...]
"""What is asked of a flavor."""
FlavorAlternatives = tuple[FlavorRequests, ...]
"""Of these one has to be had as a whole."""


def assign_flavors(assigner: FlavorAssigner, counts: Sequence[int] | None = None) -> Assignment:
    """Return the flavors of a workload; `counts` of pods by pod set, None: all of them."""
    totals = assigner.workload.total_requests
    if counts is not None:
        totals = tuple(one.scaled_to(count) for one, count in zip(totals, counts, strict=True))
    totals = tuple(_with_pods(assigner, one) for one in totals)
    found: dict[int, PodSetAssignment] = {}
    usage: dict[FlavorResource, int] = {}
    for places in _groups(assigner):
        found |= _assign_group(assigner, places, totals, usage)
        for place in places:
            _use(assigner, found[place], usage)
        if any(found[place].representative_mode == FlavorAssignmentMode.NO_FIT for place in places):
            break
    assignment = Assignment(tuple(found[place] for place in sorted(found)), usage)
    if assignment.representative_mode != FlavorAssignmentMode.NO_FIT:
        assignment = update_assignment_for_tas(assigner, assignment)
    return (
        replace(assignment, no_fit_reason=_why(assigner, assignment))
        if assignment.representative_mode == FlavorAssignmentMode.NO_FIT
        else assignment
    )


def flavor_alternatives(assigner: FlavorAssigner) -> FlavorAlternatives | None:
    """Return what a workload asks for, flavor by flavor of those that suit it and could ever have it.

    None where that is no matter of one scan: of several groups of pod sets or of resources, or of fewer pods.
    """
    groups, declared = _groups(assigner), assigner.queue.rg_by_resource
    shrinks = any(one.min_pods not in {None, one.pods} for one in assigner.workload.pod_sets)
    if len(groups) != 1 or assigner.workload.admission is not None or (shrinks and assigner.settings.partial_admission):
        return None
    sums = _sums(groups[0], [_with_pods(assigner, one) for one in assigner.workload.total_requests])
    wanted = {name: amount for name, amount in sums.items() if amount}
    if len({id(declared.get(name)) for name in sums if name in declared}) != 1 or not wanted.keys() <= declared.keys():
        return None
    group = declared[next(name for name in sums if name in declared)]
    found = [
        tuple((FlavorResource(name, resource), amount) for resource, amount in wanted.items())
        for name in group.flavor_names
        if is_flavor_suitable(assigner, groups[0], name, group)
    ]
    return tuple(one for one in found if all(amount <= assigner.queue.potential_available(key) for key, amount in one))


def _with_pods(request: FlavorAssigner, total: PodSetResources) -> PodSetResources:
    """Return what a pod set asks for, with its pods where the queue has quota of those."""
    if _PODS not in request.queue.rg_by_resource:
        return total
    return total._replace(requests={**total.requests, _PODS: total.pods})


def _groups(request: FlavorAssigner) -> list[list[int]]:
    """Return the places of the pod sets, those of a group together."""
    found: dict[str | int, list[int]] = {}
    for place, one in enumerate(request.workload.pod_sets):
        name = one.topology.pod_set_group_name if one.topology is not None else ""
        found.setdefault(name or place, []).append(place)
    return list(found.values())


def _assign_group(
    request: FlavorAssigner, places: list[int], totals: tuple[PodSetResources, ...], usage: dict[FlavorResource, int]
) -> dict[int, PodSetAssignment]:
    sums = _sums(places, totals)
    choices, hindrances, attempts = _choose(request, places, sums, usage)
    return {
        place: PodSetAssignment(
            totals[place].name,
            totals[place].pods,
            totals[place].requests,
            _own(request, totals[place], place, choices),
            hindrances,
            considered_flavors=attempts,
        )
        for place in places
    }


def _sums(places: Iterable[int], totals: Sequence[PodSetResources]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for place in places:
        for name, amount in totals[place].requests.items():
            sums[name] = plus(sums.get(name, 0), amount)
    return sums


def _choose(
    request: FlavorAssigner, places: list[int], sums: Mapping[str, int], usage: dict[FlavorResource, int]
) -> tuple[dict[str, FlavorAssignment], tuple[FlavorStatus, ...], tuple[ConsideredFlavor, ...]]:
    """Choose the flavors of a group of pod sets, resource by resource; none where one of them gets none."""
    declared = request.queue.rg_by_resource
    choices = _given(request, places)
    hindrances: list[FlavorStatus] = []
    attempts: list[ConsideredFlavor] = []
    for resource in sorted(sums, key=hash_resource_name):
        if resource not in declared and sums[resource] and not request.settings.ignore_undeclared_resources:
            problem = FlavorStatus("NoMatchingFlavor", resource=resource, message="the queue has no quota of it")
            return {}, (problem,), tuple(attempts)
        if resource in choices or resource not in declared:
            continue
        found = find_flavor_for_pod_sets(request, places, sums, resource, usage)
        attempts += found.considered_flavors
        if not found.flavors:
            return {}, found.statuses, tuple(attempts)
        choices |= found.flavors
        hindrances += found.statuses
    return choices, tuple(hindrances), tuple(attempts)


def _given(request: FlavorAssigner, places: list[int]) -> dict[str, FlavorAssignment]:
    """Return the flavors that it has already: it is in the queue again only for places."""
    found: dict[str, FlavorAssignment] = {}
    for place in places:
        held = request.workload.admitted_pod_sets.get(request.workload.pod_sets[place].name)
        if held is not None:
            found |= {
                resource: FlavorAssignment(name, FlavorAssignmentMode.FIT) for resource, name in held.flavors.items()
            }
    return found


def _own(
    request: FlavorAssigner, total: PodSetResources, place: int, choices: Mapping[str, FlavorAssignment]
) -> Mapping[str, FlavorAssignment]:
    """Return the choices of a group for what one pod set asks for.

    One that asks for nothing (a leader) gets the flavors with a topology, so that it is placed with its group.
    """
    if total.requests:
        return {resource: choice for resource, choice in choices.items() if resource in total.requests}
    topology = request.workload.pod_sets[place].topology
    if topology is None or not topology.pod_set_group_name:
        return {}
    return {
        resource: choice
        for resource, choice in choices.items()
        if request.snapshot.tas_snapshot.has_topology(choice.name)
    }


def _use(request: FlavorAssigner, pods: PodSetAssignment, usage: dict[FlavorResource, int]) -> None:
    held = (
        request.replace_workload_slice.admitted_pod_sets.get(pods.name)
        if request.replace_workload_slice is not None
        else None
    )
    for resource, choice in pods.flavors.items():
        before = 0 if held is None else held.usage.get(resource, 0)
        key = FlavorResource(choice.name, resource)
        usage[key] = plus(usage.get(key, 0), pods.requests.get(resource, 0) - before)


def _why(request: FlavorAssigner, assignment: Assignment) -> NoFitReason:
    """Return the reason that is told: of flavors that would do as well the mildest, of what is all needed the worst.

    resolveNoFitReason.
    """
    reasons: list[NoFitReason] = []
    for pods in assignment.pod_sets:
        if pods.representative_mode != FlavorAssignmentMode.NO_FIT:
            continue
        if not pods.considered_flavors:
            reasons.append("NoMatchingFlavor")
            continue
        by_group: dict[object, list[NoFitReason]] = {}
        for one in pods.considered_flavors:
            if one.mode == FlavorAssignmentMode.NO_FIT:
                by_group.setdefault(_group_of(request, one.flavor), []).append(one.no_fit_reason)
        reasons += map(least_severe_reason, by_group.values())
    return most_severe_reason(reasons)


def _group_of(request: FlavorAssigner, flavor: str) -> object:
    for place, group in enumerate(request.queue.spec.resource_groups):
        if flavor in group.flavor_names:
            return place
    return flavor
