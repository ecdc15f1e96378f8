"""Means and their confidence intervals."""

from __future__ import annotations

import random

import pytest

from zonewise_scheduler.simulator.sweep.confidence import mean_interval, t_quantile


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (10, 2.2281), (19, 2.0930), (120, 1.9799)],
)
def test_quantiles_equal_those_of_published_tables(degrees: int, quantile: float) -> None:
    """Abramowitz and Stegun, table 26.10."""
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-5)


def test_an_example_of_an_interval() -> None:
    """The deviation is 1, and the quantile for two degrees of freedom is 4.3027."""
    mean, half_width = mean_interval([1.0, 2.0, 3.0])
    assert (mean, half_width) == (2, pytest.approx(4.3027 / 3**0.5, abs=1e-4))


def test_one_value_has_no_interval_and_equal_values_have_one_of_length_zero() -> None:
    assert mean_interval([7.0]) == (7, None)
    assert mean_interval([7.0, 7.0, 7.0]) == (7, 0)


def test_a_missing_result_does_not_count() -> None:
    assert mean_interval([1.0, None, 3.0]) == mean_interval([1.0, 3.0])
    assert mean_interval([None, None]) == (None, None)


def test_the_interval_covers_the_mean_in_95_of_100_samples() -> None:
    numbers = random.Random(0)
    samples = ([numbers.gauss(3, 2) for _ in range(5)] for _ in range(4000))
    intervals = [mean_interval(sample) for sample in samples]
    covered = sum(abs((mean or 0) - 3) <= (half_width or 0) for mean, half_width in intervals)
    assert covered / len(intervals) == pytest.approx(0.95, abs=0.012)
