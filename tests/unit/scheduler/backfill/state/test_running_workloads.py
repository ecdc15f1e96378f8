"""Running workloads by their deadlines, compared with a plain list of them."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.planner_stories import make_workload
from zonewise_scheduler.backfill.policies import OVERRUN_EXTENSION
from zonewise_scheduler.backfill.state.running_workloads import RunningWorkloads
from zonewise_scheduler.quota.api.workload_types import Admission, Eviction, Workload

WALLTIMES = st.sampled_from([1.0, 5.0, 10.0, inf])
RUNS = st.lists(st.tuples(st.integers(0, 9), WALLTIMES), max_size=10)
"""(start, walltime)"""


def running(name: str, start: float, walltime: float) -> Workload:
    return replace(make_workload(name, 1, walltime), admission=Admission("q", (), start))


def workloads_of(runs: list[tuple[int, float]]) -> list[Workload]:
    return [running(f"w{number}", start, walltime) for number, (start, walltime) in enumerate(runs)]


def added(workloads: list[Workload]) -> RunningWorkloads:
    runs = RunningWorkloads()
    for workload in workloads:
        runs.add(workload)
    return runs


def as_list(runs: RunningWorkloads) -> list[tuple[float, str]]:
    """Return deadlines and keys in iteration order, which both views share."""
    in_order = list(runs)
    assert sorted(runs.by_key) == sorted(run.workload.key for run in in_order)
    assert all(runs.by_key[run.workload.key] is run for run in in_order)
    return [(run.deadline, run.workload.key) for run in in_order]


def by_deadline(workloads: list[Workload]) -> list[tuple[float, str]]:
    """Return the same by definition; equal deadlines are in the order of the starts."""
    deadlines = [
        (workload.admission.started_at + workload.walltime, number, workload.key)
        for number, workload in enumerate(workloads)
        if workload.admission is not None
    ]
    return [(deadline, key) for deadline, _, key in sorted(deadlines)]


@given(RUNS, st.data())
def test_workloads_are_in_the_order_of_deadlines_then_of_starts(
    runs: list[tuple[int, float]], data: st.DataObject
) -> None:
    """Any workloads may be removed or get another walltime; a copy does not change with the original."""
    workloads = workloads_of(runs)
    table = added(workloads)
    assert as_list(table) == by_deadline(workloads)
    copied = table.copy()
    for index in data.draw(st.lists(st.sampled_from(range(len(workloads))), max_size=5) if workloads else st.just([])):
        workloads[index] = replace(workloads[index], walltime=data.draw(WALLTIMES))
        table.update(workloads[index])
        assert as_list(table) == by_deadline(workloads)
    for workload in data.draw(st.permutations(workloads)):
        workloads.remove(workload)
        assert table.remove(workload.key).workload is workload
        assert as_list(table) == by_deadline(workloads)
    assert as_list(copied) == by_deadline(workloads_of(runs))
    copied.add(running("new", 5, 5.0))
    assert as_list(copied) == by_deadline([*workloads_of(runs), running("new", 5, 5.0)])


@given(RUNS, st.integers(0, 30).map(float))
@example([(0, 5.0), (0, 10.0), (1, 10.0)], float("10"))
def test_workloads_end_by_a_time_if_their_deadline_is_no_later(runs: list[tuple[int, float]], time: float) -> None:
    workloads = workloads_of(runs)
    assert added(workloads).ending_by(time) == {key for deadline, key in by_deadline(workloads) if deadline <= time}


@given(RUNS, st.integers(0, 30).map(float))
@example([(0, 5.0), (0, 10.0), (1, 10.0)], float("10"))
def test_passed_deadlines_are_extended_and_returned_in_order(runs: list[tuple[int, float]], now: float) -> None:
    workloads = workloads_of(runs)
    table, before = added(workloads), by_deadline(workloads)
    late = [key for deadline, key in before if deadline <= now]
    assert [workload.key for workload in table.extend_overrun(now)] == late
    assert sorted(as_list(table)) == sorted(
        (now + OVERRUN_EXTENSION if key in late else deadline, key) for deadline, key in before
    )
    assert [deadline for deadline, _ in as_list(table)] == sorted(deadline for deadline, _ in as_list(table))
    assert table.extend_overrun(now) == []
    assert table.overrun == table.copy().overrun == set(late)


def test_the_more_a_workload_outlives_its_walltime_the_longer_it_is_expected_to_run() -> None:
    """It started at 3 s with a walltime of 10 s. Once ten minutes late, it is expected to run for as long again."""
    table = added([running("a", 3, 10.0), running("b", 0, 5000.0)])
    for now, deadline in ((13, 73), (20, 73), (73, 133), (133, 253), (253, 493), (500, 987), (987, 1971)):
        table.extend_overrun(now)
        assert as_list(table) == [(deadline, "ns/a"), (5000.0, "ns/b")]


def test_a_workload_that_has_ended_does_not_overrun() -> None:
    """Another run of the same workload does not count as overrun before its deadline either."""
    table = added([running("a", 0, 10.0)])
    table.extend_overrun(12)
    table.remove("ns/a")
    table.add(running("a", 0, 500.0))
    assert table.overrun == set()


def test_a_workload_that_is_to_stop_runs_until_it_is_removed() -> None:
    """The stop may be marked in this table, or the workload may have an eviction when it is added."""
    table = added([running("a", 0, 10.0), running("b", 0, 5.0), running("c", 0, 5.0)])
    evicted = replace(running("d", 0, 1.0), eviction=Eviction("Preempted", 2.0))
    table.add(evicted)
    assert table.stopping == {"ns/d"}
    stopping = table.mark_stopping("ns/b", Eviction("NodeFailures", 3.0))
    assert stopping.eviction == Eviction("NodeFailures", 3.0)
    assert table.by_key["ns/b"].workload is stopping
    assert as_list(table) == [(1.0, "ns/d"), (5.0, "ns/b"), (5.0, "ns/c"), (10.0, "ns/a")]
    copied = table.copy()
    table.remove("ns/b")
    assert (table.stopping, copied.stopping) == ({"ns/d"}, {"ns/b", "ns/d"})
    copied.mark_stopping("ns/a", Eviction("Preempted", 4.0))
    assert table.stopping == {"ns/d"}


def test_without_an_admission_the_walltime_counts_from_zero() -> None:
    table = added([make_workload("one", 1, 7.0)])
    assert as_list(table) == [(7.0, "ns/one")]


def test_a_workload_that_does_not_run_is_an_error() -> None:
    table = RunningWorkloads()
    with pytest.raises(KeyError):
        table.remove("ns/one")
    with pytest.raises(KeyError):
        table.mark_stopping("ns/one", Eviction("Preempted", 0.0))
