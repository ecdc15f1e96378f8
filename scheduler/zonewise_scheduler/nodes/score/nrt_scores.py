"""The scores of scheduler-plugins' NodeResourceTopologyMatch for all rows at once (score.go and its strategies).

The package nodes.noderesourcetopology computes the same for one node, from API objects and with the plugin's panics. In
these arrays, free amounts are whole units. Zones of a memory group count as having none free. Every node is assumed to
list all of its zones.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zonewise_scheduler.admission.pod import Container, PodShape
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.block import Block, Slots
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.nodes.arrays.types import F64, I64, Bools
    from zonewise_scheduler.nodes.noderesourcetopology import Strategy

Distances = tuple[tuple[int, ...], ...]
"""Distances from zone to zone; empty if unknown."""

ShapeRequests = dict[str, int]
"""Requests by resource: CPUs in milli-CPU, bytes, counts."""

_MAX_SCORE = 100
_UNKNOWN_COST = 255
"""The distance if a report states none (least_numa.go)."""


def nrt_match_score(
    table: NodeStateTable, shape: PodShape, strategy: Strategy, weights: Mapping[str, int] | None = None
) -> I64:
    """Return (rows,): the plugin's score, 0 to 100; 0 for rows without a state.

    Pods that are not Guaranteed score 100. Only LeastNUMANodes scores nodes with policies other than single-numa-node.
    The weights are those of scoringStrategy.resources, 1 for any other resource.
    """
    sorted_weights = tuple(sorted((weights or {}).items()))
    key = ("nrt_match_score", strategy, shape, sorted_weights)

    def score_block(block: Block) -> I64:
        return block.get_or_compute(key, lambda view, slots: score_slots(block, view, slots))

    def score_slots(block: Block, view: ArrayView, slots: Slots) -> I64:
        scores = np.zeros(view.rows, np.int64)
        for distances, rows in block.rows_by_distances(slots).items():
            scores[rows] = _score_view(view.select(rows), distances, shape, strategy, dict(sorted_weights))
        return scores

    return table.gather(np.zeros(table.rows, np.int64), score_block)


def _score_view(
    view: ArrayView, distances: Distances, shape: PodShape, strategy: Strategy, weights: Mapping[str, int]
) -> I64:
    policies = view.layout.policies
    if shape.qos != "Guaranteed":
        return np.full(view.rows, _MAX_SCORE, np.int64)
    pod_scope = policies.scope == "pod"
    requests_list = (
        [effective_requests(shape)] if pod_scope else [container_requests(container) for container in shape.containers]
    )
    available = _Available(view)
    if strategy == "LeastNUMANodes":
        return _least_numa(view, distances, available, requests_list, pod_scope=pod_scope)
    if policies.topology != "single-numa-node":
        return np.zeros(view.rows, np.int64)
    scores = [_lowest_score(_ZONE_STRATEGIES[strategy](available, requests, weights)) for requests in requests_list]
    return sum(scores[1:], scores[0]) // len(scores)


def container_requests(container: Container) -> ShapeRequests:
    """Return the requests of a container as the plugin sees them, including storage."""
    requests = dict(container.memory) | dict(container.devices)
    if container.milli_cpus:
        requests["cpu"] = container.milli_cpus
    if container.storage:
        requests["ephemeral-storage"] = container.storage
    return requests


def effective_requests(shape: PodShape) -> ShapeRequests:
    """Return the plugin's sum (pkg/util/resource.go GetPodEffectiveRequest): sidecars count as init containers."""
    apps: ShapeRequests = {}
    peak: ShapeRequests = {}
    for container in shape.containers:
        for name, amount in container_requests(container).items():
            if container.role == "app":
                apps[name] = apps.get(name, 0) + amount
            else:
                peak[name] = max(peak.get(name, 0), amount)
    requests = {name: max(apps.get(name, 0), peak.get(name, 0)) for name in apps | peak}
    for name, amount in shape.overhead:
        requests[name] = requests.get(name, 0) + amount
    return requests


class _Available:
    """Free amounts of zones by resource name, in whole units, (zones, rows)."""

    def __init__(self, view: ArrayView) -> None:
        self._layout: Layout = view.layout
        self._free = {index: np.maximum(free, 0) for index, free in enumerate(view.free)}
        self._zero = np.zeros(view.free.shape[1:], np.int64)

    def has(self, name: str) -> bool:
        """Return whether zones list the resource."""
        return self._index(name) is not None

    def amounts(self, name: str) -> I64:
        """Return the free amounts; 0 for a resource that zones do not list."""
        index = self._index(name)
        return self._zero if index is None else self._free[index]

    def subtract(self, name: str, zones: Sequence[int], rows: Bools, amount: int) -> None:
        """Subtract an amount from zones in their order (least_numa.go subtractFromNUMAs)."""
        index = self._index(name)
        if index is None:
            return
        free = self._free[index]
        remaining = np.where(rows, amount, 0)
        for zone in zones:
            subtracted = np.minimum(remaining, free[zone])
            free[zone] -= subtracted
            remaining -= subtracted

    def _index(self, name: str) -> int | None:
        layout = self._layout
        return CPU if name == "cpu" else layout.memory_index.get(name, layout.device_index.get(name))


def _units(name: str, amount: int) -> int:
    """Return whole units, rounded up (Quantity.Value())."""
    return -(-amount // 1000) if name == "cpu" else amount


def _lowest_score(scores: I64) -> I64:
    """Return the lowest score of (zones, rows) except 0, which stands for a zone that does not fit."""
    worst = np.where(scores == 0, np.iinfo(np.int64).max, scores).min(axis=0)
    return np.where(scores.any(axis=0), worst, 0)


def _share(available: I64, name: str, amount: int, *, remaining: bool) -> I64:
    units = _units(name, amount)
    counted = available - units if remaining else np.full_like(available, units)
    score = counted * _MAX_SCORE // np.maximum(available, 1)
    return np.where((available == 0) | (available * (1000 if name == "cpu" else 1) < amount), 0, score)


def _weighted(available: _Available, requests: ShapeRequests, weights: Mapping[str, int], *, remaining: bool) -> I64:
    weight_by_name = {name: max(1, weights.get(name, 1)) for name in requests}
    total = sum(
        _share(available.amounts(name), name, amount, remaining=remaining) * weight_by_name[name]
        for name, amount in requests.items()
    )
    return np.asarray(total // max(sum(weight_by_name.values()), 1), np.int64)


def _least_allocated(available: _Available, requests: ShapeRequests, weights: Mapping[str, int]) -> I64:
    return _weighted(available, requests, weights, remaining=True)


def _most_allocated(available: _Available, requests: ShapeRequests, weights: Mapping[str, int]) -> I64:
    return _weighted(available, requests, weights, remaining=False)


def _balanced_allocation(available: _Available, requests: ShapeRequests, weights: Mapping[str, int]) -> I64:
    """Return how similar the requested fractions are, with the order and precision of nodes.noderesourcetopology."""
    del weights  # unused by balanced_allocation.go
    fractions = [_fraction(available.amounts(name), _units(name, requests[name])) for name in sorted(requests)]
    if len(fractions) < 2:
        raise ValueError("BalancedAllocation needs two resources at least: the plugin divides by 0")
    mean = sum(fractions[1:], fractions[0]) / len(fractions)
    deviations = [fraction - mean for fraction in fractions]
    compensation = sum(deviations[1:], deviations[0])
    squares = [deviation * deviation for deviation in deviations]
    variance = (sum(squares[1:], squares[0]) - compensation * compensation / len(deviations)) / (len(deviations) - 1)
    over = np.logical_or.reduce([fraction > 1 for fraction in fractions])
    return np.where(over, 0, (1 - variance) * _MAX_SCORE).astype(np.int64)


def _fraction(available: I64, amount: int) -> F64:
    fractions: F64 = amount / np.maximum(available, 1)
    fractions[available == 0] = 1.0
    return fractions


_ZONE_STRATEGIES: dict[Strategy, Callable[[_Available, ShapeRequests, Mapping[str, int]], I64]] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "BalancedAllocation": _balanced_allocation,
}


def _least_numa(
    view: ArrayView,
    distances: Distances,
    available: _Available,
    requests_list: Sequence[ShapeRequests],
    *,
    pod_scope: bool,
) -> I64:
    """Return 100 minus a step per zone of the widest request, plus half a step if all requests get closest sets."""
    widest, close = np.zeros(view.rows, np.int64), np.ones(view.rows, np.bool_)
    failed = np.zeros(view.rows, np.bool_)
    for requests in requests_list:
        if not any(available.has(name) for name in requests):
            continue
        width = np.zeros(view.rows, np.int64)
        for zones, closest in _zone_sets(view.zones, distances):
            rows = _zones_suffice(available, zones, requests) & (width == 0)
            width[rows] = len(zones)
            close &= ~rows | closest
            if not pod_scope:
                for name, amount in requests.items():
                    available.subtract(name, zones, rows, _units(name, amount))
        failed |= width == 0
        np.maximum(widest, width, out=widest)
    step = _MAX_SCORE // view.layout.policies.max_zones
    score = _MAX_SCORE - widest * step + np.where(close, step // 2, 0)
    return np.where(failed, 0, np.where(widest == 0, _MAX_SCORE, score))


def _zone_sets(count: int, distances: Distances) -> list[tuple[tuple[int, ...], bool]]:
    """Return sets of zones with a flag: narrow sets first, then the closest. The flag marks a size's closest sets."""
    result: list[tuple[tuple[int, ...], bool]] = []
    for size in range(1, count + 1):
        by_distance = [(_distance(distances, zones), zones) for zones in combinations(range(count), size)]
        closest = min(_UNKNOWN_COST * size * size, min(by_distance)[0])
        result += [(zones, distance == closest) for distance, zones in sorted(by_distance)]
    return result


def _distance(distances: Distances, zones: tuple[int, ...]) -> int:
    if not distances:
        return _UNKNOWN_COST * len(zones) ** 2
    return sum(distances[source][target] for source in zones for target in zones)


def _zones_suffice(available: _Available, zones: tuple[int, ...], requests: ShapeRequests) -> Bools:
    all_listed = all(available.has(name) for name in requests)
    suffices: Bools = np.ones(available.amounts("cpu").shape[1], np.bool_) & all_listed
    for name, amount in requests.items():
        total = available.amounts(name)[list(zones)].sum(axis=0)
        suffices &= total * (1000 if name == "cpu" else 1) >= amount
    return suffices
