"""How many pods each leaf takes, beside what is used already.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts; pkg/resources/requests.go CountInWithLimitingResource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.queue.topology.counts import Leaves
from zonewise_scheduler.queue.topology.usage import one_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.excluded import Excluded
    from zonewise_scheduler.queue.topology.model import PodSet
    from zonewise_scheduler.queue.topology.supply import Supply
    from zonewise_scheduler.queue.topology.usage import Usage

_UNBOUND = np.iinfo(np.int32).max
"""Pods that ask for none of a resource; counts of pods are int32 in the API."""

Free = dict[str, "NDArray[np.int64]"]


def leaves_of(
    supply: Supply, pods: PodSet, leader: PodSet | None, assumed: Usage, within: tuple[int, int] | None = None
) -> tuple[Leaves, Excluded]:
    """Return what the leaves take of a set, and of its leader beside it, and why others take nothing.

    `within`: the range of leaves that may hold them. A leader goes only where its workers, too, pass the filters.
    """
    requests = one_pod(pods.requests)
    others = one_pod(leader.requests) if leader is not None else {}
    free = {name: _less(supply.free(name), assumed.get(name)) for name in requests.keys() | others.keys()}
    matched = supply.matched(pods)
    inside = _range(supply.tree.leaves, within)
    mask = matched.mask & inside
    room, shortest = copies(free, requests)
    excluded = matched.excluded._replace(
        outside=int((matched.mask & ~inside).sum()), resources=shortages(requests, shortest[mask & (room == 0)])
    )
    bare, room = room, _bound(room, pods.most)
    excluded = excluded._replace(kubelets=int((mask & (bare > 0) & (room == 0)).sum()))
    hosts, beside = np.zeros(len(room), np.bool_), room
    if leader is not None:
        hosts = mask & supply.matched(leader).mask & (_bound(copies(free, others)[0], leader.most) > 0)
        left = {name: amount - others.get(name, 0) for name, amount in free.items()}
        beside = np.where(hosts, _bound(np.minimum(copies(left, requests)[0], room), pods.beside), room)
    counts = Leaves(
        np.where(mask, room, 0), np.where(mask, beside, 0), hosts.astype(np.int64), np.where(mask, matched.score, 0)
    )
    return counts, excluded


def copies(free: Free, requests: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def shortages(requests: Mapping[str, int], shortest: NDArray[np.int64]) -> dict[str, int]:
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
