"""The budget of reviews, checked for its rates over random requests from several addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.clock import Clock
from zonewise_common.service.review_budget import (
    CLIENT_BURST,
    CLIENT_RATE,
    TOTAL_BURST,
    TOTAL_RATE,
    ReviewBudget,
)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.floats(0.0, 3.0)), max_size=40))
def test_rates(requests: list[tuple[int, int, float]]) -> None:
    """Neither one address nor all together exceed their rates, and an address below both rates is never limited."""
    clock = Clock()
    budget = ReviewBudget(clock)
    start = clock()
    reviews: dict[int, int] = {}
    for number, count, seconds in requests:
        acquired = sum(budget.try_acquire(f"10.0.0.{number}") for _ in range(count))
        reviews[number] = reviews.get(number, 0) + acquired
        elapsed = clock() - start
        assert reviews[number] <= CLIENT_BURST + CLIENT_RATE * elapsed + 1e-6
        assert sum(reviews.values()) <= TOTAL_BURST + TOTAL_RATE * elapsed + 1e-6
        if sum(asked for _, asked, _ in requests) <= CLIENT_BURST:
            assert acquired == count
        clock.advance(seconds)


def test_an_address_without_budget_costs_the_others_none() -> None:
    """Each of the other addresses has its own budget, whatever one address sends."""
    budget = ReviewBudget(Clock())
    assert sum(budget.try_acquire("10.0.0.1") for _ in range(1000)) == CLIENT_BURST
    for number in range(2, 2 + (TOTAL_BURST - CLIENT_BURST) // CLIENT_BURST):
        assert all(budget.try_acquire(f"10.0.0.{number}") for _ in range(CLIENT_BURST))
    assert sum(budget.try_acquire("10.0.0.99") for _ in range(CLIENT_BURST)) == TOTAL_BURST % CLIENT_BURST
