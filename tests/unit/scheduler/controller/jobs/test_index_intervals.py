"""Completion indexes in the status of an Indexed Job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.jobs.index_intervals import count_indexes

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=6)


@given(INTERVALS, st.integers(0, 25))
def test_each_index_counts_once(intervals: list[tuple[int, int]], completions: int) -> None:
    text = ",".join(f"{first}-{first + more}" if more else str(first) for first, more in intervals)
    indexes = {first + offset for first, more in intervals for offset in range(more + 1)}
    assert count_indexes(text, completions) == len([index for index in indexes if index < completions])


@pytest.mark.parametrize("text", ["", ",", "x", "3-", "-3", "5-3", "1-2-3", "٣"])
def test_an_invalid_interval_holds_no_index(text: str) -> None:
    assert count_indexes(f"0,{text}", 10) == 1
