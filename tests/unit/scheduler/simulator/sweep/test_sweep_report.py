"""The result of a sweep as a table and as JSON."""

from __future__ import annotations

import json

import pytest

from zonewise_scheduler.simulator.report.json_document import render
from zonewise_scheduler.simulator.sweep.sweep_report import sweep_document, sweep_text
from zonewise_scheduler.simulator.sweep.sweep_runs import STATISTICS, RunResult, sweep_columns, sweep_runs

RUNS = sweep_runs(["easy"], [0.9], range(3))
VALUES = [dict.fromkeys(STATISTICS, 60.0 * number) for number in (1, 2, 3)]
RESULTS = [(run, RunResult(values, {"cpu": 0.5})) for run, values in zip(RUNS, VALUES, strict=True)]
COLUMNS = sweep_columns(RESULTS)


def test_each_mean_has_its_interval_below_it() -> None:
    lines = [" ".join(entry.split()) for entry in sweep_text("hpc", COLUMNS, 80).splitlines()]
    assert lines[0] == "hpc: means of 3 runs, ± 95 % confidence interval"
    assert lines[2] == "easy, load 0.9"
    row = lines.index("wait, mean 2.00 min")
    assert lines[row + 1] == "± 2.48 min"
    assert lines[-2:] == ["utilisation, cpu 50.0 %", "± 0.0 %"]


def test_the_document_has_means_intervals_and_every_run() -> None:
    document = json.loads("".join(render(sweep_document("hpc", {"jobs": 5}, RESULTS, COLUMNS))))
    [column] = document["results"]
    mean = column["statistics"]["waitMean"]
    assert (column["policy"], column["load"], column["runs"], mean["mean"]) == ("easy", 0.9, 3, 120)
    assert mean["high"] - mean["mean"] == pytest.approx(mean["halfWidth"]) == pytest.approx(149.05, abs=0.01)
    assert [(run["seed"], run["statistics"]["waitMax"]) for run in document["runs"]] == [(0, 60), (1, 120), (2, 180)]
    assert document["scenario"] == {"trace": "hpc", "options": {"jobs": 5}, "seeds": [0, 1, 2]}


def test_statistics_without_a_run_that_has_them_are_unknown() -> None:
    idle = RunResult(dict.fromkeys(STATISTICS, 0.0) | {"wait_mean": None}, {"cpu": 0.0})
    results = [(run, idle) for run in RUNS]
    columns = sweep_columns(results)
    lines = [" ".join(entry.split()) for entry in sweep_text("hpc", columns, 80).splitlines()]
    row = lines.index("wait, mean -")
    assert lines[row + 1] == "± -"
    document = json.loads("".join(render(sweep_document("hpc", {}, results, columns))))
    assert document["results"][0]["statistics"]["waitMean"] == {
        "mean": None, "halfWidth": None, "low": None, "high": None,
    }  # fmt: skip
    assert document["runs"][0]["statistics"]["waitMean"] is None


def test_one_run_has_no_interval() -> None:
    columns = sweep_columns(RESULTS[:1])
    document = json.loads("".join(render(sweep_document("hpc", {}, RESULTS[:1], columns))))
    assert document["results"][0]["statistics"]["waitMean"] == {
        "mean": 60, "halfWidth": None, "low": None, "high": None,
    }  # fmt: skip
