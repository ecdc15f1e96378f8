"""What a run amounts to, in the numbers of the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.queue.time.amounts import Columns
    from zonewise_scheduler.simulate.clock import Outcome, Task

TAU = 10.0
"""Seconds: shorter jobs count as so long in the bounded slowdown (Feitelson and Rudolph, JSSPP 1998)."""


class Summary(NamedTuple):
    """Waits and makespan in seconds."""

    jobs: int
    refused: int
    """Those that never fit."""
    wait_mean: float
    wait_median: float
    wait_p95: float
    wait_max: float
    bounded_slowdown: float
    """The mean of max(1, (wait + run) / max(run, TAU))."""
    utilisation: dict[str, float]
    """The share of each resource that jobs had, from the first submission to the last end."""
    makespan: float
    """From the first submission to the last end."""
    decisions_per_second: float


def summarise(outcome: Outcome, columns: Columns, capacity: int) -> Summary:
    """Sum up a run on a machine so large (Columns.room); of no jobs, all is zero."""
    done = [task for task in outcome.tasks if task.job in outcome.starts]
    if not done:
        return Summary(0, len(outcome.refused), 0, 0, 0, 0, 0, dict.fromkeys(columns.names, 0.0), 0, 0)
    starts = np.array([outcome.starts[task.job] for task in done])
    submitted = np.array([task.job.submitted for task in done])
    runs = np.array([task.run for task in done], np.float64)
    waits = starts - submitted
    makespan = float((starts + runs).max() - submitted.min())
    median, p95 = (float(value) for value in np.quantile(waits, (0.5, 0.95)))
    return Summary(
        len(done),
        len(outcome.refused),
        float(waits.mean()),
        median,
        p95,
        float(waits.max()),
        float(np.maximum(1, (waits + runs) / np.maximum(runs, TAU)).mean()),
        _utilisation(done, columns, capacity, makespan),
        makespan,
        outcome.decisions / outcome.seconds if outcome.seconds else 0.0,
    )


def _utilisation(done: list[Task], columns: Columns, capacity: int, makespan: float) -> dict[str, float]:
    """Return the share of each resource that was taken; of what there is none, zero."""
    taken = dict.fromkeys(columns.names, 0.0)
    seconds: dict[int, float] = {}
    for task in done:
        seconds[task.job.demand] = seconds.get(task.job.demand, 0.0) + task.run
    for demand, length in seconds.items():
        for name, size in columns.asked(demand).items():
            taken[name] += size * length
    whole = columns.amounts(capacity)
    return {name: size / (whole[name] * makespan) if whole[name] * makespan else 0.0 for name, size in taken.items()}
