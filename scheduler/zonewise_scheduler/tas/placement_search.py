"""The search for topology assignments that every kubelet admits, and the explanation if there are none.

The search for an assignment is repeated with tighter bounds until the kubelets admit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.pod_set_placement import requested_topology, subtract_assignment, tas_pod_set_requests
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import topology_assignment_parameters
from zonewise_scheduler.tas.types import TASFeatureGates
from zonewise_scheduler.tas.zones.admission_trial import PodsOnNodes
from zonewise_scheduler.tas.zones.node_filling import (
    ANY_ZONE,
    MAX_PODS,
    SINGLE_ZONE,
    fill_node,
    in_whole_slices,
    predict_admission,
)
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL, requests_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
    from zonewise_scheduler.tas.types import TASPodSetRequests
    from zonewise_scheduler.tas.zones.admission_trial import AdmissionTrial

    FindAssignments = Callable[[Sequence[TASPodSetRequests]], TASAssignments | TopologyAssignmentFailure]
    """Finds assignments within the bounds of the pod sets; a leader comes after its workers."""

_MAX_ATTEMPTS = 64
"""Maximum number of attempts to assign a leader and its workers to hosts."""

_CHECKED_HOSTS = 512
"""Maximum number of further hosts for which each attempt computes the bound with the leader."""


class PlacementSearch(NamedTuple):
    """The input of a search: one pod set, or a leader and then its workers."""

    flavor_topology: FlavorTopology
    admission_trial: AdmissionTrial | None
    """None: the kubelets are unknown."""
    requests: Sequence[PlacementRequest]
    current_assignments: Mapping[str, TopologyAssignment]


class PlacementResult(NamedTuple):
    """The result of a search, and the bounded pod sets to which it applies."""

    result: TASAssignments | TopologyAssignmentFailure
    pod_sets: list[TASPodSetRequests]
    zone_slice_sizes: list[int]
    """By pod set; see zones/node_filling.py."""


def search_placement(search: PlacementSearch, find_assignments: FindAssignments) -> PlacementResult:
    """Return the assignments, and assume their pods in the trial, or return why there are none.

    A preferred zone is first treated as required.
    """
    strict = _search(search, find_assignments, strict=True)
    zone_slice_sizes = [tas_pod_set_requests(request, strict=False)[1] for request in search.requests]
    if isinstance(strict.result, TopologyAssignmentFailure) and zone_slice_sizes != strict.zone_slice_sizes:
        return _search(search, find_assignments, strict=False)
    return strict


def _search(search: PlacementSearch, find_assignments: FindAssignments, *, strict: bool) -> PlacementResult:
    pairs = [tas_pod_set_requests(request, strict=strict) for request in search.requests]
    pod_sets, zone_slice_sizes = [pod_set for pod_set, _ in pairs], [size for _, size in pairs]
    problem, trial = _zone_request_problem(search), search.admission_trial
    if problem is not None or trial is None:
        return PlacementResult(problem or find_assignments(pod_sets[::-1]), pod_sets, zone_slice_sizes)
    pod_sets = [
        _bound_pod_set(search, trial, request, pod_set, zone_slice_size)
        for request, pod_set, zone_slice_size in zip(search.requests, pod_sets, zone_slice_sizes, strict=True)
    ]
    result = find_assignments(pod_sets[::-1])
    checked = np.zeros(search.flavor_topology.tree.leaf_count, np.bool_)
    for _ in range(_MAX_ATTEMPTS):
        if isinstance(result, TopologyAssignmentFailure):
            return PlacementResult(result, pod_sets, zone_slice_sizes)
        new_pods = _new_pods_on_nodes(search, zone_slice_sizes, result.assignments)
        shortfalls = trial.shortfalls(new_pods)
        if not shortfalls:
            trial.assume(new_pods)
            return PlacementResult(result, pod_sets, zone_slice_sizes)
        pod_sets[-1] = _bound_beside_leader(search, trial, pod_sets, zone_slice_sizes[-1], (checked, shortfalls))
        result = find_assignments(pod_sets[::-1])
    failure = TopologyAssignmentFailure(
        pod_sets[-1].name,
        search.flavor_topology.tree.name,
        f"no host admits the leader and its workers in {_MAX_ATTEMPTS} attempts",
    )
    return PlacementResult(failure, pod_sets, zone_slice_sizes)


def _zone_request_problem(search: PlacementSearch) -> TopologyAssignmentFailure | None:
    """Return why a request that names the zone level is invalid, with the same messages as for other levels."""
    tree = search.flavor_topology.tree
    for request in search.requests:
        topology_request = requested_topology(request.pod_set)
        if requests_zones(topology_request):
            on_hosts, _ = tas_pod_set_requests(request)
            pod_set = on_hosts._replace(topology_request=topology_request)
            params = topology_assignment_parameters(
                (*tree.level_keys, ZONE_LEVEL), pod_set, TASFeatureGates(), has_leader=False
            )
            if isinstance(params, str):
                return TopologyAssignmentFailure(request.pod_set.name, tree.name, params)
    return None


def _bound_pod_set(
    search: PlacementSearch,
    trial: AdmissionTrial,
    request: PlacementRequest,
    pod_set: TASPodSetRequests,
    zone_slice_size: int,
) -> TASPodSetRequests:
    """Return the pod set, bounded by the number of pods that each host admits.

    A host that admits all pods has no bound. Its free capacity then decides how well it fits, as in Kueue.
    """
    shape = request.pod_set.shape
    if shape is None:
        return pod_set
    pods = in_whole_slices(pod_set.pod_count, zone_slice_size)
    limit = min(pods, int(search.flavor_topology.nodes.available("pods").max(initial=0)))
    max_pods = trial.max_pods(shape, limit, zone_slice_size)[search.flavor_topology.leaf_rows]
    return pod_set._replace(max_pods=np.where(max_pods < limit, max_pods, MAX_PODS))


def _new_pods_on_nodes(
    search: PlacementSearch, zone_slice_sizes: Sequence[int], assignments: Mapping[str, TopologyAssignment]
) -> list[PodsOnNodes]:
    """Return the pods that exceed the current assignments, for the pod sets whose shape is known."""
    tree, leaf_rows = search.flavor_topology.tree, search.flavor_topology.leaf_rows
    new_pods: list[PodsOnNodes] = []
    for request, zone_slice_size in zip(search.requests, zone_slice_sizes, strict=True):
        name, shape = request.pod_set.name, request.pod_set.shape
        if shape is not None and name in assignments:
            new_assignment = subtract_assignment(assignments[name], search.current_assignments.get(name))
            pods_by_leaf = ((tree.find_leaf(domain.values), domain.pods) for domain in new_assignment.domains)
            pods_by_row = {int(leaf_rows[leaf]): pods for leaf, pods in pods_by_leaf if leaf is not None}
            new_pods.append(PodsOnNodes(name, shape, zone_slice_size, pods_by_row))
    return new_pods


def _bound_beside_leader(
    search: PlacementSearch,
    trial: AdmissionTrial,
    pod_sets: Sequence[TASPodSetRequests],
    zone_slice_size: int,
    progress: tuple[NDArray[np.bool_], Mapping[tuple[str, int], int]],
) -> TASPodSetRequests:
    """Return the workers with tighter bounds with the leader, on hosts with a shortfall and on some other hosts.

    `progress`: the mask of leaves whose bound is computed, updated in place, and the shortfalls by pod set and row.
    """
    leader, workers = pod_sets
    checked, shortfalls = progress
    leader_shape, shape = (request.pod_set.shape for request in search.requests)
    leaf_rows, max_pods = search.flavor_topology.leaf_rows, workers.max_pods
    if leader_shape is None or shape is None or max_pods is None or leader.max_pods is None:
        return workers
    previous = workers.max_pods_with_leader
    bounds = max_pods.copy() if previous is None else previous.copy()
    short = np.isin(leaf_rows, [row for _, row in shortfalls])
    others = np.flatnonzero(~checked & ~short & (leader.max_pods > 0) & (max_pods > 0))[:_CHECKED_HOSTS]
    for leaf in (*np.flatnonzero(short).tolist(), *others.tolist()):
        limit = min(int(max_pods[leaf]), in_whole_slices(workers.pod_count, zone_slice_size))
        admitted = trial.max_pods_with_leader(leader_shape, shape, limit, zone_slice_size, int(leaf_rows[leaf]))
        bounds[leaf] = admitted if admitted < limit else max_pods[leaf]
    checked[short] = checked[others] = True
    for (_, row), admitted in shortfalls.items():
        bounds[leaf_rows == row] = np.minimum(bounds[leaf_rows == row], admitted)
    return workers._replace(max_pods_with_leader=bounds)


def explain_failure(
    search: PlacementSearch, result: PlacementResult, failure: TopologyAssignmentFailure
) -> TopologyPlacementFailure:
    """Return the failure in quota's terms; if a kubelet is the cause, include the reason of its rejection."""
    explanation = TopologyPlacementFailure(
        failure.pod_set,
        search.flavor_topology.flavor.name,
        str(failure),
        failure.level,
        failure.domain,
        resources=tuple(failure.exclusions.resources),
    )
    names = [pod_set.name for pod_set in result.pod_sets]
    i = names.index(failure.pod_set) if failure.pod_set in names else 0
    max_pods, zone_slice_size = result.pod_sets[i].max_pods, result.zone_slice_sizes[i]
    shape, trial = search.requests[i].pod_set.shape, search.admission_trial
    if trial is None or shape is None or max_pods is None or failure.problem or not max_pods.size:
        return explanation
    leaf = _limiting_leaf(search, max_pods, failure)
    row = int(search.flavor_topology.leaf_rows[leaf])
    state = trial.node_state(row)
    if state is None:
        return explanation
    pods = in_whole_slices(result.pod_sets[i].pod_count, zone_slice_size)
    filled = fill_node(state, shape, min(int(max_pods[leaf]), pods), zone_slice_size)
    if zone_slice_size == SINGLE_ZONE:
        zones = [str(zone) for zone in state.kind.zones if filled.zones >> zone & 1]
        explanation = explanation._replace(level=ZONE_LEVEL, domain=(*failure.domain, *zones))
    verdict = predict_admission(filled.state, shape)
    if verdict.admitted and zone_slice_size == ANY_ZONE:
        return explanation
    reason = explain_rejection(filled.state, shape, verdict) or "the next pod would be in another zone"
    return explanation._replace(node=search.flavor_topology.nodes.name(row), kubelet_reason=reason)


def _limiting_leaf(search: PlacementSearch, max_pods: NDArray[np.int64], failure: TopologyAssignmentFailure) -> int:
    """Return the host that the failure names, or else the first of the hosts that admit the most pods."""
    leaf = search.flavor_topology.tree.find_leaf(failure.domain[-1:]) if failure.level == HOSTNAME else None
    return int(max_pods.argmax()) if leaf is None else leaf
