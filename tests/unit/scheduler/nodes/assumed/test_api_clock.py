"""The estimated clock of the API server is never ahead of the real one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.nodes.assumed.api_clock import ApiClock


def test_without_stamps() -> None:
    """Without stamps, the clocks are assumed to be equal."""
    assert ApiClock().stamp(5.0) == 5.0


@given(st.integers(-10_000, 10_000), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1))
def test_stamps(error: int, deliveries: list[tuple[int, int]]) -> None:
    """Each stamp was true at some time before its arrival; the stamp with the fastest delivery decides."""
    clock, now = ApiClock(), 1000
    for pause, delay in deliveries:
        now += pause
        clock.observe(now - delay, now + error)
    fastest = min(delay for _, delay in deliveries)
    assert clock.stamp(now + error) == now - fastest
