"""Pods as quotas have them, and as topologies do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.quota.topology.types import TopologyAssignment
from zonewise_scheduler.tas.tree.topology_assignments import delete_domain
from zonewise_scheduler.tas.types import TASPodSetRequests
from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE
from zonewise_scheduler.tas.zones.zone_level import as_host_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.quota.api.workload_types import Amounts, PodSetAdmission, Workload
    from zonewise_scheduler.quota.api.workload_types import PodSet as Spec
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
    from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest


class PodSetPlacement(NamedTuple):
    """Where pods of one set are."""

    pod_set: str
    flavor: str
    assignment: TopologyAssignment
    single_pod_requests: Amounts
    """Of each pod, from its node."""
    shape: PodShape | None
    zone_slice_size: int = ANY_ZONE
    """What of them must be in one zone (fill.py)."""


def requested_topology(spec: Spec) -> PodSetTopologyRequest | None:
    """Return what a pod set asks of the topology; None: nothing."""
    return spec.topology.request if spec.topology is not None and spec.topology.explicit else None


def tas_pod_set_requests(wish: PlacementRequest, *, strict: bool = True) -> tuple[TASPodSetRequests, int]:
    """Return the pods of a wish as they are placed on hosts, and what of them is to be in one zone (fill.py).

    `strict`: what one zone should hold, it must.
    """
    spec, topology = wish.pod_set, wish.pod_set.topology
    request, whole = as_host_request(requested_topology(spec), strict=strict)
    return TASPodSetRequests(
        spec.name,
        wish.pods,
        spec.requests_on_node,
        request,
        Constraints(tolerations=spec.tolerations, selector=spec.node_selector, terms=spec.required_terms),
        spec.preferred_terms,
        topology.pod_set_group_name if topology is not None else "",
    ), whole


def group_pod_sets(wishes: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    """Return wishes that are placed together, in the order of the first ones.

    The leader, which is one pod, is before its workers; of two sets of one pod each it is the second.
    """
    turned = (group[::-1] for group in _grouped(wishes))
    return [sorted(group, key=_pods) for group in turned]


def split_groups(wishes: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    """Return wishes each on its own, those of a group one after the other where its first one is."""
    return [[one] for group in _grouped(wishes) for one in group]


def _grouped(wishes: Sequence[PlacementRequest]) -> Iterable[list[PlacementRequest]]:
    found: dict[tuple[str, int], list[PlacementRequest]] = {}
    for number, one in enumerate(wishes):
        group = _group(one.pod_set)
        found.setdefault((group, -1 if group else number), []).append(one)
    return found.values()


def pod_set_placements(
    workload: Workload, has: Callable[[str], bool], held: Workload | None = None
) -> list[PodSetPlacement]:
    """Return where the pods of a workload's admission are, beyond those that `held` has there; leaders come first.

    `has`: whether a flavor has a topology. Pods that are no longer needed take their places still.
    """
    if workload.admission is None:
        return []
    specs = {one.name: one for one in workload.pod_sets}
    before = {} if held is None else {one.pod_set: one.assignment for one in pod_set_placements(held, has)}
    found: list[PodSetPlacement] = []
    for one in workload.admission.pod_sets:
        flavor = _flavor(one, has)
        if flavor and isinstance(one.topology_assignment, TopologyAssignment) and one.name in specs:
            more = subtract_assignment(one.topology_assignment, before.get(one.name))
            found.append(_spot(specs[one.name], flavor, more))
    if len(found) < 2:
        return found
    turns = {one.name: (_first(workload, one), one.pods, -at) for at, one in enumerate(workload.pod_sets)}
    return sorted(found, key=lambda spot: turns[spot.pod_set])


def new_placements(
    workload: Workload,
    wishes: Sequence[PlacementRequest],
    assignments: Mapping[str, TopologyAssignment],
    has: Callable[[str], bool],
    unhealthy_node: str = "",
) -> list[PodSetPlacement]:
    """Return the places that wishes were given, beyond those that the workload has and keeps.

    `failed`: a node that its pods move from; those that come back to it come anew (findReplacementAssignment).
    """
    before = {
        one.pod_set: delete_domain(one.assignment, unhealthy_node)[0] for one in pod_set_placements(workload, has)
    }
    return [
        _spot(wish.pod_set, wish.flavor, subtract_assignment(assignments[name], before.get(name)))
        for wish in wishes
        if (name := wish.pod_set.name) in assignments
    ]


def subtract_assignment(new: TopologyAssignment, old: TopologyAssignment | None) -> TopologyAssignment:
    """Return the pods of an assignment that are more than another has in the same domain."""
    if old is None:
        return new
    before = {domain.values: domain.pods for domain in old.domains}
    more = (domain._replace(pods=domain.pods - before.get(domain.values, 0)) for domain in new.domains)
    return TopologyAssignment(new.levels, tuple(domain for domain in more if domain.pods > 0))


def _spot(spec: Spec, flavor: str, at: TopologyAssignment) -> PodSetPlacement:
    return PodSetPlacement(
        spec.name,
        flavor,
        at,
        spec.requests_on_node,
        spec.shape,
        as_host_request(requested_topology(spec), strict=False)[1],
    )


def _group(spec: Spec) -> str:
    return "" if spec.topology is None else spec.topology.pod_set_group_name


def _pods(wish: PlacementRequest) -> int:
    return wish.pods


def _first(workload: Workload, spec: Spec) -> int:
    """Return the place of the first pod set of a set's group."""
    group = _group(spec)
    return next(
        place
        for place, one in enumerate(workload.pod_sets)
        if one.name == spec.name or (group and _group(one) == group)
    )


def _flavor(one: PodSetAdmission, has: Callable[[str], bool]) -> str:
    """Return the flavor in whose topology the pods are, "" where there is none."""
    return min(filter(has, one.flavors.values()), default="")
