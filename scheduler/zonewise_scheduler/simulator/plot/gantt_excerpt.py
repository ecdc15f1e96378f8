"""Selects the runs of a Gantt chart: all of them, or as many as can be distinguished."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays, Ints
    from zonewise_scheduler.simulator.plot.step_functions import StepFunction

MAX_RUNS = 1500
"""If there are more runs than this, only those of a part of the time are drawn, and of these the widest."""
EXCERPT_RUNS = 500
"""Number of runs in this part, or more if it would be shorter than those that half of the usage comes from."""


class Excerpt(NamedTuple):
    """The drawn runs; seconds since the origin."""

    begin: float
    end: float
    runs: Ints
    """Indices of runs, by start."""
    runs_in_range: int
    """Number of runs between begin and end."""
    total: int
    """Number of all runs."""

    @property
    def whole(self) -> bool:
        """Return whether the excerpt covers the whole time."""
        return self.runs_in_range == self.total


def select_excerpt(arrays: HistoryArrays, sizes: Ints, queue: StepFunction) -> Excerpt:
    """Select the widest runs around the time of the longest queue, among the runs with a size (R) and a length."""
    rows = _drawable_runs(arrays, sizes)
    if rows.size <= MAX_RUNS:
        return Excerpt(0.0, arrays.last_time, rows, rows.size, rows.size)
    starts, ends = arrays.start[rows], np.sort(arrays.end[rows])
    middle = float(queue.times[np.argmax(queue.values)]) if queue.times.size else float(np.median(starts))
    lengths = arrays.end[rows] - starts
    few, many = (
        _half_width(starts, ends, middle, float(np.median(lengths)), most) for most in (EXCERPT_RUNS, MAX_RUNS)
    )
    half_width = max(few, min(_weighted_median(lengths, sizes[rows] * lengths), many))
    begin, end = max(middle - half_width, 0.0), min(middle + half_width, arrays.last_time)
    return excerpt_between(arrays, sizes, begin, end)


def excerpt_between(arrays: HistoryArrays, sizes: Ints, begin: float, end: float) -> Excerpt:
    """Select the widest runs between two times, among the runs with a size (R) and a length."""
    rows = _drawable_runs(arrays, sizes)
    rows_in_range = rows[(arrays.start[rows] < end) & (arrays.end[rows] > begin)]
    widest = np.argsort(-sizes[rows_in_range], kind="stable")[:MAX_RUNS]
    return Excerpt(begin, end, rows_in_range[np.sort(widest)], rows_in_range.size, rows.size)


def _weighted_median(values: Floats, weights: Floats) -> float:
    """Return the smallest value up to which the values have half of the weight."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, sums[-1] / 2)]])


def _drawable_runs(arrays: HistoryArrays, sizes: Ints) -> Ints:
    """Return the runs with a size and a length, by start."""
    rows = np.flatnonzero((sizes > 0) & (arrays.end > arrays.start))
    return rows[np.argsort(arrays.start[rows], kind="stable")]


def _half_width(starts: Floats, ends: Floats, middle: float, shortest: float, most: int) -> float:
    """Return the distance from the middle that covers up to `most` runs, but at least `shortest`.

    `starts` and `ends` are each sorted in ascending order.
    """
    low, high = shortest, max(float(ends[-1]), shortest)
    for _ in range(40):
        half_width = (low + high) / 2
        started = np.searchsorted(starts, middle + half_width, "left")
        ended = np.searchsorted(ends, middle - half_width, "right")
        low, high = (low, half_width) if started - ended > most else (half_width, high)
    return low
