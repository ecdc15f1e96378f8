"""The strategy that counts zones."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nrt_objects import DEVICE, guaranteed, nrt, pod, zone, zones_of
from zonewise_scheduler.nodes.noderesourcetopology import ScoreStatus, score_node

Json = dict[str, Any]

DISTANCES = {
    0: {0: 10, 1: 12, 2: 20, 3: 20},
    1: {0: 12, 1: 10, 2: 20, 3: 20},
    2: {0: 20, 1: 20, 2: 10, 3: 12},
    3: {0: 20, 1: 20, 2: 12, 3: 10},
}


def four(*cpus: int, **others: Any) -> list[Json]:
    return [
        zone(number, {"cpu": size, "memory": "8Gi"} | others, DISTANCES[number]) for number, size in enumerate(cpus)
    ]


def score(
    zones: list[Json], *containers: Json, scope: str = "container", init: tuple[Json, ...] = (), **of: str
) -> int:
    answer = score_node(nrt(zones, scope=scope, **of), pod(*containers, init=init), "LeastNUMANodes")
    assert answer.outcome == "scored"
    return answer.score


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_every_policy(policy: str) -> None:
    answer = score_node(nrt(four(8), policy), pod(guaranteed(8)), "LeastNUMANodes")
    assert answer == ScoreStatus("scored", 94)


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_steps(scope: str) -> None:
    """12 for each zone, 6 back where no other zones would be closer together."""
    zones = four(4, 4, 4, 4)
    assert [score(zones, guaranteed(cpus), scope=scope) for cpus in (4, 8, 12, 16, 17)] == [94, 82, 70, 58, 0]


def test_distances() -> None:
    """Of two zones, those at a distance of 12 are close, those at 20 are not; of one zone, all are."""
    assert score(four(4, 0, 4, 0), guaranteed(8)) == 76
    assert score(four(0, 0, 4, 4), guaranteed(8)) == 82
    assert score(four(0, 0, 0, 4), guaranteed(4)) == 94


def test_the_closest_zones_are_taken_even_if_they_are_not_the_first() -> None:
    """After them the first two are left, which are close as well; zones 0 and 2 would have been enough."""
    assert score(four(4, 4, 6, 6), guaranteed(10), guaranteed(8)) == 82


def test_costs_that_are_not_told_are_far() -> None:
    """All zones are then as far as can be, and so none is closer."""
    zones = [zone(number, {"cpu": 4, "memory": "8Gi"}) for number in (0, 1)]
    assert score(zones, guaranteed(8)) == 82
    assert score([zones[0], four(4, 4)[1]], guaranteed(8)) == 82


def test_costs_beyond_the_table() -> None:
    """With distances above 255 nothing is close, and from 256 on nothing fits."""
    for cost, expected in ((255, 94), (256, 0), (1000, 0)):
        assert score([zone(0, {"cpu": 4, "memory": "8Gi"}, {0: cost})], guaranteed(4)) == expected


def test_containers_use_up_zones() -> None:
    """The widest counts, init containers are taken off like the others."""
    assert score(four(4, 4, 4, 0), guaranteed(8), guaranteed(4)) == 82
    assert score(four(4, 4, 4, 0), guaranteed(4), guaranteed(8)) == 76
    assert score(four(4, 4, 4, 4), guaranteed(4), init=(guaranteed(8), guaranteed(8))) == 0


def test_storage_is_in_no_zone() -> None:
    """A Guaranteed pod that asks for ephemeral storage scores 0 on every node."""
    assert score(four(8), guaranteed(1, storage="1Gi")) == 0


def test_only_what_is_in_no_zone() -> None:
    own = {"cpu": "4", "memory": "1Gi"}
    asked = {"name": "c", "resources": {"requests": {"example.com/anywhere": "1"}}}
    made = pod(asked, resources={"requests": own, "limits": own})
    assert score_node(nrt(four(8)), made, "LeastNUMANodes") == ScoreStatus("scored", 100)


def test_every_zone_must_list_what_is_asked_for() -> None:
    """So that two zones with CPUs do not help where only one has the device, even one that is not needed."""
    zones = four(4, 4)
    zones[0]["resources"].append({"name": DEVICE, "available": "1"})
    assert score(zones, guaranteed(4, nic=1)) == 94
    assert score(zones, guaranteed(8, nic=1)) == 0
    assert score(zones, guaranteed(8, nic=0)) == 0


@pytest.mark.parametrize(
    ("most", "expected"),
    [("2", 75), ("16", 97), ("128", 100), ("4096", 100), ("1", 94), ("0", 94), ("-3", 94), ("many", 94), ("8.5", 94)],
)
def test_the_most_zones_that_a_topology_manager_works_on(most: str, expected: int) -> None:
    """It sets the step; above 100 that is none at all. 1 is taken for no number."""
    assert score(four(8), guaranteed(8), topologyManagerMaxNUMANodes=most) == expected


def test_ids_are_taken_for_places() -> None:
    """Zones that are listed in another order are charged in each other's stead."""
    first, second = four(4, 8)
    assert score([first, second], guaranteed(8), guaranteed(4)) == 94
    assert score([second, first], guaranteed(8), guaranteed(4)) == 94
    assert score([second, first], guaranteed(8), guaranteed(8)) == 94  # the first took 4 of the wrong one


def test_gaps_matter_where_something_is_taken() -> None:
    """Charging NUMA node 2 of two is the end of the scheduler; scope pod charges nothing."""
    zones = [zone(0, {"cpu": 4, "memory": "8Gi"}), zone(2, {"cpu": 8, "memory": "8Gi"})]
    for scope, outcome in (("container", "crashes"), ("pod", "scored")):
        assert score_node(nrt(zones, scope=scope), pod(guaranteed(8)), "LeastNUMANodes").outcome == outcome
    assert score(zones, guaranteed(4)) == 94


# --- properties

counts = st.integers(0, 5)


@given(zones_of(counts), st.integers(1, 20), counts)
def test_the_number_of_zones(zones: list[Json], cpus: int, nics: int) -> None:
    """The score tells the size of the smallest set of zones that has enough."""
    available = [[int(one["available"]) for one in (zone["resources"][0], zone["resources"][2])] for zone in zones]
    sizes = [
        size
        for size in range(1, len(zones) + 1)
        for chosen in itertools.combinations(available, size)
        if sum(room[0] for room in chosen) >= cpus and sum(room[1] for room in chosen) >= nics
    ]
    expected = 100 - min(sizes) * 12 + 6 if sizes else 0  # without distances all are alike
    assert score(zones, guaranteed(cpus, nic=nics)) == expected
