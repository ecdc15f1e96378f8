"""Begin times of pending workloads, in order."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.backfill.state.begin_times import BeginTimes

EDITS = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(1, 9)), max_size=40)


@given(EDITS, st.lists(st.integers(0, 9), max_size=4))
def test_workloads_begin_in_order_whatever_was_changed_before(
    edits: list[tuple[str, int | None]], nows: list[int]
) -> None:
    """The first and the begun workloads are those of a plain dict; a copy is independent."""
    times, expected = BeginTimes(), dict[str, float]()
    for key, time in edits:
        if time is None:
            times.discard(key)
            expected.pop(key, None)
        else:
            times.add(key, time)
            expected[key] = time
        assert times.first == min(expected.values(), default=inf)
    copy, first = times.copy(), times.first
    for now in sorted(nows):
        begun = sorted((time, key) for key, time in expected.items() if time <= now)
        assert copy.pop_begun(now) == [key for _, key in begun]
        for _, key in begun:
            del expected[key]
        assert copy.first == min(expected.values(), default=inf)
    assert times.first == first
