"""The scores of scheduler-plugins' NodeResourceTopologyMatch for all rows at once (score.go and its strategies).

fit.upstream has the same for one node from the API's own objects, with the plugin's panics; here amounts are whole
units of what zones have free. Zones of a memory group count as having none, and nodes are taken to list every zone.
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
    from zonewise_scheduler.nodes.arrays.block import Block
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.nodes.arrays.types import F64, I64, Bools
    from zonewise_scheduler.nodes.noderesourcetopology import Strategy

ShapeRequests = dict[str, int]
"""By resource: CPUs in milli-CPU, bytes, counts."""

_BEST = 100
_FARTHEST = 255
"""Of a cost that is not told (least_numa.go)."""


def nrt_match_score(
    table: NodeStateTable, shape: PodShape, strategy: Strategy, weights: Mapping[str, int] | None = None
) -> I64:
    """Return (rows,): the plugin's score, 0 to 100; 0 for rows without a state.

    100 for pods that are not Guaranteed; only LeastNUMANodes scores nodes of other policies than single-numa-node. The
    weights are those of scoringStrategy.resources, 1 for any other.
    """
    given = tuple(sorted((weights or {}).items()))
    key = ("upstream", strategy, shape, given)

    def of_block(block: Block) -> I64:
        return block.get_or_compute(key, lambda view, _: _score(view, shape, strategy, dict(given)))

    return table.gather(np.zeros(table.rows, np.int64), of_block)


def _score(view: ArrayView, shape: PodShape, strategy: Strategy, weights: Mapping[str, int]) -> I64:
    policies = view.layout.policies
    if shape.qos != "Guaranteed":
        return np.full(view.rows, _BEST, np.int64)
    together = policies.scope == "pod"
    asked = [effective_requests(shape)] if together else [container_requests(one) for one in shape.containers]
    available = _Available(view)
    if strategy == "LeastNUMANodes":
        return _least_zones(view, available, asked, together=together)
    if policies.topology != "single-numa-node":
        return np.zeros(view.rows, np.int64)
    scores = [_worst_zone(_OF_ZONES[strategy](available, one, weights)) for one in asked]
    return sum(scores[1:], scores[0]) // len(scores)


def container_requests(container: Container) -> ShapeRequests:
    """Return what the plugin sees of a container: requests, those of storage too."""
    found = dict(container.memory) | dict(container.devices)
    if container.milli_cpus:
        found["cpu"] = container.milli_cpus
    if container.storage:
        found["ephemeral-storage"] = container.storage
    return found


def effective_requests(shape: PodShape) -> ShapeRequests:
    """Return the plugin's own sum (pkg/util/resource.go GetPodEffectiveRequest): sidecars count as init containers."""
    apps: ShapeRequests = {}
    peak: ShapeRequests = {}
    for container in shape.containers:
        for name, amount in container_requests(container).items():
            if container.role == "app":
                apps[name] = apps.get(name, 0) + amount
            else:
                peak[name] = max(peak.get(name, 0), amount)
    found = {name: max(apps.get(name, 0), peak.get(name, 0)) for name in apps | peak}
    for name, amount in shape.overhead:
        found[name] = found.get(name, 0) + amount
    return found


class _Available:
    """What zones have free, by name of resource: whole units, (zones, rows)."""

    def __init__(self, view: ArrayView) -> None:
        self._layout: Layout = view.layout
        self._free = {index: np.maximum(free, 0) for index, free in enumerate(view.free)}
        self._none = np.zeros(view.free.shape[1:], np.int64)

    def has(self, name: str) -> bool:
        """Tell whether zones list the resource."""
        return self._index(name) is not None

    def amounts(self, name: str) -> I64:
        """Return what is free; 0 of what zones do not list."""
        index = self._index(name)
        return self._none if index is None else self._free[index]

    def subtract(self, name: str, zones: Sequence[int], rows: Bools, amount: int) -> None:
        """Take an amount from zones in their order (least_numa.go subtractFromNUMAs)."""
        index = self._index(name)
        if index is None:
            return
        free = self._free[index]
        left = np.where(rows, amount, 0)
        for zone in zones:
            taken = np.minimum(left, free[zone])
            free[zone] -= taken
            left -= taken

    def _index(self, name: str) -> int | None:
        layout = self._layout
        return CPU if name == "cpu" else layout.memory_index.get(name, layout.device_index.get(name))


def _units(name: str, amount: int) -> int:
    """Return whole units, rounded up (Quantity.Value())."""
    return -(-amount // 1000) if name == "cpu" else amount


def _worst_zone(scores: I64) -> I64:
    """Return the lowest score of (zones, rows) but 0, which is taken for a zone that does not fit."""
    worst = np.where(scores == 0, np.iinfo(np.int64).max, scores).min(axis=0)
    return np.where(scores.any(axis=0), worst, 0)


def _share(available: I64, name: str, amount: int, *, rest: bool) -> I64:
    units = _units(name, amount)
    part = available - units if rest else np.full_like(available, units)
    score = part * _BEST // np.maximum(available, 1)
    return np.where((available == 0) | (available * (1000 if name == "cpu" else 1) < amount), 0, score)


def _weighted(available: _Available, asked: ShapeRequests, weights: Mapping[str, int], *, rest: bool) -> I64:
    each = {name: max(1, weights.get(name, 1)) for name in asked}
    total = sum(_share(available.amounts(name), name, amount, rest=rest) * each[name] for name, amount in asked.items())
    return np.asarray(total // max(sum(each.values()), 1), np.int64)


def _least(available: _Available, asked: ShapeRequests, weights: Mapping[str, int]) -> I64:
    return _weighted(available, asked, weights, rest=True)


def _most(available: _Available, asked: ShapeRequests, weights: Mapping[str, int]) -> I64:
    return _weighted(available, asked, weights, rest=False)


def _balanced(available: _Available, asked: ShapeRequests, weights: Mapping[str, int]) -> I64:
    """Return how alike the fractions asked for are, in the order and the double precision of fit.upstream."""
    del weights  # they play no part (balanced_allocation.go)
    parts = [_fraction(available.amounts(name), _units(name, asked[name])) for name in sorted(asked)]
    if len(parts) < 2:
        raise ValueError("BalancedAllocation needs two resources at least: the plugin divides by 0")
    mean = sum(parts[1:], parts[0]) / len(parts)
    off = [part - mean for part in parts]
    compensation = sum(off[1:], off[0])
    squares = [one * one for one in off]
    variance = (sum(squares[1:], squares[0]) - compensation * compensation / len(off)) / (len(off) - 1)
    over = np.logical_or.reduce([part > 1 for part in parts])
    return np.where(over, 0, (1 - variance) * _BEST).astype(np.int64)


def _fraction(available: I64, amount: int) -> F64:
    parts: F64 = amount / np.maximum(available, 1)
    parts[available == 0] = 1.0
    return parts


_OF_ZONES: dict[Strategy, Callable[[_Available, ShapeRequests, Mapping[str, int]], I64]] = {
    "LeastAllocated": _least,
    "MostAllocated": _most,
    "BalancedAllocation": _balanced,
}


def _least_zones(view: ArrayView, available: _Available, asked: Sequence[ShapeRequests], *, together: bool) -> I64:
    """Return 100 less a step for each zone that the widest of the requests needs, half a step back if all are close."""
    widest, close = np.zeros(view.rows, np.int64), np.ones(view.rows, np.bool_)
    failed = np.zeros(view.rows, np.bool_)
    for one in asked:
        if not any(available.has(name) for name in one):
            continue
        width = np.zeros(view.rows, np.int64)
        for zones, closest in _sets(view.layout):
            rows = _fits(available, zones, one) & (width == 0)
            width[rows] = len(zones)
            close &= ~rows | closest
            if not together:
                for name, amount in one.items():
                    available.subtract(name, zones, rows, _units(name, amount))
        failed |= width == 0
        np.maximum(widest, width, out=widest)
    step = _BEST // view.layout.policies.max_zones
    score = _BEST - widest * step + np.where(close, step // 2, 0)
    return np.where(failed, 0, np.where(widest == 0, _BEST, score))


def _sets(layout: Layout) -> list[tuple[tuple[int, ...], bool]]:
    """Return sets of zones, narrow ones first, of a size the closest first; and whether none of the size is closer."""
    found: list[tuple[tuple[int, ...], bool]] = []
    for size in range(1, len(layout.zones) + 1):
        sets = [(_distance(layout, one), one) for one in combinations(range(len(layout.zones)), size)]
        closest = min(_FARTHEST * size * size, min(sets)[0])
        found += [(one, distance == closest) for distance, one in sorted(sets)]
    return found


def _distance(layout: Layout, zones: tuple[int, ...]) -> int:
    if not layout.distances:
        return _FARTHEST * len(zones) ** 2
    return sum(layout.distances[one][other] for one in zones for other in zones)


def _fits(available: _Available, zones: tuple[int, ...], asked: ShapeRequests) -> Bools:
    listed = all(available.has(name) for name in asked)
    found: Bools = np.ones(available.amounts("cpu").shape[1], np.bool_) & listed
    for name, amount in asked.items():
        together = available.amounts(name)[list(zones)].sum(axis=0)
        found &= together * (1000 if name == "cpu" else 1) >= amount
    return found
