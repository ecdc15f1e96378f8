"""The plugin's scores, based on allocated fractions."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nrt_objects import container, guaranteed, nrt, pod, zone
from zonewise_scheduler.nodes.noderesourcetopology import STRATEGIES, ScoreStatus, Strategy, score_node

Json = dict[str, Any]

GIB = 1 << 30
BY_ZONE: tuple[Strategy, ...] = ("LeastAllocated", "MostAllocated", "BalancedAllocation")
STRATEGIES_AND_SCOPES: list[tuple[Strategy, str]] = [
    (strategy, scope) for strategy in STRATEGIES for scope in ("container", "pod")
]


def score(
    zones: list[Json], pod_object: Json, strategy: Strategy, scope: str = "container", **weights: int
) -> ScoreStatus:
    return score_node(nrt(zones, scope=scope), pod_object, strategy, weights)


def scored(number: int) -> ScoreStatus:
    return ScoreStatus("scored", number)


# --- pods and nodes that are not scored by zones


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pods_that_are_not_guaranteed(strategy: Strategy) -> None:
    """Every node scores 100, even a node without a report."""
    for pod_object in (pod(container(cpu=1)), pod(container())):
        assert score_node(None, pod_object, strategy) == score([], pod_object, strategy) == scored(100)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_node_without_report(strategy: Strategy) -> None:
    assert score_node(None, pod(guaranteed(1)), strategy) == scored(0)


@pytest.mark.parametrize("strategy", BY_ZONE)
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_other_policies(strategy: Strategy, policy: str) -> None:
    report = nrt([zone(0, {"cpu": 8, "memory": 8 * GIB})], policy)
    assert score_node(report, pod(guaranteed(1)), strategy) == scored(0)


# --- one zone


def test_least_and_most_allocated() -> None:
    """The remaining or requested fractions are truncated to integer percentages, and then averaged."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    pod_object = pod(guaranteed(3, memory=GIB))
    assert score(zones, pod_object, "LeastAllocated") == scored((62 + 87) // 2)
    assert score(zones, pod_object, "MostAllocated") == scored((37 + 12) // 2)


def test_weights() -> None:
    """Weights below 1 and missing weights count as 1."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    pod_object = pod(guaranteed(3, memory=GIB))
    assert score(zones, pod_object, "LeastAllocated", cpu=3) == scored((62 * 3 + 87) // 4)
    assert score(zones, pod_object, "LeastAllocated", cpu=0, memory=-5) == scored((62 + 87) // 2)


def test_rounding() -> None:
    zones = [zone(0, {"cpu": "2500m", "memory": 2 * GIB})]
    assert score(zones, pod(guaranteed("2200m", memory=GIB)), "MostAllocated") == scored((100 + 50) // 2)
    assert score(zones, pod(guaranteed("2600m", memory=GIB)), "MostAllocated") == scored((0 + 50) // 2)


def test_missing_resources() -> None:
    zones = [zone(0, {"cpu": 8, "memory": 0})]
    assert score(zones, pod(guaranteed(4, nic=1)), "LeastAllocated") == scored(50 // 3)
    assert score(zones, pod(guaranteed(4, nic=1)), "MostAllocated") == scored(50 // 3)


def test_balanced_allocation() -> None:
    """The score is 100 if all fractions are equal, and 0 if any resource does not suffice."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    assert score(zones, pod(guaranteed(2, memory=2 * GIB)), "BalancedAllocation") == scored(100)
    assert score(zones, pod(guaranteed(8, memory=1)), "BalancedAllocation") == scored(50)
    assert score(zones, pod(guaranteed(9, memory=GIB)), "BalancedAllocation") == scored(0)
    assert score([zone(0, {"cpu": 8})], pod(guaranteed(8)), "BalancedAllocation") == scored(100)


amounts = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=2, max_size=4)


@given(amounts)
def test_balanced_allocation_agrees_with_sample_variance(pairs: list[tuple[int, int]]) -> None:
    """The scores are equal, except for rounding in the last place before truncation."""
    names = ["cpu", "memory", "example.com/a", "example.com/b"][: len(pairs)]
    available = zone(0, {name: available for name, (_, available) in zip(names, pairs, strict=True)})
    pod_object = pod(container(**{name: requested for name, (requested, _) in zip(names, pairs, strict=True)}))
    shares = [Fraction(requested, available) for requested, available in pairs]
    exact = 0 if max(shares) > 1 else (1 - statistics.variance(shares)) * 100
    status = score([available], pod_object, "BalancedAllocation")
    assert status.outcome == "scored"
    assert status.score in {int(exact - Fraction(1, 10**9)), int(exact), int(exact + Fraction(1, 10**9))}


# --- several zones, several containers


def test_lowest_score_of_fitting_zones() -> None:
    """A zone with a score of 0 counts as one that does not fit, even if it is merely full."""
    zones = [zone(number, {"cpu": cpus, "memory": 8 * GIB}) for number, cpus in enumerate((8, 16, 1))]
    pod_object = pod(guaranteed(4, memory=4 * GIB))
    assert score(zones, pod_object, "LeastAllocated") == scored(25)  # the last zone scores 0 and 50
    assert score(zones, pod_object, "MostAllocated") == scored(25)
    full = [zone(0, {"cpu": 4, "memory": 4 * GIB}), zone(1, {"cpu": 8, "memory": 8 * GIB})]
    assert score(full, pod_object, "LeastAllocated") == scored(50)


def test_container_scope() -> None:
    """The score is the mean over all containers, including init containers, each scored as if it were alone."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    containers = [guaranteed(cpus, memory=cpus * GIB) for cpus in (8, 4, 1)]
    pod_object = pod(*containers[:2], init=(containers[2],))
    assert score(zones, pod_object, "MostAllocated") == scored((100 + 50 + 12) // 3)


def test_pod_scope() -> None:
    """The request is the maximum of the sum of all containers and of any init container, including sidecars."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    two, four = guaranteed(2, memory=2 * GIB), guaranteed(4, memory=4 * GIB)
    assert score(zones, pod(two, two), "MostAllocated", "pod") == scored(50)
    assert score(zones, pod(two, init=(four,)), "MostAllocated", "pod") == scored(50)
    assert score(zones, pod(two, two, init=(four | {"restartPolicy": "Always"},)), "MostAllocated", "pod") == scored(50)
    overhead = {"cpu": "2", "memory": str(2 * GIB)}
    assert score(zones, pod(two, two, overhead=overhead), "MostAllocated", "pod") == scored(75)


def test_node_without_zones() -> None:
    for strategy in BY_ZONE:
        assert score([], pod(guaranteed(1)), strategy) == scored(0)


# --- panics and invalid scores


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pod_level_resources(scope: str) -> None:
    """Containers without requests lead to a division by zero or to an invalid score."""
    pod_level = {"cpu": "4", "memory": "1Gi"}
    pod_object = pod({"name": "c"}, resources={"requests": pod_level, "limits": pod_level})
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    for strategy in ("LeastAllocated", "MostAllocated"):
        status = score(zones, pod_object, strategy, scope)
        assert status == ScoreStatus("crashes", 0, "runtime error: integer divide by zero")
    assert score(zones, pod_object, "BalancedAllocation", scope) == ScoreStatus("invalid", -(1 << 63))
    assert score(zones, pod_object, "LeastNUMANodes", scope) == scored(100)


def test_variance_of_one_number() -> None:
    pod_level = {"cpu": "4", "memory": "1Gi"}
    pod_object = pod(container(cpu=1), resources={"requests": pod_level, "limits": pod_level})
    status = score([zone(0, {"cpu": 8})], pod_object, "BalancedAllocation")
    assert status == ScoreStatus("invalid", -(1 << 63))


def test_overdrawn_zones() -> None:
    """Negative amounts lead to very different fractions, and to a variance that is too large for a score."""
    zones = [zone(0, {"cpu": 8, "memory": -1})]
    assert score(zones, pod(guaranteed(4, memory=4)), "BalancedAllocation") == ScoreStatus("invalid", -912)
    assert score(zones, pod(guaranteed(4, memory="64Gi")), "BalancedAllocation") == ScoreStatus("invalid", -(1 << 63))
    assert score(zones, pod(guaranteed(4, memory=4)), "LeastAllocated") == scored(25)


@pytest.mark.parametrize(("strategy", "scope"), STRATEGIES_AND_SCOPES)
def test_gaps_in_ids(strategy: Strategy, scope: str) -> None:
    """Ids are used as list indices: NUMA nodes 0 and 2 make the scheduler panic."""
    zones = [zone(number, {"cpu": 8, "memory": 8 * GIB}) for number in (0, 2)]
    pod_object = pod(guaranteed(12))
    if strategy == "LeastNUMANodes" and scope == "pod":
        assert score(zones, pod_object, strategy, scope).outcome == "scored"
        return
    status = score(zones, pod_object, strategy, scope)
    assert status == ScoreStatus("crashes", 0, "runtime error: index out of range [2] with length 2")


@pytest.mark.parametrize(("strategy", "scope"), STRATEGIES_AND_SCOPES)
def test_node_64(strategy: Strategy, scope: str) -> None:
    status = score([zone(64, {"cpu": 8})], pod(guaranteed(1)), strategy, scope)
    assert status == ScoreStatus("crashes", 0, "runtime error: index out of range [64] with length 64")


# --- properties

shapes = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3)


@given(shapes, shapes, st.sampled_from(STRATEGIES_AND_SCOPES))
def test_bounds(
    available: list[tuple[int, int]], requested: list[tuple[int, int]], strategy_and_scope: tuple[Strategy, str]
) -> None:
    zones = [zone(index, {"cpu": cpus, "memory": size}) for index, (cpus, size) in enumerate(available)]
    pod_object = pod(*(guaranteed(cpus, memory=size) for cpus, size in requested))
    status = score(zones, pod_object, *strategy_and_scope)
    assert status.outcome == "scored"
    assert 0 <= status.score <= 100


@given(shapes, st.sampled_from(BY_ZONE))
def test_single_container_in_both_scopes(available: list[tuple[int, int]], strategy: Strategy) -> None:
    zones = [zone(index, {"cpu": cpus, "memory": size}) for index, (cpus, size) in enumerate(available)]
    pod_object = pod(guaranteed(3, memory=3))
    assert score(zones, pod_object, strategy) == score(zones, pod_object, strategy, "pod")
