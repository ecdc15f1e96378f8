"""The plugin's scores by how much of a zone is taken."""

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
OF_ANY: list[tuple[Strategy, str]] = [(strategy, scope) for strategy in STRATEGIES for scope in ("container", "pod")]


def score(zones: list[Json], asked: Json, strategy: Strategy, scope: str = "container", **weights: int) -> ScoreStatus:
    return score_node(nrt(zones, scope=scope), asked, strategy, weights)


def scored(number: int) -> ScoreStatus:
    return ScoreStatus("scored", number)


# --- pods and nodes that are not compared


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_guaranteed_pods_are_compared(strategy: Strategy) -> None:
    """Every node is as good as can be for any other, even one of which nothing is known."""
    for asked in (pod(container(cpu=1)), pod(container())):
        assert score_node(None, asked, strategy) == score([], asked, strategy) == scored(100)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_without_a_report(strategy: Strategy) -> None:
    assert score_node(None, pod(guaranteed(1)), strategy) == scored(0)


@pytest.mark.parametrize("strategy", BY_ZONE)
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_nodes_of_other_policies(strategy: Strategy, policy: str) -> None:
    report = nrt([zone(0, {"cpu": 8, "memory": 8 * GIB})], policy)
    assert score_node(report, pod(guaranteed(1)), strategy) == scored(0)


# --- one zone


def test_least_and_most_allocated() -> None:
    """What stays, and what is taken, in hundredths, each cut to a whole number; then the mean."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    asked = pod(guaranteed(3, memory=GIB))
    assert score(zones, asked, "LeastAllocated") == scored((62 + 87) // 2)
    assert score(zones, asked, "MostAllocated") == scored((37 + 12) // 2)


def test_weights() -> None:
    """What is below 1 counts as 1, as does what is not named."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    asked = pod(guaranteed(3, memory=GIB))
    assert score(zones, asked, "LeastAllocated", cpu=3) == scored((62 * 3 + 87) // 4)
    assert score(zones, asked, "LeastAllocated", cpu=0, memory=-5) == scored((62 + 87) // 2)


def test_fractions_are_rounded_up_before_they_are_shared_but_not_before_they_are_compared() -> None:
    zones = [zone(0, {"cpu": "2500m", "memory": 2 * GIB})]
    assert score(zones, pod(guaranteed("2200m", memory=GIB)), "MostAllocated") == scored((100 + 50) // 2)
    assert score(zones, pod(guaranteed("2600m", memory=GIB)), "MostAllocated") == scored((0 + 50) // 2)


def test_what_a_zone_lacks_scores_nothing() -> None:
    zones = [zone(0, {"cpu": 8, "memory": 0})]
    assert score(zones, pod(guaranteed(4, nic=1)), "LeastAllocated") == scored(50 // 3)
    assert score(zones, pod(guaranteed(4, nic=1)), "MostAllocated") == scored(50 // 3)


def test_balanced_allocation() -> None:
    """100 where the same part of everything is taken; 0 where a zone has too little of anything."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    assert score(zones, pod(guaranteed(2, memory=2 * GIB)), "BalancedAllocation") == scored(100)
    assert score(zones, pod(guaranteed(8, memory=1)), "BalancedAllocation") == scored(50)
    assert score(zones, pod(guaranteed(9, memory=GIB)), "BalancedAllocation") == scored(0)
    assert score([zone(0, {"cpu": 8})], pod(guaranteed(8)), "BalancedAllocation") == scored(100)


amounts = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=2, max_size=4)


@given(amounts)
def test_balanced_allocation_is_the_sample_variance(pairs: list[tuple[int, int]]) -> None:
    """Exactly, but for the last place before a result is cut."""
    names = ["cpu", "memory", "example.com/a", "example.com/b"][: len(pairs)]
    having = zone(0, {name: having for name, (_, having) in zip(names, pairs, strict=True)})
    asking = pod(container(**{name: asked for name, (asked, _) in zip(names, pairs, strict=True)}))
    shares = [Fraction(asked, having) for asked, having in pairs]
    exact = 0 if max(shares) > 1 else (1 - statistics.variance(shares)) * 100
    answer = score([having], asking, "BalancedAllocation")
    assert answer.outcome == "scored"
    assert answer.score in {int(exact - Fraction(1, 10**9)), int(exact), int(exact + Fraction(1, 10**9))}


# --- several zones, several containers


def test_the_worst_zone_counts_of_those_that_fit() -> None:
    """A zone with a score of 0 is taken for one that does not fit, even where it is merely full."""
    zones = [zone(number, {"cpu": cpus, "memory": 8 * GIB}) for number, cpus in enumerate((8, 16, 1))]
    asked = pod(guaranteed(4, memory=4 * GIB))
    assert score(zones, asked, "LeastAllocated") == scored(25)  # 0 and 50 in the last
    assert score(zones, asked, "MostAllocated") == scored(25)
    full = [zone(0, {"cpu": 4, "memory": 4 * GIB}), zone(1, {"cpu": 8, "memory": 8 * GIB})]
    assert score(full, asked, "LeastAllocated") == scored(50)


def test_containers_are_scored_one_by_one() -> None:
    """The mean over all containers, init containers too, each as if it were alone."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    parts = [guaranteed(cpus, memory=cpus * GIB) for cpus in (8, 4, 1)]
    asked = pod(*parts[:2], init=(parts[2],))
    assert score(zones, asked, "MostAllocated") == scored((100 + 50 + 12) // 3)


def test_a_pod_is_scored_as_one() -> None:
    """By the greater of all containers together and any init container; sidecars count as init containers do."""
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    two, four = guaranteed(2, memory=2 * GIB), guaranteed(4, memory=4 * GIB)
    assert score(zones, pod(two, two), "MostAllocated", "pod") == scored(50)
    assert score(zones, pod(two, init=(four,)), "MostAllocated", "pod") == scored(50)
    assert score(zones, pod(two, two, init=(four | {"restartPolicy": "Always"},)), "MostAllocated", "pod") == scored(50)
    over = {"cpu": "2", "memory": str(2 * GIB)}
    assert score(zones, pod(two, two, overhead=over), "MostAllocated", "pod") == scored(75)


def test_no_zones_score_nothing() -> None:
    for strategy in BY_ZONE:
        assert score([], pod(guaranteed(1)), strategy) == scored(0)


# --- where it crashes


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pods_with_resources_of_their_own(scope: str) -> None:
    """Containers without requests have it divide by zero, or score what no node may."""
    own = {"cpu": "4", "memory": "1Gi"}
    asked = pod({"name": "c"}, resources={"requests": own, "limits": own})
    zones = [zone(0, {"cpu": 8, "memory": 8 * GIB})]
    for strategy in ("LeastAllocated", "MostAllocated"):
        answer = score(zones, asked, strategy, scope)
        assert answer == ScoreStatus("crashes", 0, "runtime error: integer divide by zero")
    assert score(zones, asked, "BalancedAllocation", scope) == ScoreStatus("invalid", -(1 << 63))
    assert score(zones, asked, "LeastNUMANodes", scope) == scored(100)


def test_a_variance_of_one_number() -> None:
    own = {"cpu": "4", "memory": "1Gi"}
    asked = pod(container(cpu=1), resources={"requests": own, "limits": own})
    answer = score([zone(0, {"cpu": 8})], asked, "BalancedAllocation")
    assert answer == ScoreStatus("invalid", -(1 << 63))


def test_overdrawn_zones() -> None:
    """What is available below 0 makes fractions that are far apart, and a variance too large for a score."""
    zones = [zone(0, {"cpu": 8, "memory": -1})]
    assert score(zones, pod(guaranteed(4, memory=4)), "BalancedAllocation") == ScoreStatus("invalid", -912)
    assert score(zones, pod(guaranteed(4, memory="64Gi")), "BalancedAllocation") == ScoreStatus("invalid", -(1 << 63))
    assert score(zones, pod(guaranteed(4, memory=4)), "LeastAllocated") == scored(25)


@pytest.mark.parametrize(("strategy", "scope"), OF_ANY)
def test_zones_with_gaps(strategy: Strategy, scope: str) -> None:
    """Ids are taken for places in a list: NUMA nodes 0 and 2 are the end of the scheduler."""
    zones = [zone(number, {"cpu": 8, "memory": 8 * GIB}) for number in (0, 2)]
    asked = pod(guaranteed(12))
    if strategy == "LeastNUMANodes" and scope == "pod":
        assert score(zones, asked, strategy, scope).outcome == "scored"
        return
    answer = score(zones, asked, strategy, scope)
    assert answer == ScoreStatus("crashes", 0, "runtime error: index out of range [2] with length 2")


@pytest.mark.parametrize(("strategy", "scope"), OF_ANY)
def test_node_64(strategy: Strategy, scope: str) -> None:
    answer = score([zone(64, {"cpu": 8})], pod(guaranteed(1)), strategy, scope)
    assert answer == ScoreStatus("crashes", 0, "runtime error: index out of range [64] with length 64")


# --- properties

shapes = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3)


@given(shapes, shapes, st.sampled_from(OF_ANY))
def test_scores_are_between_0_and_100(
    having: list[tuple[int, int]], asking: list[tuple[int, int]], way: tuple[Strategy, str]
) -> None:
    zones = [zone(place, {"cpu": cpus, "memory": size}) for place, (cpus, size) in enumerate(having)]
    asked = pod(*(guaranteed(cpus, memory=size) for cpus, size in asking))
    answer = score(zones, asked, *way)
    assert answer.outcome == "scored"
    assert 0 <= answer.score <= 100


@given(shapes, st.sampled_from(BY_ZONE))
def test_one_container_is_the_same_in_both_scopes(having: list[tuple[int, int]], strategy: Strategy) -> None:
    zones = [zone(place, {"cpu": cpus, "memory": size}) for place, (cpus, size) in enumerate(having)]
    asked = pod(guaranteed(3, memory=3))
    assert score(zones, asked, strategy) == score(zones, asked, strategy, "pod")
