"""Begin times of pending workloads, in order."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.backfill.begin_times import MIN_ENTRIES, BeginTimes

EDITS = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(1, 9)), max_size=400)


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
            assert len(times._heap) <= MIN_ENTRIES + 2 * len(expected)  # pyright: ignore[reportPrivateUsage]
        assert times.first == min(expected.values(), default=inf)
    copy = times.copy()
    for now in sorted(nows):
        begun = sorted((time, key) for key, time in expected.items() if time <= now)
        assert copy.pop_begun(now) == [key for _, key in begun]
        for _, key in begun:
            del expected[key]
        assert copy.first == min(expected.values(), default=inf)
    assert len(times.pop_begun(inf)) >= len(expected)


def test_the_entries_do_not_grow_with_the_workloads_ever_seen() -> None:
    """Workloads that were deleted before their begin time leave nothing behind."""
    times = BeginTimes()
    for number in range(10_000):
        times.add(f"job-{number}", 1e9 + number)
        times.discard(f"job-{number}")
    assert len(times._heap) <= MIN_ENTRIES + 2  # pyright: ignore[reportPrivateUsage]
    assert times.first == inf
