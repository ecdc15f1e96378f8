"""Step functions of time: what is taken, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays, Ints


class StepFunction(NamedTuple):
    """Zero before the first time; from each time on its value, the last for ever."""

    times: Floats
    """N, ascending, none twice."""
    values: Ints
    """N."""


def step_function(times: Floats, changes: Ints) -> StepFunction:
    """Return the running sum of changes, in any order; of those at one time only the result is seen."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order])
    final = np.append(np.diff(times) > 0, True)[: times.size]
    return StepFunction(times[final], values[final])


def allocated(table: HistoryArrays, name: str) -> StepFunction:
    """Return how much of a resource is taken: from the start of each run to its end."""
    amounts = table.amount(name)[table.job]
    return step_function(np.concatenate((table.start, table.end)), np.concatenate((amounts, -amounts)))


def effective(table: HistoryArrays, name: str) -> StepFunction:
    """Return how much of it does work that counts: all pods are ready, and the job is done with this very run."""
    amounts = table.amount(name)[table.job][table.useful]
    times = np.concatenate((table.ready[table.useful], table.end[table.useful]))
    return step_function(times, np.concatenate((amounts, -amounts)))


def queue_length(table: HistoryArrays, *, pods: bool = False) -> StepFunction:
    """Return how many jobs wait, or how many pods they have: from submission, or preemption, to start."""
    counts = table.pods if pods else np.ones(table.submitted.size, np.int64)
    runs = counts[table.job]
    times = np.concatenate((table.submitted[table.ever_queued], table.start, table.end[table.requeued]))
    return step_function(times, np.concatenate((counts[table.ever_queued], -runs, runs[table.requeued])))


def means(function: StepFunction, edges: Floats) -> Floats:
    """Return the mean between each two of B + 1 ascending edges; B."""
    if not function.times.size:
        return np.zeros(edges.size - 1)
    areas = np.concatenate(([0.0], np.cumsum(function.values[:-1] * np.diff(function.times))))
    until = np.interp(edges, function.times, areas)
    until += np.maximum(edges - function.times[-1], 0) * function.values[-1]
    return np.diff(until) / np.diff(edges)


def peaks(function: StepFunction, edges: Floats) -> Ints:
    """Return the greatest value between each two of B + 1 ascending edges; B."""
    first = np.searchsorted(function.times, edges[:-1], "right")
    after = np.searchsorted(function.times, edges[1:], "left") + 1
    values = np.concatenate(([0], function.values, [0]))
    return np.maximum.reduceat(values, np.column_stack((first, after)).ravel())[::2]
