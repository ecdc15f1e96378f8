"""Random numbers that are the same for a given seed with every release of numpy.

Uniform numbers come from numpy's PCG64 generator, which never changes. The distributions of numpy may change with a
release (NEP 19), so this module computes distributions from their inverse distribution functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = tuple[float, ...]


_MIN_LOG = 1e-9
"""Smallest lower bound of a logarithmic range."""


class UniformStream:
    """A stream of uniform numbers. Streams with the same seed and different numbers are independent."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        """Initialize from a non-negative seed and stream number."""
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream])))

    def uniform(self, count: int) -> Floats:
        """Return numbers from 0 up to 1; (count,)."""
        return self._generator.random(count)


class DistributionKind(NamedTuple):
    """A kind of distribution."""

    syntax: str
    """How it is written in a file."""
    accepts: Callable[[Numbers], bool]
    """Whether these non-negative numbers are valid parameters."""
    inverse: Callable[[Floats, Numbers], Floats]


def log_uniform(uniform: Floats, minimum: float, maximum: float) -> Floats:
    """Return numbers whose logarithms are uniform: such run times are minutes as often as hours."""
    return minimum * (maximum / minimum) ** uniform


def exponential(uniform: Floats, mean: float) -> Floats:
    """Return the gaps of a Poisson process."""
    return -mean * np.log1p(-uniform)


def _is_range(numbers: Numbers) -> bool:
    return len(numbers) == 2 and numbers[0] <= numbers[1]


def _is_log_range(numbers: Numbers) -> bool:
    return _is_range(numbers) and numbers[0] >= _MIN_LOG


def _is_single(numbers: Numbers) -> bool:
    return len(numbers) == 1


def _uniform(uniform: Floats, numbers: Numbers) -> Floats:
    return numbers[0] + (numbers[1] - numbers[0]) * uniform


def _log_uniform(uniform: Floats, numbers: Numbers) -> Floats:
    return log_uniform(uniform, *numbers)


def _exponential(uniform: Floats, numbers: Numbers) -> Floats:
    return exponential(uniform, *numbers)


def _choice(uniform: Floats, numbers: Numbers) -> Floats:
    return np.array(numbers, np.float64)[(uniform * len(numbers)).astype(np.int64)]


DISTRIBUTIONS = {
    "uniform": DistributionKind("{uniform: [a, b]}", _is_range, _uniform),
    "loguniform": DistributionKind("{loguniform: [a, b]}", _is_log_range, _log_uniform),
    "exponential": DistributionKind("{exponential: mean}", _is_single, _exponential),
    "choice": DistributionKind("{choice: [a, b, ...]}", bool, _choice),
}
"""Kinds of distributions by name."""


class Distribution(NamedTuple):
    """A kind of distribution with its parameters."""

    kind: str
    """One of DISTRIBUTIONS, or "fixed"."""
    numbers: Numbers

    def sample(self, uniform: UniformStream, count: int) -> Floats:
        """Return random numbers; (count,)."""
        if self.kind == "fixed":
            return np.full(count, self.numbers[0])
        return DISTRIBUTIONS[self.kind].inverse(uniform.uniform(count), self.numbers)

    @property
    def upper_bound(self) -> float:
        """Return an upper bound of the numbers; infinite for an exponential distribution."""
        return np.inf if self.kind == "exponential" else max(self.numbers)
