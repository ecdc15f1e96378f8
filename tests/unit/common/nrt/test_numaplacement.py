"""Containers by zone in a few bytes: written in a form that other programs read, and read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from zonewise_common.nrt.numaplacement import ContainerName, NumaPlacement, decode, encode

names = st.tuples(st.text("ab\0é", max_size=3), st.text("ab", max_size=3), st.text("ab", max_size=3))


def many(count: int) -> list[ContainerName]:
    return [("ns", f"pod-{number}", "c") for number in range(count)]


def test_no_containers() -> None:
    """Without containers there is no vector."""
    assert encode({}, 2) == NumaPlacement("npv0v001::ve=leb89::cc=0::nn=2::bn=0", {})


def test_metadata() -> None:
    """The metadata counts containers and zones, and names the lowest zone with the most containers."""
    placement = encode({("n", "p", "a"): 1, ("n", "p", "b"): 1, ("n", "p", "c"): 0}, 2)
    assert placement.metadata == "npv0v001::ve=leb89::cc=3::nn=2::bn=1"
    assert list(placement.vectors) == [0]
    assert encode({("n", "p", "a"): 1, ("n", "p", "b"): 0}, 2).metadata.endswith("::bn=0")


@pytest.mark.parametrize(
    ("number", "symbols"), [(0, "!"), (1, "#"), (63, "e"), (64, "f!"), (1663, "~e"), (1664, "gf!")]
)
def test_numbers(number: int, symbols: str) -> None:
    """64 symbols are digits that end a number, 25 more continue one, and the shortest form is used."""
    every = sorted(many(2 * number + 3), key=lambda name: xxh64_intdigest("\0".join(name)))
    placement = encode({name: int(index == number) for index, name in enumerate(every)}, 2)
    assert placement.vectors == {1: symbols}


@given(st.dictionaries(names, st.integers(0, 5), max_size=40))
def test_round_trip(containers: dict[ContainerName, int]) -> None:
    assert decode(encode(containers, 6), containers) == containers


@settings(max_examples=20)
@given(st.sets(st.integers(0, 1999), max_size=8))
def test_round_trip_of_many(zones_of_containers: set[int]) -> None:
    """Numbers of several symbols are also read back."""
    containers = {name: int(number in zones_of_containers) for number, name in enumerate(many(2000))}
    placement = encode(containers, 2)
    assert decode(placement, containers) == containers
    assert len("".join(placement.vectors.values())) <= 3 * len(zones_of_containers)


def test_an_unknown_zone() -> None:
    """A zone beyond the number of zones is an error that names the container."""
    with pytest.raises(ValueError, match="zone 2 of ns/pod-0/c"):
        encode({many(1)[0]: 2}, 2)


@pytest.mark.parametrize(
    ("placement", "reason"),
    [
        (NumaPlacement("npv0v002::ve=leb89::cc=1::nn=1::bn=0", {}), "metadata"),
        (NumaPlacement("npv0v001::ve=other::cc=1::nn=1::bn=0", {}), "metadata"),
        (NumaPlacement("npv0v001::ve=leb89::cc=1", {}), "metadata"),
        (NumaPlacement("npv0v001::ve=leb89::cc=2::nn=1::bn=0", {}), "of 2 containers"),
        (NumaPlacement("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: "$"}), "container 2 of 1"),
        (NumaPlacement("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: "f"}), "ends within"),
        (NumaPlacement("npv0v001::ve=leb89::cc=1::nn=2::bn=0", {1: "&"}), "symbol"),
    ],
)
def test_damage(placement: NumaPlacement, reason: str) -> None:
    """A damaged placement is an error, and so is one of other containers."""
    with pytest.raises(ValueError, match=reason):
        decode(placement, many(1))
