"""The zones of a report: names, resources and costs are read back unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.nrt.attributes import MAX_NUMA_NODES, ResourceInfo
from zonewise_common.nrt.zones import (
    NODE,
    NUMA_TYPES,
    PREFIXES,
    read_costs,
    read_resources,
    write_costs,
    write_resources,
    zone_id,
    zone_name,
)

AMOUNTS = st.builds(ResourceInfo, *[st.integers(0, 1 << 60)] * 3)


@given(st.sampled_from(sorted(PREFIXES)), st.integers(0, MAX_NUMA_NODES - 1))
def test_names(zone_type: str, number: int) -> None:
    assert zone_id(zone_name(zone_type, number), zone_type) == number


def test_the_names_that_consumers_know() -> None:
    assert [zone_name(zone_type, 7) for zone_type in NUMA_TYPES] == ["node-7", "memory-7", "device-7", "cpu-7"]


@pytest.mark.parametrize(
    "name", [None, 1, "", "node-", "node-x", "node--1", "node-٧", "node-1024", "node-999999", "zone-1"]
)
def test_other_names(name: object) -> None:
    assert zone_id(name, NODE) is None


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/nic"]), AMOUNTS))
def test_resources(amounts: dict[str, ResourceInfo]) -> None:
    problems: list[str] = []
    assert read_resources({"resources": write_resources(amounts)}, "zones[0]", problems) == amounts
    assert problems == []


@given(st.dictionaries(st.integers(0, MAX_NUMA_NODES - 1), st.integers(0, 255)))
def test_costs(costs: dict[int, int]) -> None:
    problems: list[str] = []
    written = write_costs((zone_name(NODE, number), cost) for number, cost in costs.items())
    assert read_costs({"costs": written}, "zones[0]", problems) == costs
    assert problems == []


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (1, "zones[0].resources[1]: not an object: 1"),
        ({"name": ""}, "zones[0].resources[1].name: not a name: ''"),
        ({"name": "cpu"}, "zones[0].resources[1].name: 'cpu' exists already: the first one is used"),
        ({"name": "nic", "capacity": "x"}, "zones[0].resources[1] (nic): not a quantity: 'x'"),
    ],
)
def test_damaged_resources(resource: object, problem: str) -> None:
    """The valid resources are still read."""
    problems: list[str] = []
    sound = write_resources({"cpu": (3, 2, 1)})
    assert read_resources({"resources": [*sound, resource]}, "zones[0]", problems) == {"cpu": (3, 2, 1)}
    assert problems == [problem]


@pytest.mark.parametrize(
    "cost", [{"name": "gpu-0", "value": 1}, {"name": "node-0", "value": -1}, {"name": "node-0", "value": True}]
)
def test_damaged_costs(cost: dict[str, Any]) -> None:
    problems: list[str] = []
    assert read_costs({"costs": [cost]}, "zones[0]", problems) == {}
    assert problems == [f"zones[0].costs[0]: not a zone and its distance: {cost!r}"]
