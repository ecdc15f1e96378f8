"""Step functions of time: allocated resources, and pending jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays, Ints


class StepFunction(NamedTuple):
    """A function that is zero before the first time, and has each value from its time on, the last one forever."""

    times: Floats
    """N, strictly ascending."""
    values: Ints
    """N."""


def step_function(times: Floats, changes: Ints) -> StepFunction:
    """Return the running sum of changes, given in any order; changes at the same time are summed."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order])
    final = np.append(np.diff(times) > 0, True)[: times.size]
    return StepFunction(times[final], values[final])


def allocated(arrays: HistoryArrays, name: str) -> StepFunction:
    """Return the allocated amount of a resource: from the start of each run to its end."""
    amounts = arrays.amount(name)[arrays.job]
    return step_function(np.concatenate((arrays.start, arrays.end)), np.concatenate((amounts, -amounts)))


def effective(arrays: HistoryArrays, name: str) -> StepFunction:
    """Return the effective amount of a resource: that of completed runs, once all pods are ready."""
    amounts = arrays.amount(name)[arrays.job][arrays.useful]
    times = np.concatenate((arrays.ready[arrays.useful], arrays.end[arrays.useful]))
    return step_function(times, np.concatenate((amounts, -amounts)))


def queue_length(arrays: HistoryArrays, *, pods: bool = False) -> StepFunction:
    """Return the number of pending jobs, or of their pods: from submission, or preemption, to start."""
    counts = arrays.pods if pods else np.ones(arrays.submitted.size, np.int64)
    runs = counts[arrays.job]
    times = np.concatenate((arrays.submitted[arrays.ever_queued], arrays.start, arrays.end[arrays.requeued]))
    return step_function(times, np.concatenate((counts[arrays.ever_queued], -runs, runs[arrays.requeued])))


def means(function: StepFunction, edges: Floats) -> Floats:
    """Return the mean between successive edges, given B + 1 ascending edges; B."""
    if not function.times.size:
        return np.zeros(edges.size - 1)
    areas = np.concatenate(([0.0], np.cumsum(function.values[:-1] * np.diff(function.times))))
    until = np.interp(edges, function.times, areas)
    until += np.maximum(edges - function.times[-1], 0) * function.values[-1]
    return np.diff(until) / np.diff(edges)


def peaks(function: StepFunction, edges: Floats) -> Ints:
    """Return the greatest value between successive edges, given B + 1 ascending edges; B."""
    first = np.searchsorted(function.times, edges[:-1], "right")
    after = np.searchsorted(function.times, edges[1:], "left") + 1
    values = np.concatenate(([0], function.values, [0]))
    return np.maximum.reduceat(values, np.column_stack((first, after)).ravel())[::2]
