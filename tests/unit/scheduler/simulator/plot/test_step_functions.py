"""Used amounts and pending jobs, as functions of time."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import MACHINE, PREEMPTED, SIZE, histories, history, job, run
from zonewise_scheduler.simulator.plot.history_arrays import build_arrays
from zonewise_scheduler.simulator.plot.resource_shares import group_equal_shares, job_widths, resource_capacity
from zonewise_scheduler.simulator.plot.step_functions import (
    StepFunction,
    allocated,
    effective,
    means,
    peaks,
    queue_length,
    step_function,
)

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History


def pairs(function: StepFunction) -> list[tuple[float, int]]:
    return list(zip(function.times.tolist(), function.values.tolist(), strict=True))


def integral(function: StepFunction) -> float:
    """Return the integral of value over seconds, from the first time to the last."""
    return float(np.dot(function.values[:-1], np.diff(function.times)))


def at(function: StepFunction, time: float) -> int:
    return next((value for since, value in reversed(pairs(function)) if since <= time), 0)


# --- worked examples


def test_an_example_of_utilisation() -> None:
    """Allocated usage lasts from start to end, effective usage from when pods are ready, and only in complete runs."""
    table = build_arrays(PREEMPTED, 100)
    assert pairs(allocated(table, "cpu")) == [
        (0, 4), (1, 8), (40, 4), (52, 6), (60, 7), (80, 5), (88, 4), (90, 8), (120, 4), (180, 0),
    ]  # fmt: skip
    assert pairs(effective(table, "cpu")) == [(2, 4), (53, 6), (80, 4), (90, 0), (92, 8), (120, 0), (123, 4), (180, 0)]


def test_an_example_of_the_queue() -> None:
    """A preempted job waits again, a rejected one never waits, and a job pending at the end remains in the queue."""
    table = build_arrays(PREEMPTED, 100)
    assert pairs(queue_length(table)) == [
        (0, 0), (1, 0), (2, 1), (20, 2), (40, 3), (50, 4), (52, 3), (60, 3), (90, 2), (120, 1),
    ]  # fmt: skip


def test_pods_wait_with_their_job() -> None:
    entry = history(job("a", 0, 1, run(5, 6), pods=3), job("b", 2, 1, run(4, 5), pods=2))
    assert pairs(queue_length(build_arrays(entry), pods=True)) == [(0, 3), (2, 5), (4, 3), (5, 0)]


def test_an_empty_history_gives_empty_functions() -> None:
    table = build_arrays(history())
    for function in (allocated(table, "cpu"), effective(table, "gpu"), queue_length(table)):
        assert pairs(function) == []
        assert integral(function) == 0
        assert means(function, np.array([0.0, 1, 2])).tolist() == [0, 0]
        assert peaks(function, np.array([0.0, 1, 2])).tolist() == [0, 0]
    assert (table.last_time, resource_capacity(table, {})) == (0, {})


def test_a_job_without_a_run_never_counts_as_pending() -> None:
    assert pairs(queue_length(build_arrays(history(job("a", 0, 1, outcome="failed"))))) == []


# --- random histories


@given(histories())
def test_the_area_of_allocated_usage_is_amounts_times_lengths(entry: History) -> None:
    table = build_arrays(entry, 3)
    for name in MACHINE:
        area = sum(done.amounts[name] * (piece.end - piece.start) for done in entry.jobs for piece in done.runs)
        assert integral(allocated(table, name)) == area
        assert area == (table.resource_seconds(name) if entry.jobs else 0)


@given(histories())
def test_the_area_of_effective_usage_is_that_of_completed_runs(entry: History) -> None:
    table = build_arrays(entry)
    for name in MACHINE:
        area = sum(
            done.amounts[name] * max(piece.end - piece.ready, 0)
            for done in entry.jobs
            if done.outcome == "done"
            for piece in done.runs[-1:]
        )
        assert integral(effective(table, name)) == area


@given(histories())
def test_effective_usage_is_part_of_allocated_usage_and_both_end_at_zero(entry: History) -> None:
    table = build_arrays(entry)
    for name in MACHINE:
        outer, inner = allocated(table, name), effective(table, name)
        for time in {*outer.times.tolist(), *inner.times.tolist()}:
            assert 0 <= at(inner, time) <= at(outer, time) <= MACHINE[name]
        assert at(outer, table.last_time) == at(inner, table.last_time) == 0


@given(histories())
def test_the_queue_is_never_negative_and_ends_with_the_pending_jobs(entry: History) -> None:
    table = build_arrays(entry)
    for pods in (False, True):
        function = queue_length(table, pods=pods)
        assert min(function.values.tolist(), default=0) >= 0
        waiting = [done.pods if pods else 1 for done in entry.jobs if done.outcome == "waiting"]
        assert at(function, table.last_time) == sum(waiting)


@given(histories())
def test_the_table_has_the_waits_of_the_history(entry: History) -> None:
    for wait, done in zip(build_arrays(entry, 2).wait.tolist(), entry.jobs, strict=True):
        assert isnan(wait) if done.wait is None else wait == done.wait


CHANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(-5, 9)), max_size=12)
EDGES = st.lists(st.integers(-2, 24), min_size=2, unique=True).map(sorted)


@given(CHANGES, EDGES)
def test_means_and_peaks_are_those_of_the_whole_function(changes: list[tuple[int, int]], edges: list[int]) -> None:
    """For functions that change only at whole seconds, they follow from the values at these seconds."""
    times, values = np.array([time for time, _ in changes], np.float64), np.array([by for _, by in changes], np.int64)
    function = step_function(times, values)
    every = [[at(function, second) for second in range(low, high)] for low, high in pairwise(edges)]
    among = np.array(edges, np.float64)
    assert means(function, among).tolist() == pytest.approx([sum(result) / len(result) for result in every])
    assert peaks(function, among).tolist() == [max(result) for result in every]


@given(CHANGES)
def test_a_step_function_is_the_sum_of_all_changes_up_to_a_time(changes: list[tuple[int, int]]) -> None:
    function = step_function(
        np.array([time for time, _ in changes], np.float64), np.array([by for _, by in changes], np.int64)
    )
    assert (np.diff(function.times) > 0).all()
    for time in range(22):
        assert at(function, time) == sum(by for when, by in changes if when <= time)


# --- resources


def two(cpus: int, gpus: int, length: int = 10) -> History:
    return history(job("a", 0, 0, run(0, length), amounts={"cpu": cpus, "gpu": gpus}), capacity=MACHINE)


@pytest.mark.parametrize(("cpus", "gpus", "order"), [(2, 2, ["gpu", "cpu"]), (4, 1, ["cpu", "gpu"])])
def test_the_scarcest_resource_is_the_first(cpus: int, gpus: int, order: list[str]) -> None:
    table = build_arrays(two(cpus, gpus))
    assert list(resource_capacity(table, MACHINE)) == order
    assert group_equal_shares([table], MACHINE) == [["cpu"], ["gpu"]]


def test_resources_with_equal_shares_are_grouped() -> None:
    table = build_arrays(two(4, 2))
    assert group_equal_shares([table], resource_capacity(table, MACHINE)) == [["cpu", "gpu"]]
    assert group_equal_shares([table, build_arrays(two(4, 1))], MACHINE) == [["cpu"], ["gpu"]]


def test_without_limits_the_maximum_usage_is_the_capacity() -> None:
    entry = history(job("a", 0, 3, run(0, 10)), job("b", 0, 2, run(5, 10)), capacity={})
    assert resource_capacity(build_arrays(entry), entry.capacity) == {"cpu": 5}


def test_unused_resources_are_left_out() -> None:
    entry = two(4, 0)
    assert resource_capacity(build_arrays(entry), MACHINE) == {"cpu": SIZE}
    assert resource_capacity(build_arrays(entry._replace(jobs=[])), MACHINE) == MACHINE


def test_a_missing_resource_has_no_share() -> None:
    assert resource_capacity(build_arrays(two(4, 1)), {"cpu": SIZE, "gpu": 0}) == {"cpu": SIZE}


def test_the_width_of_a_job_is_its_largest_share() -> None:
    table = build_arrays(history(*two(4, 1).jobs, *two(2, 3).jobs, *two(0, 0).jobs))
    assert job_widths(table, MACHINE).tolist() == [0.5, 0.75, 0]
    assert job_widths(table, {}).tolist() == [0, 0, 0]
