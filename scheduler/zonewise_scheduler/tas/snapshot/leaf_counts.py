"""The number of pods that fit in each leaf on top of the current usage (tas_flavor_snapshot.go fillLeafCounts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.tas.snapshot.domain_states import LeafCounts
from zonewise_scheduler.tas.snapshot.leaf_nodes import bound_by_nodes
from zonewise_scheduler.tas.tree.tas_usage import (
    count_in_with_limiting_resource,
    count_limiting_resources,
    with_pod_resource,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.types import TASPodSetRequests


def fill_leaf_counts(
    snapshot: TASFlavorSnapshot,
    workers: TASPodSetRequests,
    leader: TASPodSetRequests | None,
    assumed_usage: TASUsage,
    required_replacement_domain: tuple[int, int] | None = None,
) -> tuple[LeafCounts, ExclusionStats]:
    """Return how many pods of a pod set fit in each leaf, with and without its leader, and why leaves are excluded.

    `required_replacement_domain`: the range of leaves that the pods may use; None: all. A leader needs a leaf that
    matches its workers as well.
    """
    requests = with_pod_resource(workers.single_pod_requests)
    leader_requests = with_pod_resource(leader.single_pod_requests) if leader is not None else {}
    free = {
        name: _subtract(snapshot.remaining_capacity(name), assumed_usage.get(name))
        for name in requests.keys() | leader_requests.keys()
    }
    matching = snapshot.matching_leaves(workers)
    in_domain = _range_mask(snapshot.tree.leaf_count, required_replacement_domain)
    mask = matching.mask & in_domain
    count_by_capacity, limiting = bound_by_nodes(
        *count_in_with_limiting_resource(free, requests), snapshot.node_bound(workers)
    )
    pod_count = _bound(count_by_capacity, workers.max_pods)
    exclusions = matching.exclusions._replace(
        topology_domain=int((matching.mask & ~in_domain).sum()),
        resources=count_limiting_resources(requests, limiting[mask & (count_by_capacity == 0)]),
        kubelets=int((mask & (count_by_capacity > 0) & (pod_count == 0)).sum()),
    )
    leader_fits, pod_count_with_leader = np.zeros(len(pod_count), np.bool_), pod_count
    if leader is not None:
        leader_counts = count_in_with_limiting_resource(free, leader_requests)
        leader_count = _bound(bound_by_nodes(*leader_counts, snapshot.node_bound(leader))[0], leader.max_pods)
        leader_fits = mask & snapshot.matching_leaves(leader).mask & (leader_count > 0)
        free_with_leader = {name: amount - leader_requests.get(name, 0) for name, amount in free.items()}
        count_with_leader = np.minimum(count_in_with_limiting_resource(free_with_leader, requests)[0], pod_count)
        pod_count_with_leader = np.where(
            leader_fits, _bound(count_with_leader, workers.max_pods_with_leader), pod_count
        )
    leaves = LeafCounts(
        np.where(mask, pod_count, 0),
        np.where(mask, pod_count_with_leader, 0),
        leader_fits.astype(np.int64),
        np.where(mask, matching.affinity_score, 0),
    )
    return leaves, exclusions


def _subtract(free: NDArray[np.int64], assumed: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return free if assumed is None else free - assumed


def _bound(pod_count: NDArray[np.int64], max_pods: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return pod_count if max_pods is None else np.minimum(pod_count, max_pods)


def _range_mask(leaf_count: int, leaf_range: tuple[int, int] | None) -> NDArray[np.bool_]:
    mask = np.full(leaf_count, leaf_range is None)
    if leaf_range is not None:
        mask[slice(*leaf_range)] = True
    return mask
