"""The summary of a simulation: waits, slowdown, utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.simulator.accuracy import (
    ForecastError,
    ReservationAccuracy,
    forecast_error,
    reservation_accuracy,
)
from zonewise_scheduler.simulator.history import OUTCOMES
from zonewise_scheduler.simulator.job_columns import job_columns, jobs_with_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.history import Floats, History, Ints, JobColumns, JobHistory

TAU = 10.0
"""Minimum run time, in seconds, that counts in the bounded slowdown (Feitelson and Rudolph, JSSPP 1998)."""

ResourceShares = dict[str, float]
"""Share of the capacity by resource, during the makespan."""


class Summary(NamedTuple):
    """Waits and makespan in seconds."""

    jobs: int
    """Number of completed and failed jobs, over which means are taken."""
    failed: int
    """Number of jobs that were killed at their deadline."""
    rejected: int
    """Number of jobs that fit nowhere."""
    waiting: int
    """Number of jobs that were pending at the end."""
    wait_mean: float
    """Mean time from submission to the start of the completed run."""
    wait_median: float
    wait_p95: float
    wait_max: float
    ready_mean: float
    """Mean time from submission until all pods of that run were ready."""
    bounded_slowdown: float
    """The mean of max(1, (wait + run) / max(run, TAU))."""
    utilisation: ResourceShares
    """Shares of all runs."""
    effective: ResourceShares
    """Shares of completed runs, once all their pods were ready."""
    lost: ResourceShares
    """Shares of preempted runs, whose work is lost."""
    preemptions: int
    makespan: float
    """Time from the first submission to the last end, of jobs that ran."""
    forecast: ForecastError | None
    reservations: ReservationAccuracy | None
    decisions_per_second: float
    """Decisions per second of CPU time."""


def summarise(history: History) -> Summary:
    """Summarise a history; without jobs, all numbers are zero."""
    columns = job_columns(history.jobs)
    ended = columns.whole
    done = ended & (columns.outcome[columns.job] == OUTCOMES.index("done"))
    submitted = columns.submitted[columns.job[ended]]
    waits, lengths = columns.start[ended] - submitted, columns.end[ended] - columns.start[ended]
    makespan = _makespan(history.jobs, columns)
    median, p95 = (float(quantile) for quantile in np.quantile(waits, (0.5, 0.95))) if waits.size else (0.0, 0.0)
    outcomes = dict(zip(OUTCOMES, np.bincount(columns.outcome, minlength=len(OUTCOMES)).tolist(), strict=True))
    return Summary(
        waits.size,
        outcomes["failed"],
        outcomes["refused"],
        outcomes["waiting"],
        float(waits.mean()) if waits.size else 0.0,
        median,
        p95,
        float(waits.max(initial=0)),
        _sequential_sum(columns.ready[ended] - submitted) / waits.size if waits.size else 0.0,
        _bounded_slowdown(waits, lengths),
        _shares(columns, np.argsort(~ended, kind="stable"), columns.start, history.capacity, makespan),
        _shares(columns, np.flatnonzero(done), columns.ready, history.capacity, makespan),
        _shares(columns, np.flatnonzero(~ended), columns.start, history.capacity, makespan),
        int((~ended).sum()),
        makespan,
        forecast_error(history),
        reservation_accuracy(history),
        history.decisions / history.seconds if history.seconds else 0.0,
    )


def by_kind(history: History) -> dict[str, Summary]:
    """Summarise the jobs of each kind, in order of their first submission; empty if jobs have no kinds."""
    jobs_by_kind: dict[str, list[JobHistory]] = {}
    for job in jobs_with_kind(history.jobs):
        if job.kind:
            jobs_by_kind.setdefault(job.kind, []).append(job)
    return {kind: summarise(history._replace(jobs=jobs)) for kind, jobs in jobs_by_kind.items()}


def _makespan(jobs: Sequence[JobHistory], columns: JobColumns) -> float:
    """Return the time from the first submission of a job that ran to the last end of a run, preempted or whole."""
    if not columns.job.size:
        return 0.0
    first = int(columns.job[columns.submitted[columns.job].argmin()])
    last = int(columns.job[columns.end.argmax()])
    return jobs[last].runs[-1].end - jobs[first].submitted


def _bounded_slowdown(waits: Floats, runs: Floats) -> float:
    return float(np.maximum(1, (waits + runs) / np.maximum(runs, TAU)).mean()) if len(waits) else 0.0


def _shares(
    columns: JobColumns, runs: Ints, since: Floats, capacity: Mapping[str, int], makespan: float
) -> ResourceShares:
    """Return the shares of these runs from `since` (R) to their ends; zero for a resource without capacity."""
    seconds = columns.end[runs] - since[runs]
    rows = columns.amounts_row[columns.job[runs]]
    shares: ResourceShares = {}
    for name, size in capacity.items():
        amounts = np.array([amounts.get(name, 0) for amounts in columns.amounts], np.float64)
        used = _sequential_sum(amounts[rows] * seconds) if runs.size else 0.0
        shares[name] = used / (size * makespan) if size * makespan else 0.0
    return shares


def _sequential_sum(values: Floats) -> float:
    """Return the sum in the order of the values; unlike numpy's pairwise sum, it has the same bits on every machine."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0
