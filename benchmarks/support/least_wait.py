"""A lower bound of the worst wait for any order of jobs, whatever it knows about them, if started jobs are not stopped.

If no job waits longer than w, a job runs between its arrival and its arrival + w + its run time. Wherever it runs in
that span, some part of it may have to lie within a given interval. If these parts together exceed the interval's
processors, w is impossible (energetic reasoning: Erschler and Lopez 1990; Baptiste, Le Pape and Nuijten 2001, section
3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.simulator.swf import LoggedJob

    Floats = NDArray[np.float64]

STARTS, LENGTHS = 300, 40
"""Numbers of intervals that are examined; examining more can only raise the bound."""


def least_worst_wait(jobs: Sequence[LoggedJob], processors: int, longest: float, precision: float = 60.0) -> float:
    """Return a bound in seconds: a lower worst wait is impossible. The search covers 0 to `longest`."""
    arrived, run, size = np.array([(job.submit_time, job.run_time, job.processors) for job in jobs], dtype=float).T
    low, high = 0.0, longest
    while high - low > precision:
        middle = (low + high) / 2
        if _is_impossible(arrived, run, size / processors, middle):
            low = middle
        else:
            high = middle
    return low


def _is_impossible(arrived: Floats, run: Floats, share: Floats, wait: float) -> bool:
    """Return whether an interval is too short for the parts that must lie in it; `share` is that of all processors."""
    latest = arrived + wait
    reach = float(run.max()) + wait
    for start in np.unique(np.quantile(arrived, np.linspace(0, 1, STARTS), method="nearest")):
        near = (arrived < start + reach) & (latest + run > start)
        first, last, lasts, part = arrived[near], latest[near], run[near], share[near]
        early = np.clip(first + lasts - np.maximum(first, start), 0, None)
        for end in start + np.geomspace(600, reach, LENGTHS):
            soonest = np.minimum(early, np.clip(end - np.maximum(first, start), 0, None))
            late = np.clip(np.minimum(last + lasts, end) - np.maximum(last, start), 0, None)
            if (np.minimum(soonest, late) * part).sum() > end - start:
                return True
    return False
