"""The plugin's Score (score.go, least_allocated.go, most_allocated.go, balanced_allocation.go)."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Literal, get_args

from zonewise_scheduler.nodes.noderesourcetopology.least_numa import least_numa_score
from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts, round_up
from zonewise_scheduler.nodes.noderesourcetopology.pluginhelpers import (
    SINGLE_NUMA_NODE,
    NUMANode,
    TopologyManagerConfig,
    create_numa_node_list,
    read_topology_manager,
)
from zonewise_scheduler.nodes.noderesourcetopology.resourcerequests import PluginPod, read_plugin_pod
from zonewise_scheduler.nodes.noderesourcetopology.status import MAX_SCORE, PanicError, ScoreStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Weights = Mapping[str, int]
    ZoneScorer = Callable[[Amounts, Amounts, Weights], int]
    """From requests, what is available in the zone, and weights."""

Strategy = Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_NO_INT64 = -(1 << 63)
"""What Go on x86-64 makes of NaN, and of what is too large, as an int64."""


def score_node(
    nrt: Mapping[str, Any] | None, pod: Mapping[str, Any], strategy: Strategy, weights: Weights | None = None
) -> ScoreStatus:
    """Return what the plugin scores a node by a scoringStrategy.type: 100 is best.

    Takes the node's NodeResourceTopology (None: there is none), a v1.Pod, and the weights of scoringStrategy.resources,
    1 for any other. Raises FieldError, naming field and value.

    Every node has 100 for a pod that is not Guaranteed, and 0 where nothing is known of its zones. Only LeastNUMANodes
    scores nodes of other policies than single-numa-node. With 16 zones and more, its time grows as the plugin's own
    does: with the number of sets of zones.
    """
    asked = read_plugin_pod(pod)
    if asked.qos != "Guaranteed":
        return ScoreStatus("scored", MAX_SCORE)
    if nrt is None:
        return ScoreStatus("scored", 0)
    manager = read_topology_manager(nrt)
    if strategy != "LeastNUMANodes" and manager.policy != SINGLE_NUMA_NODE:
        return ScoreStatus("scored", 0)
    try:
        score = _score(manager, create_numa_node_list(nrt), asked, strategy, weights or {})
    except PanicError as panic:
        return ScoreStatus("crashes", 0, str(panic))
    return ScoreStatus("scored" if 0 <= score <= MAX_SCORE else "invalid", score)


def _score(
    manager: TopologyManagerConfig, zones: list[NUMANode], pod: PluginPod, strategy: Strategy, weights: Weights
) -> int:
    together = manager.scope == "pod"
    requests = [pod.effective_requests()] if together else [part.requests for part in pod.containers]
    if strategy == "LeastNUMANodes":
        return least_numa_score(zones, requests, manager)
    scores = [_worst_zone(zones, one, _OF_ZONE[strategy], weights) for one in requests]
    if together:
        return scores[0]
    return _int64(_sum(map(float, scores)) / len(scores)) if scores else _NO_INT64


def _worst_zone(zones: list[NUMANode], requests: Amounts, of_zone: ZoneScorer, weights: Weights) -> int:
    """Return the lowest score but 0, which is taken for a zone that does not fit (scoreForEachNUMANode)."""
    worst = 0
    for zone in zones:
        score = of_zone(requests, zone.available, weights)
        if worst == 0 or (score != 0 and score < worst):
            worst = score
        if zone.id >= len(zones):
            raise PanicError.index_out_of_range(zone.id, len(zones))
    return worst


def _least_allocated(requests: Amounts, available: Amounts, weights: Weights) -> int:
    return _weighted(requests, weights, lambda name, amount: _share(available.get(name, 0), amount, rest=True))


def _most_allocated(requests: Amounts, available: Amounts, weights: Weights) -> int:
    return _weighted(requests, weights, lambda name, amount: _share(available.get(name, 0), amount, rest=False))


def _share(available: int, amount: int, *, rest: bool) -> int:
    """Return which part of what is available is asked for, or stays, in hundredths; 0 where it is not enough."""
    if available == 0 or amount > available:
        return 0
    taken = round_up(amount)
    return (round_up(available) - taken if rest else taken) * MAX_SCORE // round_up(available)


def _weighted(requests: Amounts, weights: Weights, score: Callable[[str, int], int]) -> int:
    if not requests:  # pods with resources of their own come to this
        raise PanicError("runtime error: integer divide by zero")
    weight = {name: max(1, weights.get(name, 1)) for name in requests}
    return sum(score(name, amount) * weight[name] for name, amount in requests.items()) // sum(weight.values())


def _balanced(requests: Amounts, available: Amounts, weights: Weights) -> int:  # noqa: ARG001 -- weights play no part
    """Return how alike the fractions asked for are.

    In double precision as gonum's stat.Variance has it (v0.16.0, the corrected two-pass algorithm), since the result is
    cut to a whole number. The plugin adds in the random order of a map, which matters from the third resource on.
    """
    fractions = [_fraction(requests[name], available.get(name, 0)) for name in sorted(requests)]
    if any(fraction > 1 for fraction in fractions):
        return 0
    if len(fractions) < 2:
        return _NO_INT64  # divided by 0, the number of resources less one
    mean = _sum(fractions) / len(fractions)
    off = [fraction - mean for fraction in fractions]
    compensation = _sum(off)
    variance = (_sum(one * one for one in off) - compensation * compensation / len(off)) / (len(off) - 1)
    return _int64((1 - variance) * MAX_SCORE)


def _sum(numbers: Iterable[float]) -> float:
    """Add plainly: since Python 3.12 sum() compensates for rounding."""
    return reduce(add, numbers, 0.0)


def _fraction(amount: int, available: int) -> float:
    return round_up(amount) / round_up(available) if round_up(available) else 1.0


def _int64(number: float) -> int:
    return int(number) if abs(number) < -_NO_INT64 else _NO_INT64


_OF_ZONE: dict[Strategy, ZoneScorer] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "BalancedAllocation": _balanced,
}
