"""A sweep as a table and as JSON.

The JSON document:

    schemaVersion   "zonewise.dev/sweep/v1": fields may be added; none is renamed, removed or redefined
    scenario        trace, options of the command, seeds
    confidence      the level of the intervals
    results         for each load and policy, in the order of the command:
        policy, load, runs
        statistics      by name: mean, halfWidth (null: one run has no spread), low, high; seconds or counts; waits,
                        slowdown and makespan cover the runs with ended jobs (null: there are none)
        utilisation     by resource: the same, as shares of one
    runs            every run: policy, load, seed, statistics, utilisation
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.simulator.report.json_document import camel_case, options_object
from zonewise_scheduler.simulator.report.notes import count_noun
from zonewise_scheduler.simulator.report.number_format import format_durations, format_numbers, format_percents
from zonewise_scheduler.simulator.report.policy_table import Row, render_grid
from zonewise_scheduler.simulator.sweep.confidence import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zonewise_scheduler.simulator.report.json_document import Object
    from zonewise_scheduler.simulator.sweep.confidence import MeanInterval
    from zonewise_scheduler.simulator.sweep.sweep_runs import RunResult, SweepColumn, SweepRun

SCHEMA_VERSION = "zonewise.dev/sweep/v1"
_PLUS_MINUS = "  ±"
_WAITS = (
    ("wait, mean", "wait_mean"), ("wait, median", "wait_median"), ("wait, 95th percentile", "wait_p95"),
    ("wait, longest", "wait_max"),
)  # fmt: skip
_COUNTS = (("jobs failed", "failed"), ("jobs rejected", "rejected"), ("jobs pending", "waiting"))


def sweep_text(trace: str, columns: Sequence[SweepColumn], width: int) -> str:
    """Return the means as a table with one column per policy and load, and the 95 % interval below each mean."""
    head = f"{trace}: means of {count_noun(columns[0].runs, 'run')}, ± {100 * LEVEL:.0f} % confidence interval"
    return f"{head}\n\n{render_grid([column.name for column in columns], list(_rows(columns)), width)}"


def _rows(columns: Sequence[SweepColumn]) -> Iterator[Row]:
    for label, key in _COUNTS:
        intervals = [column.statistics[key] for column in columns]
        if any(interval.mean for interval in intervals):
            yield from _pair(label, intervals, format_numbers)
    for label, key in _WAITS:
        yield from _pair(label, [column.statistics[key] for column in columns], format_durations)
    yield from _pair("bounded slowdown", [column.statistics["bounded_slowdown"] for column in columns], format_numbers)
    yield from _pair("makespan", [column.statistics["makespan"] for column in columns], format_durations)
    for resource in columns[0].utilisation:
        intervals = [column.utilisation[resource] for column in columns]
        yield from _pair(f"utilisation, {resource}", intervals, format_percents)


def _pair(
    label: str, intervals: Sequence[MeanInterval], texts: Callable[[Sequence[float | None]], list[str]]
) -> Iterator[Row]:
    yield Row(label, texts([interval.mean for interval in intervals]))
    yield Row(_PLUS_MINUS, texts([interval.half_width for interval in intervals]))


def sweep_document(
    trace: str,
    options: Mapping[str, object],
    results: Sequence[tuple[SweepRun, RunResult]],
    columns: Sequence[SweepColumn],
) -> Object:
    """Return the document as JSON values."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "scenario": {
            "trace": trace,
            "options": options_object(options),
            "seeds": [*dict.fromkeys(run.seed for run, _ in results)],
        },
        "confidence": LEVEL,
        "results": [_column_object(column) for column in columns],
        "runs": [_run_object(run, result) for run, result in results],
    }


def _column_object(column: SweepColumn) -> Object:
    return {
        "policy": column.policy,
        "load": column.load,
        "runs": column.runs,
        "statistics": {camel_case(name): _interval(interval) for name, interval in column.statistics.items()},
        "utilisation": {name: _interval(interval) for name, interval in column.utilisation.items()},
    }


def _interval(interval: MeanInterval) -> Object:
    mean, half_width = interval
    spread = None if mean is None or half_width is None else (mean - half_width, mean + half_width)
    return {
        "mean": mean,
        "halfWidth": half_width,
        "low": None if spread is None else spread[0],
        "high": None if spread is None else spread[1],
    }


def _run_object(run: SweepRun, result: RunResult) -> Object:
    return {
        "policy": run.policy,
        "load": run.load,
        "seed": run.seed,
        "statistics": {camel_case(name): value for name, value in result.statistics.items()},
        "utilisation": {**result.utilisation},
    }
