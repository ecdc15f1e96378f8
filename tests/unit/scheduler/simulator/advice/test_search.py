"""The search for the smallest position that meets a goal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.advice.goal import Measurement
from zonewise_scheduler.simulator.advice.search import NEIGHBOURS, SearchResult, smallest_meeting

LADDER = [1, 2, 4, 8, 16, 32, 64]


def search(meets: set[int], start: int = 3, ladder: list[int] = LADDER) -> SearchResult:
    """Search when these positions meet the goal; no position is simulated twice or lies outside of the ladder."""
    simulated: list[int] = []

    def evaluate(position: int) -> Measurement:
        simulated.append(position)
        return Measurement(float(position), 1, position in meets, 0)

    result = smallest_meeting(ladder, start, evaluate)
    assert len(simulated) == len(set(simulated))
    assert list(result.measured) == sorted(simulated)
    assert all(ladder[0] <= position <= ladder[-1] for position in simulated)
    return result


@given(st.integers(1, 64), st.integers(0, 6))
def test_the_smallest_position_of_a_monotone_outcome(smallest: int, start: int) -> None:
    result = search(set(range(smallest, 65)), start)
    assert result.smallest == smallest
    assert result.missing_neighbours == ()
    assert result.meets_from == smallest
    assert len(result.measured) <= len(LADDER) + 5 + 2 * NEIGHBOURS
    neighbours = range(max(1, smallest - NEIGHBOURS), min(64, smallest + NEIGHBOURS) + 1)
    assert set(neighbours) <= set(result.measured)


def test_no_rung_meets_the_goal() -> None:
    result = search(set(), 2)
    assert (result.smallest, result.meets_from) == (None, None)
    assert list(result.measured) == LADDER


def test_only_rungs_below_the_first_one_meet_the_goal() -> None:
    result = search({3, 4, 5, 6, 7}, 4)
    assert (result.smallest, result.missing_neighbours, result.meets_from) == (3, (), None)


def test_a_smaller_neighbour_that_meets_the_goal_is_the_result() -> None:
    """Bisection ends at 24; 22 and 20 meet the goal as well."""
    result = search({20, 22, *range(24, 65)}, 4)
    assert result.smallest == 20
    assert result.missing_neighbours == (21,)
    assert result.meets_from == 22


def test_a_larger_neighbour_that_misses_the_goal_is_reported() -> None:
    result = search({16, 18, 32, 64}, 3)
    assert (result.smallest, result.missing_neighbours) == (16, (17,))


@given(st.sets(st.integers(1, 64)), st.integers(0, 6))
def test_the_neighbours_below_any_result_miss_the_goal(meets: set[int], start: int) -> None:
    result = search(meets, start)
    if result.smallest is None:
        assert not meets & set(LADDER)
        return
    assert result.smallest in meets
    assert not meets & set(range(result.smallest - NEIGHBOURS, result.smallest))
    above = range(result.smallest + 1, min(result.smallest + NEIGHBOURS, 64) + 1)
    assert result.missing_neighbours == tuple(position for position in above if position not in meets)


def test_a_ladder_of_one_rung() -> None:
    assert search({5}, 0, [5]).smallest == 5
    assert search(set(), 0, [5]).smallest is None
