"""Delays in addition to the run time: random pod start delays, and the rate limit of requests."""

from __future__ import annotations

from math import inf
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.latency import NO_LATENCY, Latency, TokenBucket, pod_start_delays


def test_pods_start_within_their_span() -> None:
    result = pod_start_delays(Latency(1, 2), [1, 10, 0] * 100)
    assert all(1 <= entry < 2 for entry in result)


def test_the_last_of_ten_pods_is_ready_when_the_slowest_is() -> None:
    """The mean of the largest of n uniform numbers is n / (n + 1)."""
    assert mean(pod_start_delays(Latency(0, 1), [10] * 4000)) == pytest.approx(10 / 11, abs=0.01)
    assert mean(pod_start_delays(Latency(0, 1), [1] * 4000)) == pytest.approx(1 / 2, abs=0.02)


def test_delays_depend_on_the_seed_and_the_job() -> None:
    latency = Latency(1, 2)
    assert pod_start_delays(latency, [1, 1]) == pod_start_delays(latency, [1, 1, 1])[:2]
    assert pod_start_delays(latency, [1]) != pod_start_delays(latency._replace(seed=1), [1])


def test_without_latency_pods_are_ready_at_once() -> None:
    assert pod_start_delays(NO_LATENCY, [1, 3]) == [0, 0]


def test_requests_are_sent_in_a_burst_and_then_one_by_one() -> None:
    bucket = TokenBucket(2, 3)
    assert [bucket.reserve(10) for _ in range(5)] == [10, 10, 10, 10.5, 11]
    assert bucket.reserve(11) == 11.5
    assert [bucket.reserve(100) for _ in range(4)] == [100, 100, 100, 100.5]


def test_without_a_rate_all_requests_are_sent_at_once() -> None:
    bucket = TokenBucket(inf, 1)
    assert [bucket.reserve(now) for now in (0, 0, 5)] == [0, 0, 5]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.sampled_from([1, 2, 4]), st.integers(1, 4))
def test_no_interval_has_more_requests_than_rate_and_burst_permit(gaps: list[int], rate: int, burst: int) -> None:
    bucket = TokenBucket(rate, burst)
    now, removed = 0.0, list[float]()
    for gap in gaps:
        now += gap / 4
        removed.append(bucket.reserve(now))
        assert removed[-1] >= now
    assert removed == sorted(removed)
    for first in range(len(removed)):
        for last in range(first, len(removed)):
            assert last - first + 1 <= burst + rate * (removed[last] - removed[first])
