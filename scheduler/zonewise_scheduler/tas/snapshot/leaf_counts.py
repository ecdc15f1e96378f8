"""How many pods each leaf takes, beside what is used already.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts; pkg/resources/requests.go CountInWithLimitingResource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.tas.snapshot.domain_states import LeafCounts
from zonewise_scheduler.tas.tree.tas_usage import one_pod_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.topology.types import TASPodSetRequests
    from zonewise_scheduler.tas.snapshot.exclusion_stats import ExclusionStats
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage

_UNBOUND = np.iinfo(np.int32).max
"""Pods that ask for none of a resource; counts of pods are int32 in the API."""

FreeCapacity = dict[str, "NDArray[np.int64]"]


def fill_leaf_counts(
    supply: TASFlavorSnapshot,
    pods: TASPodSetRequests,
    leader: TASPodSetRequests | None,
    assumed_usage: TASUsage,
    required_replacement_domain: tuple[int, int] | None = None,
) -> tuple[LeafCounts, ExclusionStats]:
    """Return what the leaves take of a set, and of its leader beside it, and why others take nothing.

    `within`: the range of leaves that may hold them. A leader goes only where its workers, too, pass the filters.
    """
    requests = one_pod_requests(pods.single_pod_requests)
    others = one_pod_requests(leader.single_pod_requests) if leader is not None else {}
    free = {
        name: _less(supply.remaining_capacity(name), assumed_usage.get(name))
        for name in requests.keys() | others.keys()
    }
    matched = supply.matching_leaves(pods)
    inside = _range(supply.tree.leaf_count, required_replacement_domain)
    mask = matched.mask & inside
    room, shortest = count_in_with_limiting_resource(free, requests)
    excluded = matched.exclusions._replace(
        topology_domain=int((matched.mask & ~inside).sum()),
        resources=count_limiting_resources(requests, shortest[mask & (room == 0)]),
    )
    bare, room = room, _bound(room, pods.max_pods)
    excluded = excluded._replace(kubelets=int((mask & (bare > 0) & (room == 0)).sum()))
    hosts, beside = np.zeros(len(room), np.bool_), room
    if leader is not None:
        hosts = (
            mask
            & supply.matching_leaves(leader).mask
            & (_bound(count_in_with_limiting_resource(free, others)[0], leader.max_pods) > 0)
        )
        left = {name: amount - others.get(name, 0) for name, amount in free.items()}
        beside = np.where(
            hosts,
            _bound(np.minimum(count_in_with_limiting_resource(left, requests)[0], room), pods.max_pods_with_leader),
            room,
        )
    counts = LeafCounts(
        np.where(mask, room, 0),
        np.where(mask, beside, 0),
        hosts.astype(np.int64),
        np.where(mask, matched.affinity_score, 0),
    )
    return counts, excluded


def count_in_with_limiting_resource(
    free: FreeCapacity, requests: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how often the leaves have room for the requests, and of which resource in sorted order they have least."""
    names = sorted(requests)
    found = np.full(len(free[names[0]]), _UNBOUND, np.int64)
    shortest = np.zeros(len(found), np.int64)
    for place, name in enumerate(names):
        if requests[name] > 0:
            times = np.maximum(free[name] // requests[name], 0)
            shortest[times < found] = place
            np.minimum(found, times, out=found)
    return found, shortest


def count_limiting_resources(requests: Mapping[str, int], shortest: NDArray[np.int64]) -> dict[str, int]:
    """Return how many leaves lack room by the resource that is shortest, given as places in sorted order."""
    counts = np.bincount(shortest, minlength=len(requests)).tolist()
    return {name: count for name, count in zip(sorted(requests), counts, strict=True) if count}


def _less(free: NDArray[np.int64], assumed: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return free if assumed is None else free - assumed


def _bound(room: NDArray[np.int64], most: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return room if most is None else np.minimum(room, most)


def _range(leaves: int, within: tuple[int, int] | None) -> NDArray[np.bool_]:
    found = np.full(leaves, within is None)
    if within is not None:
        found[slice(*within)] = True
    return found
