"""Conversion between quota's pod sets and the pod sets, placements and assignments of topology-aware scheduling."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.taints import lasting_tolerations
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.quota.topology.types import TopologyAssignment
from zonewise_scheduler.tas.tree.topology_assignments import delete_domain
from zonewise_scheduler.tas.types import TASPodSetRequests
from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE
from zonewise_scheduler.tas.zones.zone_level import as_host_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.quota.api.workload_types import Amounts, PodSet, PodSetAdmission, Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
    from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest


class PodSetPlacement(NamedTuple):
    """The pods of one pod set on their leaves."""

    pod_set: str
    flavor: str
    assignment: TopologyAssignment
    single_pod_requests: Amounts
    """Requests of one pod on its node, by resource."""
    shape: PodShape | None
    zone_slice_size: int = ANY_ZONE
    """See zones/node_filling.py."""


def requested_topology(pod_set: PodSet) -> PodSetTopologyRequest | None:
    """Return the topology request of a pod set; None if it is only implied."""
    return pod_set.topology.request if pod_set.topology is not None and pod_set.topology.explicit else None


def tas_pod_set_requests(request: PlacementRequest, *, strict: bool = True) -> tuple[TASPodSetRequests, int]:
    """Return a placement request in terms of hosts, and its zone slice size (zones/node_filling.py).

    Pods are placed only where they can remain. `strict`: a preferred zone is treated as required.
    """
    pod_set, topology = request.pod_set, request.pod_set.topology
    host_request, zone_slice_size = as_host_request(requested_topology(pod_set), strict=strict)
    tolerations = lasting_tolerations(pod_set.tolerations)
    constraints = Constraints(tolerations=tolerations, selector=pod_set.node_selector, terms=pod_set.required_terms)
    tas_requests = TASPodSetRequests(
        pod_set.name,
        request.pods,
        pod_set.requests_on_node,
        host_request,
        constraints,
        pod_set.preferred_terms,
        topology.pod_set_group_name if topology is not None else "",
    )
    return tas_requests, zone_slice_size


def group_pod_sets(requests: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    """Return the groups of requests, in the order of their first requests.

    The leader, which is one pod, precedes its workers. If both pod sets have one pod, the second is the leader.
    """
    reversed_groups = (group[::-1] for group in _group_requests(requests))
    return [sorted(group, key=lambda request: request.pods) for group in reversed_groups]


def split_groups(requests: Sequence[PlacementRequest]) -> list[list[PlacementRequest]]:
    """Return each request as a group of its own, in the order of `group_pod_sets`."""
    return [[request] for group in group_pod_sets(requests) for request in group]


def _group_requests(requests: Sequence[PlacementRequest]) -> Iterable[list[PlacementRequest]]:
    groups: dict[tuple[str, int], list[PlacementRequest]] = {}
    for i, request in enumerate(requests):
        group_name = _group_name(request.pod_set)
        groups.setdefault((group_name, -1 if group_name else i), []).append(request)
    return groups.values()


def pod_set_placements(
    workload: Workload, has_topology: Callable[[str], bool], held: Workload | None = None
) -> list[PodSetPlacement]:
    """Return the placements of a workload's admission beyond those of `held`, in the order of the search.

    The order is by flavor, with leaders before their workers. `has_topology`: returns whether a flavor has a topology.
    Reclaimable pods are still included.
    """
    if workload.admission is None:
        return []
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    held_assignments = (
        {}
        if held is None
        else {placement.pod_set: placement.assignment for placement in pod_set_placements(held, has_topology)}
    )
    placements: list[PodSetPlacement] = []
    for admission in workload.admission.pod_sets:
        flavor, assignment = _topology_flavor(admission, has_topology), admission.topology_assignment
        if flavor and assignment is not None and admission.name in pod_sets:
            assignment = subtract_assignment(assignment, held_assignments.get(admission.name))
            placements.append(_build_placement(pod_sets[admission.name], flavor, assignment))
    if len(placements) < 2:
        return placements
    pod_counts = {admission.name: admission.pods for admission in workload.admission.pod_sets}
    sort_keys = {
        pod_set.name: (_group_index(workload, pod_set), pod_counts.get(pod_set.name, 0), -i)
        for i, pod_set in enumerate(workload.pod_sets)
    }
    return sorted(placements, key=lambda placement: (placement.flavor, sort_keys[placement.pod_set]))


def new_placements(
    workload: Workload,
    requests: Sequence[PlacementRequest],
    assignments: Mapping[str, TopologyAssignment],
    has_topology: Callable[[str], bool],
    unhealthy_node: str = "",
) -> list[PodSetPlacement]:
    """Return the placements of new assignments, without the pods that keep their current leaves.

    `unhealthy_node`: its pods are replaced; pods that are assigned to it again count as new
    (findReplacementAssignment).
    """
    retained = {
        placement.pod_set: delete_domain(placement.assignment, unhealthy_node)[0]
        for placement in pod_set_placements(workload, has_topology)
    }
    return [
        _build_placement(request.pod_set, request.flavor, subtract_assignment(assignments[name], retained.get(name)))
        for request in requests
        if (name := request.pod_set.name) in assignments
    ]


def subtract_assignment(new: TopologyAssignment, old: TopologyAssignment | None) -> TopologyAssignment:
    """Return, for each domain, the pods of an assignment that exceed those of the old assignment."""
    if old is None:
        return new
    old_pods = {domain.values: domain.pods for domain in old.domains}
    domains = (domain._replace(pods=domain.pods - old_pods.get(domain.values, 0)) for domain in new.domains)
    return TopologyAssignment(new.levels, tuple(domain for domain in domains if domain.pods > 0))


def _build_placement(pod_set: PodSet, flavor: str, assignment: TopologyAssignment) -> PodSetPlacement:
    zone_slice_size = as_host_request(requested_topology(pod_set), strict=False)[1]
    return PodSetPlacement(pod_set.name, flavor, assignment, pod_set.requests_on_node, pod_set.shape, zone_slice_size)


def _group_name(pod_set: PodSet) -> str:
    return "" if pod_set.topology is None else pod_set.topology.pod_set_group_name


def _group_index(workload: Workload, pod_set: PodSet) -> int:
    """Return the index of the first pod set in a pod set's group."""
    group_name = _group_name(pod_set)
    return next(
        i
        for i, candidate in enumerate(workload.pod_sets)
        if candidate.name == pod_set.name or (group_name and _group_name(candidate) == group_name)
    )


def _topology_flavor(admission: PodSetAdmission, has_topology: Callable[[str], bool]) -> str:
    """Return the flavor in whose topology the pods are assigned; "" if none of their flavors has a topology."""
    return min(filter(has_topology, admission.flavors.values()), default="")
