"""The token bucket: never more than its rate, and never an unnecessary wait."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.token_bucket import TokenBucket

PAUSES = st.lists(st.fractions(0, 2, max_denominator=100), max_size=40)


class Clock:
    """A clock that tests set, in fractions so that nothing is rounded."""

    def __init__(self) -> None:
        self.now: Fraction = Fraction(0)

    def __call__(self) -> float:
        return self.now  # type: ignore[return-value]  -- a Fraction counts as a number


def no_more_than(times: list[Fraction], rate: int, burst: int) -> bool:
    """Return whether at most burst + rate * time events lie between any two of the times, both included."""
    return all(
        later - earlier + 1 <= burst + rate * (times[later] - times[earlier])
        for earlier in range(len(times))
        for later in range(earlier, len(times))
    )


@given(PAUSES, st.integers(1, 50), st.integers(1, 8))
def test_reserving_never_exceeds_the_rate(pauses: list[Fraction], rate: int, burst: int) -> None:
    """If every caller waits as long as returned, any period has at most burst + rate * time events."""
    clock = Clock()
    bucket = TokenBucket(Fraction(rate), burst, clock)  # type: ignore[arg-type]
    times: list[Fraction] = []
    for pause in pauses:
        clock.now += pause
        times.append(clock.now + Fraction(bucket.reserve()))
    assert no_more_than(times, rate, burst)
    assert times == sorted(times)


@given(PAUSES, st.integers(1, 50), st.integers(1, 8))
def test_trying_never_exceeds_the_rate(pauses: list[Fraction], rate: int, burst: int) -> None:
    """Immediate tokens observe the rate too, and the first ones of a burst are always granted."""
    clock = Clock()
    bucket = TokenBucket(Fraction(rate), burst, clock)  # type: ignore[arg-type]
    assert all(bucket.try_acquire() for _ in range(burst))
    times = [clock.now] * burst
    for pause in pauses:
        clock.now += pause
        if bucket.try_acquire():
            times.append(clock.now)
    assert no_more_than(times, rate, burst)


def test_no_unnecessary_wait() -> None:
    """A burst passes at once, the next event waits for exactly one interval, and a pause restores the burst."""
    clock = Clock()
    bucket = TokenBucket(Fraction(20), 5, clock)  # type: ignore[arg-type]
    assert [bucket.reserve() for _ in range(7)] == [0, 0, 0, 0, 0, Fraction(1, 20), Fraction(1, 10)]
    clock.now += 60
    assert [bucket.reserve() for _ in range(6)] == [0, 0, 0, 0, 0, Fraction(1, 20)]


@given(PAUSES, st.integers(1, 50), st.integers(1, 8))
def test_the_delay_is_that_of_the_next_reservation(pauses: list[Fraction], rate: int, burst: int) -> None:
    """Reading the delay consumes no token."""
    clock = Clock()
    bucket = TokenBucket(Fraction(rate), burst, clock)  # type: ignore[arg-type]
    for pause in pauses:
        clock.now += pause
        assert bucket.delay == bucket.delay == bucket.reserve()
