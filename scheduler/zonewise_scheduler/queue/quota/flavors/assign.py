"""The flavors of a workload's pod sets (flavorassigner.go assignFlavors).

Pod sets get flavors in their order, those of one group (leader and workers) together; each counts on what those before
it get. All resources of a resource group get the same flavor. Once a pod set gets none, those behind it are not tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.flavors.assignment import (
    Assignment,
    FlavorChoice,
    Hindrance,
    PodSetAssignment,
    least_severe,
    most_severe,
)
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.flavors.placing import placed
from zonewise_scheduler.queue.quota.flavors.scan import scan, suits
from zonewise_scheduler.queue.quota.model.amounts import plus, turn_of
from zonewise_scheduler.queue.quota.model.quotas import FlavorResource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.queue.quota.flavors.assignment import Attempt, Why
    from zonewise_scheduler.queue.quota.flavors.scan import Request
    from zonewise_scheduler.queue.quota.model.workload import Total

_PODS = "pods"

Needed = tuple[tuple[FlavorResource, int], ...]
"""What is asked of a flavor."""
Alternatives = tuple[Needed, ...]
"""Of these one has to be had as a whole."""


def assign(request: Request, counts: Sequence[int] | None = None) -> Assignment:
    """Return the flavors of a workload; `counts` of pods by pod set, None: all of them."""
    totals = request.workload.totals
    if counts is not None:
        totals = tuple(one.scaled(count) for one, count in zip(totals, counts, strict=True))
    totals = tuple(_with_pods(request, one) for one in totals)
    found: dict[int, PodSetAssignment] = {}
    usage: dict[FlavorResource, int] = {}
    for places in _groups(request):
        found |= _assign_group(request, places, totals, usage)
        for place in places:
            _use(request, found[place], usage)
        if any(found[place].mode == Mode.NO_FIT for place in places):
            break
    assignment = Assignment(tuple(found[place] for place in sorted(found)), usage)
    if assignment.mode != Mode.NO_FIT:
        assignment = placed(request, assignment)
    return replace(assignment, why=_why(request, assignment)) if assignment.mode == Mode.NO_FIT else assignment


def alternatives(request: Request) -> Alternatives | None:
    """Return what a workload asks for, flavor by flavor of those that suit it and could ever have it.

    None where that is no matter of one scan: of several groups of pod sets or of resources, or of fewer pods.
    """
    groups, declared = _groups(request), request.queue.group_of
    shrinks = any(one.min_pods not in {None, one.pods} for one in request.workload.pod_sets)
    if len(groups) != 1 or request.workload.admission is not None or (shrinks and request.settings.partial_admission):
        return None
    sums = _sums(groups[0], [_with_pods(request, one) for one in request.workload.totals])
    wanted = {name: amount for name, amount in sums.items() if amount}
    if len({id(declared.get(name)) for name in sums if name in declared}) != 1 or not wanted.keys() <= declared.keys():
        return None
    group = declared[next(name for name in sums if name in declared)]
    found = [
        tuple((FlavorResource(name, resource), amount) for resource, amount in wanted.items())
        for name in group.names
        if suits(request, groups[0], name, group)
    ]
    return tuple(one for one in found if all(amount <= request.queue.potential(key) for key, amount in one))


def _with_pods(request: Request, total: Total) -> Total:
    """Return what a pod set asks for, with its pods where the queue has quota of those."""
    if _PODS not in request.queue.group_of:
        return total
    return total._replace(requests={**total.requests, _PODS: total.pods})


def _groups(request: Request) -> list[list[int]]:
    """Return the places of the pod sets, those of a group together."""
    found: dict[str | int, list[int]] = {}
    for place, one in enumerate(request.workload.pod_sets):
        name = one.topology.group if one.topology is not None else ""
        found.setdefault(name or place, []).append(place)
    return list(found.values())


def _assign_group(
    request: Request, places: list[int], totals: tuple[Total, ...], usage: dict[FlavorResource, int]
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
            attempts=attempts,
        )
        for place in places
    }


def _sums(places: Iterable[int], totals: Sequence[Total]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for place in places:
        for name, amount in totals[place].requests.items():
            sums[name] = plus(sums.get(name, 0), amount)
    return sums


def _choose(
    request: Request, places: list[int], sums: Mapping[str, int], usage: dict[FlavorResource, int]
) -> tuple[dict[str, FlavorChoice], tuple[Hindrance, ...], tuple[Attempt, ...]]:
    """Choose the flavors of a group of pod sets, resource by resource; none where one of them gets none."""
    declared = request.queue.group_of
    choices = _given(request, places)
    hindrances: list[Hindrance] = []
    attempts: list[Attempt] = []
    for resource in sorted(sums, key=turn_of):
        if resource not in declared and sums[resource] and not request.settings.ignore_undeclared:
            problem = Hindrance("NoMatchingFlavor", resource=resource, detail="the queue has no quota of it")
            return {}, (problem,), tuple(attempts)
        if resource in choices or resource not in declared:
            continue
        found = scan(request, places, sums, resource, usage)
        attempts += found.attempts
        if not found.choices:
            return {}, found.hindrances, tuple(attempts)
        choices |= found.choices
        hindrances += found.hindrances
    return choices, tuple(hindrances), tuple(attempts)


def _given(request: Request, places: list[int]) -> dict[str, FlavorChoice]:
    """Return the flavors that it has already: it is in the queue again only for places."""
    found: dict[str, FlavorChoice] = {}
    for place in places:
        held = request.workload.held.get(request.workload.pod_sets[place].name)
        if held is not None:
            found |= {resource: FlavorChoice(name, Mode.FIT) for resource, name in held.flavors.items()}
    return found


def _own(request: Request, total: Total, place: int, choices: Mapping[str, FlavorChoice]) -> Mapping[str, FlavorChoice]:
    """Return the choices of a group for what one pod set asks for.

    One that asks for nothing (a leader) gets the flavors with a topology, so that it is placed with its group.
    """
    if total.requests:
        return {resource: choice for resource, choice in choices.items() if resource in total.requests}
    topology = request.workload.pod_sets[place].topology
    if topology is None or not topology.group:
        return {}
    return {resource: choice for resource, choice in choices.items() if request.snapshot.places.has(choice.name)}


def _use(request: Request, pods: PodSetAssignment, usage: dict[FlavorResource, int]) -> None:
    held = request.replaced.held.get(pods.name) if request.replaced is not None else None
    for resource, choice in pods.flavors.items():
        before = 0 if held is None else held.usage.get(resource, 0)
        key = FlavorResource(choice.name, resource)
        usage[key] = plus(usage.get(key, 0), pods.requests.get(resource, 0) - before)


def _why(request: Request, assignment: Assignment) -> Why:
    """Return the reason that is told: of flavors that would do as well the mildest, of what is all needed the worst.

    resolveNoFitReason.
    """
    reasons: list[Why] = []
    for pods in assignment.pod_sets:
        if pods.mode != Mode.NO_FIT:
            continue
        if not pods.attempts:
            reasons.append("NoMatchingFlavor")
            continue
        by_group: dict[object, list[Why]] = {}
        for one in pods.attempts:
            if one.mode == Mode.NO_FIT:
                by_group.setdefault(_group_of(request, one.flavor), []).append(one.why)
        reasons += map(least_severe, by_group.values())
    return most_severe(reasons)


def _group_of(request: Request, flavor: str) -> object:
    for place, group in enumerate(request.queue.spec.groups):
        if flavor in group.names:
            return place
    return flavor
