"""Means with 95 % confidence intervals, from Student's t distribution."""

from __future__ import annotations

from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVEL = 0.95
_HALVINGS = 100
_MIN_SPREAD = 2
"""Minimum number of results that have a spread."""


class MeanInterval(NamedTuple):
    """The mean of independent results."""

    mean: float | None
    """None if there is no result."""
    half_width: float | None
    """Maximum distance of the true mean from the mean, at a confidence of LEVEL; None for one result, which has no
    spread."""


def mean_interval(values: Sequence[float | None]) -> MeanInterval:
    """Return the mean of values with its interval, ignoring None."""
    known = [value for value in values if value is not None]
    if len(known) < _MIN_SPREAD:
        return MeanInterval(known[0] if known else None, None)
    return MeanInterval(fmean(known), t_quantile(len(known) - 1) * stdev(known) / sqrt(len(known)))


def t_quantile(degrees: int) -> float:
    """Return the bound that the absolute value of Student's t does not exceed with the probability LEVEL."""
    low, high = 0.0, 1.0
    while _t_probability(high, degrees) < LEVEL:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_probability(middle, degrees) < LEVEL else (low, middle)
    return high


def _t_probability(bound: float, degrees: int) -> float:
    """Return the probability that the absolute value of Student's t is below a bound.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    theta = atan(bound / sqrt(degrees))
    odd = degrees % 2
    if degrees == 1:
        return 2 * theta / pi
    term = total = cos(theta) if odd else 1.0
    for factor in range(2 if odd else 1, degrees - 2, 2):
        term *= cos(theta) ** 2 * factor / (factor + 1)
        total += term
    return 2 / pi * (theta + sin(theta) * total) if odd else sin(theta) * total
