"""The plugin's Score (score.go, least_allocated.go, most_allocated.go, balanced_allocation.go)."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Literal, get_args

from zonewise_scheduler.nodes.noderesourcetopology.least_numa import least_numa_score
from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts, ceil_units
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
    """Scores requests, given the available amounts of a zone and weights."""

Strategy = Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_INVALID_INT64 = -(1 << 63)
"""The result of Go's conversion on x86-64 for NaN and for values beyond an int64."""


def score_node(
    nrt: Mapping[str, Any] | None, pod: Mapping[str, Any], strategy: Strategy, weights: Weights | None = None
) -> ScoreStatus:
    """Return the plugin's score of a node for a scoringStrategy.type; 100 is best.

    Takes the node's NodeResourceTopology (None: there is none), a v1.Pod, and the weights of scoringStrategy.resources,
    1 for any other resource. Raises FieldError, which names field and value.

    Every node scores 100 for a pod that is not Guaranteed. A node without a NodeResourceTopology scores 0. Only
    LeastNUMANodes scores nodes with policies other than single-numa-node. Its time grows with the number of sets of
    zones, as in the plugin.
    """
    plugin_pod = read_plugin_pod(pod)
    if plugin_pod.qos != "Guaranteed":
        return ScoreStatus("scored", MAX_SCORE)
    if nrt is None:
        return ScoreStatus("scored", 0)
    manager = read_topology_manager(nrt)
    if strategy != "LeastNUMANodes" and manager.policy != SINGLE_NUMA_NODE:
        return ScoreStatus("scored", 0)
    try:
        score = _score_zones(manager, create_numa_node_list(nrt), plugin_pod, strategy, weights or {})
    except PanicError as panic:
        return ScoreStatus("crashes", 0, str(panic))
    return ScoreStatus("scored" if 0 <= score <= MAX_SCORE else "invalid", score)


def _score_zones(
    manager: TopologyManagerConfig, zones: list[NUMANode], pod: PluginPod, strategy: Strategy, weights: Weights
) -> int:
    pod_scope = manager.scope == "pod"
    requests_list = [pod.effective_requests()] if pod_scope else [container.requests for container in pod.containers]
    if strategy == "LeastNUMANodes":
        return least_numa_score(zones, requests_list, manager)
    scores = [_worst_zone(zones, requests, _ZONE_SCORERS[strategy], weights) for requests in requests_list]
    if pod_scope:
        return scores[0]
    return _int64(_sum(map(float, scores)) / len(scores)) if scores else _INVALID_INT64


def _worst_zone(zones: list[NUMANode], requests: Amounts, scorer: ZoneScorer, weights: Weights) -> int:
    """Return the lowest score except 0, which stands for a zone that does not fit (scoreForEachNUMANode)."""
    worst = 0
    for zone in zones:
        score = scorer(requests, zone.available, weights)
        if worst == 0 or (score != 0 and score < worst):
            worst = score
        if zone.id >= len(zones):
            raise PanicError.index_panic(zone.id, len(zones))
    return worst


def _least_allocated(requests: Amounts, available: Amounts, weights: Weights) -> int:
    return _weighted(requests, weights, lambda name, amount: _share(available.get(name, 0), amount, remaining=True))


def _most_allocated(requests: Amounts, available: Amounts, weights: Weights) -> int:
    return _weighted(requests, weights, lambda name, amount: _share(available.get(name, 0), amount, remaining=False))


def _share(available: int, amount: int, *, remaining: bool) -> int:
    """Return the requested or remaining fraction of the available amount in hundredths; 0 if it is too small."""
    if available == 0 or amount > available:
        return 0
    requested = ceil_units(amount)
    return (ceil_units(available) - requested if remaining else requested) * MAX_SCORE // ceil_units(available)


def _weighted(requests: Amounts, weights: Weights, score: Callable[[str, int], int]) -> int:
    if not requests:  # the case of pods with pod-level resources
        raise PanicError("runtime error: integer divide by zero")
    weight = {name: max(1, weights.get(name, 1)) for name in requests}
    return sum(score(name, amount) * weight[name] for name, amount in requests.items()) // sum(weight.values())


def _balanced_allocation(requests: Amounts, available: Amounts, weights: Weights) -> int:  # noqa: ARG001 -- as in the plugin
    """Return how similar the requested fractions are.

    The plugin computes in double precision with gonum's stat.Variance (v0.16.0, the corrected two-pass algorithm), and
    truncates the result to an integer. It adds in the random order of a map, which matters with three or more
    resources.
    """
    fractions = [_fraction(requests[name], available.get(name, 0)) for name in sorted(requests)]
    if any(fraction > 1 for fraction in fractions):
        return 0
    if len(fractions) < 2:
        return _INVALID_INT64  # the plugin divides by the number of resources minus one
    mean = _sum(fractions) / len(fractions)
    deviations = [fraction - mean for fraction in fractions]
    compensation = _sum(deviations)
    variance = (
        _sum(deviation * deviation for deviation in deviations) - compensation * compensation / len(deviations)
    ) / (len(deviations) - 1)
    return _int64((1 - variance) * MAX_SCORE)


def _sum(numbers: Iterable[float]) -> float:
    """Add without compensation: from Python 3.12 on, sum() compensates for rounding."""
    return reduce(add, numbers, 0.0)


def _fraction(amount: int, available: int) -> float:
    return ceil_units(amount) / ceil_units(available) if ceil_units(available) else 1.0


def _int64(number: float) -> int:
    return int(number) if abs(number) < -_INVALID_INT64 else _INVALID_INT64


_ZONE_SCORERS: dict[Strategy, ZoneScorer] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "BalancedAllocation": _balanced_allocation,
}
