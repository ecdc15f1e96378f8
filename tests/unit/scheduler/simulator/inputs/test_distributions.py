"""Random numbers and their distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.inputs.distributions import (
    DISTRIBUTIONS,
    Distribution,
    UniformStream,
    exponential,
    log_uniform,
)

MANY = 20_000


def test_a_seed_always_gives_the_same_numbers() -> None:
    """They do not depend on the release of numpy, since files in the repository must always describe the same jobs."""
    assert UniformStream(1).uniform(3) == pytest.approx([0.5118216247, 0.9504636963, 0.1441596127], abs=1e-9)
    assert UniformStream(1, 1).uniform(1) != UniformStream(1, 0).uniform(1)


def test_a_fixed_number_draws_nothing() -> None:
    dice = UniformStream(1)
    assert Distribution("fixed", (7,)).sample(dice, 3).tolist() == [7, 7, 7]
    assert dice.uniform(1) == UniformStream(1).uniform(1)


def test_distributions_have_their_means() -> None:
    assert Distribution("uniform", (180, 270)).sample(UniformStream(1), MANY).mean() == pytest.approx(225, rel=0.01)
    assert Distribution("exponential", (5,)).sample(UniformStream(1), MANY).mean() == pytest.approx(5, rel=0.03)
    assert np.log(Distribution("loguniform", (1, 100)).sample(UniformStream(1), MANY)).mean() == pytest.approx(
        np.log(10), rel=0.02
    )
    assert set(Distribution("choice", (1, 2, 4)).sample(UniformStream(1), 100).tolist()) == {1, 2, 4}


@given(
    st.sampled_from(sorted(DISTRIBUTIONS)),
    st.lists(st.floats(0, 2.0**53), max_size=3).map(tuple),
    st.integers(0, 2**63 - 1),
)
def test_drawn_numbers_are_within_their_bounds(kind: str, numbers: tuple[float, ...], seed: int) -> None:
    """The numbers are any that a distribution accepts."""
    if not DISTRIBUTIONS[kind].accepts(numbers):
        return
    draw = Distribution(kind, numbers)
    result = draw.sample(UniformStream(seed), 50)
    assert np.isfinite(result).all()
    assert (result >= 0).all()
    assert (result <= draw.upper_bound * (1 + 1e-12)).all()


def test_bounds_of_the_functions() -> None:
    ends = np.array([0.0, 1.0])
    assert log_uniform(ends, 2, 32).tolist() == [2, 32]
    assert exponential(ends[:1], 5).tolist() == [0]
