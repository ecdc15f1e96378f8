"""Why pods find no place: which level, which domain and, where it is a kubelet, what that one lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE, ONE_ZONE, fill_node, predict_admission
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.tas.placement_search import PlacementResult, PlacementSearch
    from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure


def explain_failure(
    search: PlacementSearch, result: PlacementResult, failure: TopologyAssignmentFailure
) -> TopologyPlacementFailure:
    """Return a refusal as quotas have it, with what is known of kubelets."""
    resources = failure.exclusions.resources
    found = TopologyPlacementFailure(
        failure.pod_set,
        search.flavor_topology.flavor.name,
        str(failure),
        failure.level,
        failure.domain,
        failure.fit_count,
        failure.slice_count,
        failure.slice_size,
        max(sorted(resources), key=resources.__getitem__, default=""),
    )
    names = [pods.name for pods in result.pod_sets]
    place = names.index(failure.pod_set) if failure.pod_set in names else 0
    pods, whole = result.pod_sets[place], result.zone_slice_sizes[place]
    shape = search.requests[place].pod_set.shape
    if (
        search.admission_trial is None
        or shape is None
        or pods.max_pods is None
        or failure.problem
        or not pods.max_pods.size
    ):
        return found
    leaf = _leaf(search, pods.max_pods, failure)
    state = search.admission_trial.node_state(int(search.flavor_topology.leaf_rows[leaf]))
    if state is None:
        return found
    filled = fill_node(state, shape, int(pods.max_pods[leaf]), whole)
    if whole == ONE_ZONE:
        zones = [str(zone) for zone in state.kind.zones if filled.zones >> zone & 1]
        found = found._replace(level=ZONE_LEVEL, domain=(*failure.domain, *zones))
    verdict = predict_admission(filled.state, shape)
    if verdict.admitted and whole == ANY_ZONE:
        return found
    lack = explain_rejection(filled.state, shape, verdict) or "the next of them would be in another zone"
    return found._replace(
        node=search.flavor_topology.nodes.name(int(search.flavor_topology.leaf_rows[leaf])), kubelet_reason=lack
    )


def _leaf(one: PlacementSearch, most: NDArray[np.int64], refused: TopologyAssignmentFailure) -> int:
    """Return the host that is in the way, or else the first of those that take most."""
    leaf = one.flavor_topology.tree.find_leaf(refused.domain[-1:]) if refused.level == HOSTNAME else None
    return int(most.argmax()) if leaf is None else leaf
