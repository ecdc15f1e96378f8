"""The starts in the most recent sample paths."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.backfill.forecast.run_time_samples import MIN_SAMPLES, SAMPLES
from zonewise_scheduler.backfill.forecast.sample_paths import StartSamples
from zonewise_scheduler.backfill.forecast.window import RecentStarts

Increment = dict[str, StartSamples]


def increment(start: float, count: int = 1, bound: float = inf, queue: str = "q") -> Increment:
    """Return sample paths in which workload a starts at a time."""
    return {"a": StartSamples(queue, (start,) * count, bound)}


def recent(*increments: Increment) -> RecentStarts:
    starts = RecentStarts()
    for each in increments:
        starts.add(each)
    return starts


def starts_of_a(*increments: Increment, now: float = 0.0) -> tuple[float, ...] | None:
    sampled = recent(*increments).samples(now).get("a")
    return None if sampled is None else sampled.starts


@given(st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12))
def test_the_samples_are_the_last_sixteen_starts(increments: list[tuple[float, ...]]) -> None:
    starts = tuple(start for each in increments for start in each)
    expected = starts[-SAMPLES:] if len(starts) >= MIN_SAMPLES else None
    assert starts_of_a(*({"a": StartSamples("q", each)} for each in increments)) == expected


def test_a_start_that_has_passed_is_left_out() -> None:
    """The sample paths still count, so a forecast does not vanish because its first sample paths were wrong."""
    increments = [increment(5.0), increment(7.0), increment(20.0)]
    assert starts_of_a(*increments, now=7.0) == (7.0, 20.0)
    assert starts_of_a(*increments, now=8.0) == (20.0,)


def test_no_start_is_later_than_the_last_reservation() -> None:
    sampled = recent(increment(50.0, 2), increment(30.0, 2, bound=40.0)).samples(0.0)["a"]
    assert sampled == StartSamples("q", (40.0, 40.0, 30.0, 30.0), 40.0)


def test_the_samples_of_a_workload_restart_in_another_queue_or_after_an_absence() -> None:
    moved = ([increment(5.0, 3), increment(9.0, 3, queue=queue)] for queue in ("another", "the other"))
    absent = [increment(5.0, 3), {"b": StartSamples("q", (1.0, 1.0, 1.0))}, increment(9.0, 3)]
    for increments in (*moved, absent):
        assert starts_of_a(*increments) == (9.0, 9.0, 9.0)
    assert recent(*absent[:2]).samples(0.0).keys() == {"b"}
