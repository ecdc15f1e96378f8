"""Which runs a Gantt chart shows: all, or so many as can be told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays, Ints
    from zonewise_scheduler.simulator.plot.step_functions import StepFunction

MAX_WHOLE_RUNS = 1500
"""Up to so many runs, all are shown."""
MAX_EXCERPT_RUNS = 500
"""Else so many, in a part of the time."""


class Excerpt(NamedTuple):
    """What is shown; seconds since the origin."""

    begin: float
    end: float
    runs: Ints
    """Rows of the table, by start."""
    runs_in_range: int
    """How many runs there are in that time."""
    total: int
    """How many there are at all."""

    @property
    def whole(self) -> bool:
        """Return whether it is the whole time."""
        return self.runs_in_range == self.total


def select_excerpt(table: HistoryArrays, sizes: Ints, queue: StepFunction) -> Excerpt:
    """Choose among the runs that have a size (R) and a length: the widest of the time about the longest queue."""
    rows = np.flatnonzero((sizes > 0) & (table.end > table.start))
    rows = rows[np.argsort(table.start[rows], kind="stable")]
    if rows.size <= MAX_WHOLE_RUNS:
        return Excerpt(0.0, table.last_time, rows, rows.size, rows.size)
    starts, ends = table.start[rows], np.sort(table.end[rows])
    middle = float(queue.times[np.argmax(queue.values)]) if queue.times.size else float(np.median(starts))
    shortest = float(np.median(table.end[rows] - table.start[rows]))
    reach = _reach(starts, ends, middle, shortest)
    begin, end = max(middle - reach, 0.0), min(middle + reach, table.last_time)
    there = rows[(starts < end) & (table.end[rows] > begin)]
    widest = np.argsort(-sizes[there], kind="stable")[:MAX_EXCERPT_RUNS]
    return Excerpt(begin, end, there[np.sort(widest)], there.size, rows.size)


def _reach(starts: Floats, ends: Floats, middle: float, shortest: float) -> float:
    """Return how far from the middle to go so that no more than SOME runs are met, but `shortest` at least.

    Both are ascending, each by itself.
    """
    low, high = shortest, max(float(ends[-1]), shortest)
    for _ in range(40):
        reach = (low + high) / 2
        begun = np.searchsorted(starts, middle + reach, "left")
        over = np.searchsorted(ends, middle - reach, "right")
        low, high = (low, reach) if begun - over > MAX_EXCERPT_RUNS else (reach, high)
    return low
