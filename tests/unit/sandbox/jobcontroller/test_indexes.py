"""Completion indexes and their text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.jobcontroller.indexes import format_indexes, parse_indexes


def test_two_neighbours_are_no_interval() -> None:
    assert format_indexes({1, 2, 4, 5, 6, 9}) == "1,2,4-6,9"
    assert format_indexes(()) == ""


def test_indexes_beyond_the_completions_and_damage_are_ignored() -> None:
    assert parse_indexes("0,x,2-5,-1,9", 4) == {0, 2, 3}


@given(st.sets(st.integers(0, 60)))
def test_a_text_is_read_as_it_was_written(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 61) == indexes
