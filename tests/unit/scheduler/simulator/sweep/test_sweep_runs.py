"""The runs of a sweep."""

from __future__ import annotations

from support.histories import history, job, run
from zonewise_scheduler.simulator.summary import summarise
from zonewise_scheduler.simulator.sweep.sweep_runs import (
    STATISTICS,
    RunResult,
    SweepRun,
    run_result,
    sweep_columns,
    sweep_runs,
)


def result(value: float) -> RunResult:
    return RunResult(dict.fromkeys(STATISTICS, value), {"cpu": value / 10})


def test_every_policy_load_and_seed_is_run_once() -> None:
    runs = sweep_runs(["easy", "greedy"], [0.5, 0.9], range(3, 6))
    assert len(set(runs)) == len(runs) == 12
    assert [str(run) for run in runs[:4]] == [
        "easy, load 0.5, seed 3", "easy, load 0.5, seed 4", "easy, load 0.5, seed 5", "greedy, load 0.5, seed 3",
    ]  # fmt: skip
    assert str(SweepRun("easy", None, 7)) == "easy, seed 7"


def test_means_are_over_the_seeds_of_a_policy_and_a_load() -> None:
    runs = sweep_runs(["easy", "greedy"], [None], range(2))
    columns = sweep_columns(list(zip(runs, map(result, (1.0, 3.0, 5.0, 5.0)), strict=True)))
    assert [(column.name, column.runs) for column in columns] == [("easy", 2), ("greedy", 2)]
    assert [column.statistics["wait_mean"].mean for column in columns] == [2, 5]
    assert [column.utilisation["cpu"].mean for column in columns] == [0.2, 0.5]
    assert columns[1].statistics["wait_max"].half_width == 0


def test_loads_that_differ_only_in_the_last_digit_have_separate_columns() -> None:
    runs = sweep_runs(["easy"], [0.1234567, 0.12345671, 1.0], [0])
    columns = sweep_columns([(run, result(1.0)) for run in runs])
    assert [column.name for column in columns] == ["easy, load 0.1234567", "easy, load 0.12345671", "easy, load 1"]


def test_a_run_without_jobs_that_ended_has_no_waits() -> None:
    idle = run_result(summarise(history(job("a", 0, 1))))
    busy = run_result(summarise(history(job("a", 0, 1, run(60, 70)))))
    [column] = sweep_columns([(SweepRun("easy", None, 0), idle), (SweepRun("easy", None, 1), busy)])
    assert column.statistics["wait_mean"] == (60, None)
    assert column.statistics["makespan"] == (70, None)
    assert column.statistics["jobs"].mean == 0.5
