"""Bars in lanes, and which of them are drawn."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.histories import MACHINE, histories, history, job, run
from zonewise_scheduler.simulator.plot.gantt_excerpt import EXCERPT_RUNS, MAX_RUNS, Excerpt, select_excerpt
from zonewise_scheduler.simulator.plot.gantt_lanes import BarPiece, pack_lanes
from zonewise_scheduler.simulator.plot.history_arrays import build_arrays
from zonewise_scheduler.simulator.plot.step_functions import queue_length

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History

RUNS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(1, 12)), max_size=12)
"""(start, length, size)"""


def check(runs: list[tuple[int, int, int]], pieces: list[BarPiece]) -> None:
    """Check that each run that has a length has its whole size, and overlaps no other run at any time."""
    sizes = dict.fromkeys((index for index, (_, length, _) in enumerate(runs) if length), 0)
    for piece in pieces:
        assert 0 <= piece.low < piece.high
        sizes[piece.run] += piece.high - piece.low
    assert sizes == {index: runs[index][2] for index in sizes}
    for entry, other in combinations(pieces, 2):
        (a, long_a, _), (b, long_b, _) = runs[entry.run], runs[other.run]
        together = entry.run == other.run or (a < b + long_b and b < a + long_a)
        assert not together or entry.high <= other.low or other.high <= entry.low


def packed(runs: list[tuple[int, int, int]], capacity: int) -> list[BarPiece]:
    return pack_lanes([run[0] for run in runs], [run[0] + run[1] for run in runs], [run[2] for run in runs], capacity)


@given(RUNS, st.integers(1, 20))
def test_bars_never_overlap(runs: list[tuple[int, int, int]], capacity: int) -> None:
    check(runs, packed(runs, capacity))


@given(histories())
def test_bars_are_below_the_capacity_if_runs_are(entry: History) -> None:
    for name, size in MACHINE.items():
        runs = [
            (int(part.start), int(part.end - part.start), done.amounts[name])
            for done in entry.jobs
            for part in done.runs
            if done.amounts[name]
        ]
        pieces = packed(runs, size)
        check(runs, pieces)
        assert max((piece.high for piece in pieces), default=0) <= size


def test_a_bar_is_not_split_if_a_gap_is_high_enough() -> None:
    """It takes the narrowest such gap and leaves wider ones to other bars."""
    runs = [(0, 9, 2), (0, 3, 3), (0, 9, 1), (0, 3, 2), (0, 9, 1), (4, 5, 2)]
    assert packed(runs, 10)[-1] == BarPiece(5, 6, 8)


def test_a_bar_is_split_if_no_gap_is_high_enough() -> None:
    runs = [(0, 2, 3), (0, 9, 2), (0, 2, 3), (2, 9, 5)]
    assert packed(runs, 8)[-2:] == [BarPiece(3, 0, 3), BarPiece(3, 5, 7)]


def test_usage_beyond_the_capacity_is_drawn_above_it() -> None:
    assert packed([(0, 9, 3), (0, 9, 3)], 4) == [BarPiece(0, 0, 3), BarPiece(1, 3, 4), BarPiece(1, 4, 6)]


# --- excerpts


def used(entry: History) -> Excerpt:
    table = build_arrays(entry)
    return select_excerpt(table, table.amount("cpu")[table.job], queue_length(table))


def test_few_runs_are_all_shown() -> None:
    """The exceptions are runs that would be invisible, as they have no length or use nothing."""
    entry = history(
        job("a", 0, 1, run(5, 9)), job("b", 1, 1, run(3, 4)), job("c", 2, 1, run(3, 3)), job("d", 2, 0, run(3, 9))
    )
    result = used(entry)
    assert (result.begin, result.end, result.runs_in_range, result.total) == (0, 9, 2, 2)
    assert (result.runs.tolist(), result.whole) == ([1, 0], True)


def test_of_many_runs_those_around_the_longest_queue_are_shown() -> None:
    """These are all runs in the shown interval, which is almost as long as the limit permits."""
    jobs = [job(str(number), number, 1, run(number, number + 2)) for number in range(MAX_RUNS + 1)]
    busy = [job(f"late {number}", 700, 1, run(710 + number, 711 + number)) for number in range(5)]
    result = used(history(*jobs, *busy))
    assert EXCERPT_RUNS - 6 <= result.runs.size == result.runs_in_range <= EXCERPT_RUNS
    assert result.total == MAX_RUNS + 6
    assert not result.whole
    assert abs((result.begin + result.end) / 2 - 700) < 1
    table = build_arrays(history(*jobs, *busy))
    assert all(table.start[row] < result.end and table.end[row] > result.begin for row in result.runs)


def test_of_too_many_simultaneous_runs_the_widest_are_shown() -> None:
    jobs = [job(str(number), 0, 1 + (number % 5 == 0), run(1, 10)) for number in range(5 * MAX_RUNS)]
    result = used(history(*jobs))
    assert (result.runs_in_range, result.total) == (5 * MAX_RUNS, 5 * MAX_RUNS)
    assert result.runs.tolist() == list(range(0, 5 * MAX_RUNS, 5))


def test_the_time_is_long_enough_for_the_runs_with_most_of_the_usage() -> None:
    """Of many runs at once, a part with few would show only parts of bars."""
    long = [job(f"long {number}", 0, 9, run(10 * number, 10 * number + 3000)) for number in range(400)]
    short = [job(f"short {number}", number, 1, run(number, number + 1)) for number in range(MAX_RUNS)]
    busy = [job(f"late {number}", 700, 1, run(710 + number, 711 + number)) for number in range(5)]
    result = used(history(*long, *short, *busy))
    assert EXCERPT_RUNS < result.runs.size == result.runs_in_range <= MAX_RUNS
    assert result.end - result.begin > 1000
