"""Arithmetic over all sets of zones."""

from __future__ import annotations

from itertools import combinations

from hypothesis import example, given
from hypothesis import strategies as st

from zonewise_scheduler.admission.topologymanager.zone_sums import contain, meet, pair_sums, sizes, suffice, to_set

ANY_SIZE = st.integers(0, 9) | st.integers(0, 1 << 63)


def members(index: int) -> list[int]:
    """Return the positions in a set."""
    return [position for position in range(index.bit_length()) if index >> position & 1]


@given(st.lists(ANY_SIZE, min_size=1, max_size=6), ANY_SIZE)
@example([1 << 62] * 2, 1 << 63).via("64 bits hold each value, and not the sum")
def test_sums_suffice(values: list[int], required: int) -> None:
    """Sums are exact, even if they exceed 64 bits."""
    expected = [sum(values[position] for position in members(index)) >= required for index in range(1 << len(values))]
    assert suffice(values, required).tolist() == expected


def test_a_negative_amount_is_no_error() -> None:
    """A node that has shrunk may have less than its pods hold."""
    assert suffice([5, -3], 5).tolist() == [False, True, False, False]


@given(st.lists(st.lists(st.integers(0, 255), min_size=4, max_size=4), min_size=4, max_size=4))
def test_pair_sums(table: list[list[int]]) -> None:
    expected = [sum(table[a][b] for a in members(index) for b in members(index)) for index in range(16)]
    assert pair_sums(table).tolist() == expected


@given(st.integers(1, 6), st.data())
def test_sets(count: int, data: st.DataObject) -> None:
    """The arrays of supersets, intersections and sizes match those of sets."""
    other = data.draw(st.integers(0, (1 << count) - 1))
    indices = range(1 << count)
    assert contain(count, other).tolist() == [index & other == other for index in indices]
    assert meet(count, other).tolist() == [bool(index & other) for index in indices]
    assert sizes(count).tolist() == [index.bit_count() for index in indices]


def test_indices_are_sets_of_positions() -> None:
    """The id of a zone is that of its position."""
    zones = (0, 8, 40)
    for size in range(4):
        for positions in combinations(range(3), size):
            index = sum(1 << position for position in positions)
            assert to_set(zones, index) == sum(1 << zones[position] for position in positions)
