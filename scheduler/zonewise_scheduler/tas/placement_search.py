"""Places for pods that are placed together, so that every kubelet admits what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.pod_set_placement import requested_topology, subtract_assignment, tas_pod_set_requests
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import topology_assignment_parameters
from zonewise_scheduler.tas.types import TASFeatureGates
from zonewise_scheduler.tas.zones.admission_trial import PodsOnNodes
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

    Attempt = Callable[[Sequence[TASPodSetRequests]], TASAssignments | TopologyAssignmentFailure]
    """Places pods by the bounds that they have; a leader comes after its workers."""

_TRIES, _ASKED = 64, 512
"""How often a leader is given another host, and how many hosts are asked each time."""


class PlacementSearch(NamedTuple):
    """One set, or a leader and then its workers, that look for places."""

    flavor_topology: FlavorTopology
    admission_trial: AdmissionTrial | None
    """None: nothing is known of kubelets."""
    requests: Sequence[PlacementRequest]
    current_assignments: Mapping[str, TopologyAssignment]
    """Where pods are already."""


class PlacementResult(NamedTuple):
    """What was found, and what it was looked for by."""

    result: TASAssignments | TopologyAssignmentFailure
    pod_sets: list[TASPodSetRequests]
    zone_slice_sizes: list[int]
    """What of each set is to be in one zone."""


def search_placement(problem: PlacementSearch, attempt: Attempt) -> PlacementResult:
    """Return places, which are given to the trial too; what one zone should hold is tried first as if it must."""
    outcome = _search(problem, attempt, strict=True)
    softer = [tas_pod_set_requests(wish, strict=False) for wish in problem.requests]
    if (
        isinstance(outcome.result, TopologyAssignmentFailure)
        and [whole for _, whole in softer] != outcome.zone_slice_sizes
    ):
        outcome = _search(problem, attempt, strict=False)
    return outcome


def _search(one: PlacementSearch, attempt: Attempt, *, strict: bool) -> PlacementResult:
    pairs = [tas_pod_set_requests(wish, strict=strict) for wish in one.requests]
    pod_sets, wholes = [pods for pods, _ in pairs], [whole for _, whole in pairs]
    problem = _problem(one)
    if problem is not None or one.admission_trial is None:
        return PlacementResult(problem or attempt(pod_sets[::-1]), pod_sets, wholes)
    pod_sets = [_bound(one, one.admission_trial, place, pods, wholes[place]) for place, pods in enumerate(pod_sets)]
    found = attempt(pod_sets[::-1])
    asked = np.zeros(one.flavor_topology.tree.leaf_count, np.bool_)
    for _ in range(_TRIES):
        if isinstance(found, TopologyAssignmentFailure):
            return PlacementResult(found, pod_sets, wholes)
        given = _given(one, wholes, found.assignments)
        short = one.admission_trial.shortfalls(given)
        if not short:
            one.admission_trial.assume(given)
            return PlacementResult(found, pod_sets, wholes)
        pod_sets[-1] = _beside(one, one.admission_trial, pod_sets, wholes[-1], (asked, short))
        found = attempt(pod_sets[::-1])
    problem = TopologyAssignmentFailure(
        pod_sets[-1].name, one.flavor_topology.tree.name, f"no host of {_TRIES} takes the leader beside workers"
    )
    return PlacementResult(problem, pod_sets, wholes)


def _problem(one: PlacementSearch) -> TopologyAssignmentFailure | None:
    """Return why a request that is about zones makes no sense, in the words in which that is told of other levels."""
    for wish in one.requests:
        request = requested_topology(wish.pod_set)
        if requests_zones(request):
            pods = tas_pod_set_requests(wish)[0]._replace(topology_request=request)
            found = topology_assignment_parameters(
                (*one.flavor_topology.tree.level_keys, ZONE_LEVEL), pods, TASFeatureGates(), has_leader=False
            )
            if isinstance(found, str):
                return TopologyAssignmentFailure(wish.pod_set.name, one.flavor_topology.tree.name, found)
    return None


def _bound(
    one: PlacementSearch, trial: AdmissionTrial, place: int, pods: TASPodSetRequests, whole: int
) -> TASPodSetRequests:
    """Return pods with how many of them each host takes."""
    shape = one.requests[place].pod_set.shape
    if shape is None:
        return pods
    return pods._replace(max_pods=trial.max_pods(shape, _limit(one, pods), whole)[one.flavor_topology.leaf_rows])


def _limit(one: PlacementSearch, pods: TASPodSetRequests) -> int:
    """Return how many pods any host has room for at most."""
    return min(pods.pod_count, int(one.flavor_topology.nodes.available("pods").max(initial=0)))


def _given(one: PlacementSearch, wholes: Sequence[int], found: Mapping[str, TopologyAssignment]) -> list[PodsOnNodes]:
    """Return the pods that are new on hosts, of the sets of which the shape is known."""
    rows = one.flavor_topology.leaf_rows
    made: list[PodsOnNodes] = []
    for wish, whole in zip(one.requests, wholes, strict=True):
        name, shape = wish.pod_set.name, wish.pod_set.shape
        if shape is not None and name in found:
            at = subtract_assignment(found[name], one.current_assignments.get(name))
            leaves = ((one.flavor_topology.tree.find_leaf(domain.values), domain.pods) for domain in at.domains)
            made.append(
                PodsOnNodes(name, shape, whole, {int(rows[leaf]): pods for leaf, pods in leaves if leaf is not None})
            )
    return made


def _beside(
    one: PlacementSearch,
    trial: AdmissionTrial,
    pod_sets: Sequence[TASPodSetRequests],
    whole: int,
    known: tuple[NDArray[np.bool_], Mapping[tuple[str, int], int]],
) -> TASPodSetRequests:
    """Return the workers with how many of them hosts take beside the leader: those that were short, and some others."""
    leader, workers = pod_sets
    asked, short = known
    first, shape = (wish.pod_set.shape for wish in one.requests)
    rows, pods = one.flavor_topology.leaf_rows, workers.max_pods
    found = workers.max_pods_with_leader
    if first is None or shape is None or pods is None or leader.max_pods is None:
        return workers
    found = pods.copy() if found is None else found.copy()
    missed = np.isin(rows, [row for _, row in short])
    others = np.flatnonzero(~asked & ~missed & (leader.max_pods > 0) & (pods > 0))[:_ASKED]
    for leaf in (*np.flatnonzero(missed).tolist(), *others.tolist()):
        found[leaf] = trial.max_pods_with_leader(first, shape, int(pods[leaf]), whole, int(rows[leaf]))
    asked[missed] = asked[others] = True
    for (_, row), fewer in short.items():
        found[rows == row] = np.minimum(found[rows == row], fewer)
    return workers._replace(max_pods_with_leader=found)
