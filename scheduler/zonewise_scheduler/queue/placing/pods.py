"""Pods as quotas have them, and as topologies do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.nodes.constraints import Constraints
from zonewise_scheduler.queue.topology.model import Assignment, PodSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zonewise_scheduler.queue.quota.model.workload import Amounts, PodSetAdmission, Workload
    from zonewise_scheduler.queue.quota.places import Wish


class Spot(NamedTuple):
    """Where pods of one set are."""

    pod_set: str
    flavor: str
    at: Assignment
    requests: Amounts
    """Of each pod, from its node."""


def as_placed(wish: Wish) -> PodSet:
    """Return the pods of a wish as they are placed."""
    spec, topology = wish.pod_set, wish.pod_set.topology
    return PodSet(
        spec.name,
        wish.pods,
        spec.on_node,
        topology.request if topology is not None and topology.explicit else None,
        Constraints(tolerations=spec.tolerations, selector=spec.selector, terms=spec.terms),
        spec.preferences,
        topology.group if topology is not None else "",
    )


def places_of(workload: Workload, has: Callable[[str], bool], held: Workload | None = None) -> list[Spot]:
    """Return where the pods of a workload's admission are, beyond those that `held` has there.

    `has`: whether a flavor has a topology. Pods that are no longer needed take their places still.
    """
    if workload.admission is None:
        return []
    specs = {one.name: one for one in workload.pod_sets}
    before = {} if held is None else {one.pod_set: one.at for one in places_of(held, has)}
    found: list[Spot] = []
    for one in workload.admission.pod_sets:
        flavor = _flavor(one, has)
        if flavor and isinstance(one.place, Assignment) and one.name in specs:
            more = _beyond(one.place, before.get(one.name))
            found.append(Spot(one.name, flavor, more, specs[one.name].on_node))
    return found


def gained(
    workload: Workload, wishes: Sequence[Wish], placed: Mapping[str, Assignment], has: Callable[[str], bool]
) -> list[Spot]:
    """Return the places that wishes were given, beyond those that the workload has."""
    before = {one.pod_set: one.at for one in places_of(workload, has)}
    return [
        Spot(name, wish.flavor, _beyond(placed[name], before.get(name)), wish.pod_set.on_node)
        for wish in wishes
        if (name := wish.pod_set.name) in placed
    ]


def _flavor(one: PodSetAdmission, has: Callable[[str], bool]) -> str:
    """Return the flavor in whose topology the pods are, "" where there is none."""
    return min(filter(has, one.flavors.values()), default="")


def _beyond(new: Assignment, old: Assignment | None) -> Assignment:
    """Return the pods of an assignment that are more than another has in the same domain."""
    if old is None:
        return new
    before = {domain.values: domain.pods for domain in old.domains}
    more = (domain._replace(pods=domain.pods - before.get(domain.values, 0)) for domain in new.domains)
    return Assignment(new.levels, tuple(domain for domain in more if domain.pods > 0))
