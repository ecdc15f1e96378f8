"""Numbers drawn at random, the same ones from a seed with every release of numpy.

Only uniform numbers come from numpy, of a generator that is fixed (PCG64); its own distributions may change with a
release (NEP 19), so others are made here, by the inverse of their distribution functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = tuple[float, ...]


_LEAST = 1e-9
"""Of a logarithmic range."""


class UniformStream:
    """A stream of uniform numbers; streams of one seed and different places are independent."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        """Take any whole numbers that are not negative."""
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream])))

    def uniform(self, count: int) -> Floats:
        """Return so many numbers from 0 up to 1; (count,)."""
        return self._generator.random(count)


class DistributionKind(NamedTuple):
    """A distribution."""

    syntax: str
    """How it is written."""
    accepts: Callable[[Numbers], bool]
    """Whether these can be its numbers, none of which is negative."""
    inverse: Callable[[Floats, Numbers], Floats]


def log_uniform(uniform: Floats, least: float, most: float) -> Floats:
    """Return numbers whose logarithms are uniform; a run time of that kind is as often of minutes as of hours."""
    return least * (most / least) ** uniform


def exponential(uniform: Floats, mean: float) -> Floats:
    """Return the gaps of a Poisson process."""
    return -mean * np.log1p(-uniform)


def _is_range(numbers: Numbers) -> bool:
    return len(numbers) == 2 and numbers[0] <= numbers[1]


def _is_log_range(numbers: Numbers) -> bool:
    return _is_range(numbers) and numbers[0] >= _LEAST


def _is_one(numbers: Numbers) -> bool:
    return len(numbers) == 1


def _uniform(dice: Floats, numbers: Numbers) -> Floats:
    return numbers[0] + (numbers[1] - numbers[0]) * dice


def _log_uniform(dice: Floats, numbers: Numbers) -> Floats:
    return log_uniform(dice, *numbers)


def _exponential(dice: Floats, numbers: Numbers) -> Floats:
    return exponential(dice, *numbers)


def _choice(dice: Floats, numbers: Numbers) -> Floats:
    return np.array(numbers, np.float64)[(dice * len(numbers)).astype(np.int64)]


DISTRIBUTIONS = {
    "uniform": DistributionKind("{uniform: [a, b]}", _is_range, _uniform),
    "loguniform": DistributionKind("{loguniform: [a, b]}", _is_log_range, _log_uniform),
    "exponential": DistributionKind("{exponential: mean}", _is_one, _exponential),
    "choice": DistributionKind("{choice: [a, b, ...]}", bool, _choice),
}
"""By name."""


class Distribution(NamedTuple):
    """How numbers are drawn."""

    kind: str
    """One of KINDS, or "fixed"."""
    numbers: Numbers

    def sample(self, uniform: UniformStream, count: int) -> Floats:
        """Return so many; (count,)."""
        if self.kind == "fixed":
            return np.full(count, self.numbers[0])
        return DISTRIBUTIONS[self.kind].inverse(uniform.uniform(count), self.numbers)

    @property
    def upper_bound(self) -> float:
        """Return a bound of what is drawn; infinite for an exponential distribution."""
        return np.inf if self.kind == "exponential" else max(self.numbers)
