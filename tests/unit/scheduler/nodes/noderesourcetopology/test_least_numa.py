"""The strategy LeastNUMANodes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nrt_objects import DEVICE, guaranteed, nrt, pod, zone, zone_lists
from zonewise_scheduler.nodes.noderesourcetopology import ScoreStatus, score_node

Json = dict[str, Any]

DISTANCES = {
    0: {0: 10, 1: 12, 2: 20, 3: 20},
    1: {0: 12, 1: 10, 2: 20, 3: 20},
    2: {0: 20, 1: 20, 2: 10, 3: 12},
    3: {0: 20, 1: 20, 2: 12, 3: 10},
}


def four(*cpus: int, **extra: Any) -> list[Json]:
    return [zone(number, {"cpu": size, "memory": "8Gi"} | extra, DISTANCES[number]) for number, size in enumerate(cpus)]


def score(
    zones: list[Json], *containers: Json, scope: str = "container", init: tuple[Json, ...] = (), **attributes: str
) -> int:
    status = score_node(nrt(zones, scope=scope, **attributes), pod(*containers, init=init), "LeastNUMANodes")
    assert status.outcome == "scored"
    return status.score


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_every_policy(policy: str) -> None:
    status = score_node(nrt(four(8), policy), pod(guaranteed(8)), "LeastNUMANodes")
    assert status == ScoreStatus("scored", 94)


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_steps(scope: str) -> None:
    """The score is 12 lower for each zone, and 6 higher if no other zones are closer together."""
    zones = four(4, 4, 4, 4)
    assert [score(zones, guaranteed(cpus), scope=scope) for cpus in (4, 8, 12, 16, 17)] == [94, 82, 70, 58, 0]


def test_distances() -> None:
    """Two zones at a distance of 12 are close, but not at 20; a single zone is always close."""
    assert score(four(4, 0, 4, 0), guaranteed(8)) == 76
    assert score(four(0, 0, 4, 4), guaranteed(8)) == 82
    assert score(four(0, 0, 0, 4), guaranteed(4)) == 94


def test_closest_zones_come_first() -> None:
    """The first two zones, which are close too, are left; zones 0 and 2 would have sufficed."""
    assert score(four(4, 4, 6, 6), guaranteed(10), guaranteed(8)) == 82


def test_unknown_costs() -> None:
    """In this case all zones are equally far, so none are closer."""
    zones = [zone(number, {"cpu": 4, "memory": "8Gi"}) for number in (0, 1)]
    assert score(zones, guaranteed(8)) == 82
    assert score([zones[0], four(4, 4)[1]], guaranteed(8)) == 82


def test_high_costs() -> None:
    """With distances above 255 no set is close, and from 256 on no set fits."""
    for cost, expected in ((255, 94), (256, 0), (1000, 0)):
        assert score([zone(0, {"cpu": 4, "memory": "8Gi"}, {0: cost})], guaranteed(4)) == expected


def test_containers_are_subtracted() -> None:
    """The widest container counts; init containers are subtracted like other containers."""
    assert score(four(4, 4, 4, 0), guaranteed(8), guaranteed(4)) == 82
    assert score(four(4, 4, 4, 0), guaranteed(4), guaranteed(8)) == 76
    assert score(four(4, 4, 4, 4), guaranteed(4), init=(guaranteed(8), guaranteed(8))) == 0


def test_storage() -> None:
    """A Guaranteed pod with ephemeral storage scores 0 on every node."""
    assert score(four(8), guaranteed(1, storage="1Gi")) == 0


def test_resources_without_zones() -> None:
    pod_level = {"cpu": "4", "memory": "1Gi"}
    container = {"name": "c", "resources": {"requests": {"example.com/anywhere": "1"}}}
    pod_object = pod(container, resources={"requests": pod_level, "limits": pod_level})
    assert score_node(nrt(four(8)), pod_object, "LeastNUMANodes") == ScoreStatus("scored", 100)


def test_zones_must_list_every_resource() -> None:
    """Two zones with CPUs do not help if only one lists the device, even if the requested amount is 0."""
    zones = four(4, 4)
    zones[0]["resources"].append({"name": DEVICE, "available": "1"})
    assert score(zones, guaranteed(4, nic=1)) == 94
    assert score(zones, guaranteed(8, nic=1)) == 0
    assert score(zones, guaranteed(8, nic=0)) == 0


@pytest.mark.parametrize(
    ("max_zones", "expected"),
    [("2", 75), ("16", 97), ("128", 100), ("4096", 100), ("1", 94), ("0", 94), ("-3", 94), ("many", 94), ("8.5", 94)],
)
def test_max_numa_nodes(max_zones: str, expected: int) -> None:
    """The option sets the step, which is 0 above 100. The value 1 is invalid."""
    assert score(four(8), guaranteed(8), topologyManagerMaxNUMANodes=max_zones) == expected


def test_ids_are_used_as_indices() -> None:
    """If zones are listed in another order, amounts are subtracted from the wrong zones."""
    first, second = four(4, 8)
    assert score([first, second], guaranteed(8), guaranteed(4)) == 94
    assert score([second, first], guaranteed(8), guaranteed(4)) == 94
    assert score([second, first], guaranteed(8), guaranteed(8)) == 94  # the amount was subtracted from the wrong zone


def test_gaps_in_ids() -> None:
    """Subtracting from NUMA node 2 of two makes the scheduler panic; scope pod subtracts nothing."""
    zones = [zone(0, {"cpu": 4, "memory": "8Gi"}), zone(2, {"cpu": 8, "memory": "8Gi"})]
    for scope, outcome in (("container", "crashes"), ("pod", "scored")):
        assert score_node(nrt(zones, scope=scope), pod(guaranteed(8)), "LeastNUMANodes").outcome == outcome
    assert score(zones, guaranteed(4)) == 94


# --- properties

counts = st.integers(0, 5)


@given(zone_lists(counts), st.integers(1, 20), counts)
def test_number_of_zones(zones: list[Json], cpus: int, nics: int) -> None:
    """The score depends on the size of the smallest sufficient set of zones."""
    available = [
        [int(resource["available"]) for resource in (zone["resources"][0], zone["resources"][2])] for zone in zones
    ]
    sizes = [
        size
        for size in range(1, len(zones) + 1)
        for zone_set in itertools.combinations(available, size)
        if sum(amounts[0] for amounts in zone_set) >= cpus and sum(amounts[1] for amounts in zone_set) >= nics
    ]
    expected = 100 - min(sizes) * 12 + 6 if sizes else 0  # without distances, every set is close
    assert score(zones, guaranteed(cpus, nic=nics)) == expected
