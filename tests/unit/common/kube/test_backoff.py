"""Waits: within bounds, longer with each attempt, and never shorter than the server requires."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.backoff import Backoff

ATTEMPTS = st.integers(0, 10_000)
JITTERS = st.floats(0, 1)
RULES = st.builds(Backoff, base=st.floats(0.001, 10), cap=st.floats(10, 100), retry_after_cap=st.floats(100, 1000))


@given(RULES, ATTEMPTS, JITTERS)
def test_bounds(rule: Backoff, attempt: int, jitter: float) -> None:
    """A wait is at least half of the base and at most the cap."""
    delay = rule.delay(attempt, jitter)
    assert rule.base / 2 <= delay <= rule.cap


@given(RULES, ATTEMPTS, JITTERS)
def test_grows(rule: Backoff, attempt: int, jitter: float) -> None:
    """With the same jitter, a later attempt waits at least as long."""
    assert rule.delay(attempt, jitter) <= rule.delay(attempt + 1, jitter)


@given(RULES, ATTEMPTS, JITTERS, st.floats(0, 1e9))
def test_retry_after_is_a_minimum(rule: Backoff, attempt: int, jitter: float, retry_after: float) -> None:
    """The wait is at least Retry-After, up to its cap, and exceeds it by at most a quarter."""
    delay = rule.delay(attempt, jitter, retry_after)
    assert delay >= min(retry_after, rule.retry_after_cap)
    assert delay <= max(rule.cap, 1.25 * min(retry_after, rule.retry_after_cap))


def test_a_minute_of_failures() -> None:
    """With the defaults, a failing server gets nine or ten requests in its first minute."""
    waits = [Backoff().delay(attempt, 0.5) for attempt in range(20)]
    assert sum(waits[:8]) < 60 < sum(waits[:10])
