"""The notations of attributes: written in one order, and read back unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.nrt.attributes import (
    MAX_NUMA_NODES,
    ResourceInfo,
    read_amounts,
    read_attributes,
    read_pairs,
    read_shared_resource,
    read_zones,
    write_amounts,
    write_attributes,
    write_pairs,
    write_shared_resource,
    write_zones,
)

TEXT = st.text("abz./-019", max_size=5)
AMOUNTS = st.builds(ResourceInfo, *[st.integers(0, 1 << 60)] * 3)
ZONES = st.sets(st.integers(0, MAX_NUMA_NODES - 1), min_size=1)


def bits(zones: set[int]) -> int:
    return sum(1 << zone for zone in zones)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_pairs(pairs: dict[str, str]) -> None:
    """Names of resources and drivers without commas and equals signs are read back with their values."""
    assert read_pairs(write_pairs(pairs)) == pairs


def test_pairs_are_sorted_by_name() -> None:
    """Equal pairs have equal texts."""
    assert write_pairs({"b": 1, "a": "2/3"}) == "a=2/3,b=1"


def test_a_damaged_pair() -> None:
    """The error contains the invalid part."""
    with pytest.raises(ValueError, match="'b'"):
        read_pairs("a=1,b")


@given(st.dictionaries(TEXT, AMOUNTS, max_size=5))
def test_amounts(amounts: dict[str, ResourceInfo]) -> None:
    problems: list[str] = []
    assert dict(read_amounts(write_amounts(amounts), "field", problems)) == amounts
    assert problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=3/2/1,b=1/2", "field (b): not three quantities: '1/2'"),
        ("a=3/2/1,b=1/2/x", "field (b): not a quantity: 'x'"),
        ("a=3/2/1,b=1/2/-3", "field (b): negative: '-3'"),
    ],
)
def test_damaged_amounts(text: str, problem: str) -> None:
    """The valid amounts are still read."""
    problems: list[str] = []
    assert dict(read_amounts(text, "field", problems)) == {"a": (3, 2, 1)}
    assert problems == [problem]


def test_amounts_that_are_no_pairs() -> None:
    problems: list[str] = []
    assert list(read_amounts("a", "field", problems)) == []
    assert problems == ["field: not name=value: 'a'"]


@given(ZONES)
def test_zones(zones: set[int]) -> None:
    assert read_zones(write_zones(zones)) == bits(zones)


@given(TEXT.filter(bool), ZONES)
def test_shared_resources(resource: str, zones: set[int]) -> None:
    assert read_shared_resource(write_shared_resource(resource, zones)) == (resource, bits(zones))


@pytest.mark.parametrize("text", ["", "a", "0,", "-1", "1024", "٧", "0+1"])
def test_damaged_zones(text: str) -> None:
    with pytest.raises(ValueError, match="not zones"):
        read_zones(text)


@given(st.dictionaries(TEXT, TEXT | st.none(), max_size=5))
def test_attributes(pairs: dict[str, str | None]) -> None:
    """Unknown values are omitted, and the list is sorted by name."""
    problems: list[str] = []
    written = write_attributes(pairs.items())
    assert [item["name"] for item in written] == sorted(name for name, value in pairs.items() if value is not None)
    assert read_attributes({"attributes": written}, "", problems) == {
        name: value for name, value in pairs.items() if value is not None
    }
    assert problems == []


@pytest.mark.parametrize(
    ("items", "expected", "problems"),
    [
        (None, {}, []),
        ([{"name": "a", "value": "x"}, {"name": "a", "value": "y"}], {"a": "x"}, []),
        (
            [{"name": "a", "value": 1}],
            {},
            ["zones[0].attributes[0]: not a name and its value: {'name': 'a', 'value': 1}"],
        ),
        ([{"name": "a", "value": "x"}, 1], {"a": "x"}, ["zones[0].attributes[1]: not an object: 1"]),
        ("a", {}, ["zones[0].attributes: not a list: 'a'"]),
    ],
)
def test_damaged_attributes(items: Any, expected: dict[str, str], problems: list[str]) -> None:
    """If a name occurs twice, the first value counts."""
    reported: list[str] = []
    assert read_attributes({"attributes": items}, "zones[0]", reported) == expected
    assert reported == problems
