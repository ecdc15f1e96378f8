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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.simulator.history import History, JobHistory

TAU = 10.0
"""Seconds: shorter jobs count as so long in the bounded slowdown (Feitelson and Rudolph, JSSPP 1998)."""

ResourceShares = dict[str, float]
"""By resource: share of the capacity, from the first submission to the last end."""


class Summary(NamedTuple):
    """Waits and makespan in seconds."""

    jobs: int
    """Completed and failed jobs; means are of these."""
    failed: int
    """Jobs that were killed at their deadline."""
    rejected: int
    """Jobs that fit nowhere."""
    waiting: int
    """Jobs that were pending at the end."""
    wait_mean: float
    """From the submission to the start of the completed run."""
    wait_median: float
    wait_p95: float
    wait_max: float
    ready_mean: float
    """From the submission until all pods of that run were ready."""
    bounded_slowdown: float
    """The mean of max(1, (wait + run) / max(run, TAU))."""
    utilisation: ResourceShares
    """Of all runs."""
    effective: ResourceShares
    """Of completed runs, once all their pods were ready."""
    lost: ResourceShares
    """Of preempted runs, whose work is lost."""
    preemptions: int
    makespan: float
    """From the first submission to the last end."""
    forecast: ForecastError | None
    reservations: ReservationAccuracy | None
    decisions_per_second: float
    """Of CPU time."""


def summarise(history: History) -> Summary:
    """Summarise a history; without jobs all numbers are zero."""
    jobs = history.jobs
    completed = [job for job in jobs if job.started is not None]
    outcomes = [job.outcome for job in jobs]
    makespan = _makespan(completed)
    waits = np.array([job.wait for job in completed], np.float64)
    whole = [(job.amounts, job.runs[-1].end - job.runs[-1].start) for job in completed]
    useful = [(job.amounts, job.runs[-1].end - job.runs[-1].ready) for job in completed if job.outcome == "done"]
    preempted = [(job.amounts, run.end - run.start) for job in jobs for run in job.runs if not run.whole]
    median, p95 = (float(quantile) for quantile in np.quantile(waits, (0.5, 0.95))) if completed else (0.0, 0.0)
    return Summary(
        len(completed),
        outcomes.count("failed"),
        outcomes.count("refused"),
        outcomes.count("waiting"),
        float(waits.mean()) if completed else 0.0,
        median,
        p95,
        float(waits.max(initial=0)),
        sum(job.runs[-1].ready - job.submitted for job in completed) / len(completed) if completed else 0.0,
        _bounded_slowdown(waits, np.array([length for _, length in whole], np.float64)),
        _shares((*whole, *preempted), history.capacity, makespan),
        _shares(useful, history.capacity, makespan),
        _shares(preempted, history.capacity, makespan),
        len(preempted),
        makespan,
        forecast_error(history),
        reservation_accuracy(history),
        history.decisions / history.seconds if history.seconds else 0.0,
    )


def by_kind(history: History) -> dict[str, Summary]:
    """Summarise the jobs of each kind, in order of their first submission; empty where jobs have no kinds."""
    jobs_by_kind: dict[str, list[JobHistory]] = {}
    for job in history.jobs:
        if job.kind:
            jobs_by_kind.setdefault(job.kind, []).append(job)
    return {kind: summarise(history._replace(jobs=jobs)) for kind, jobs in jobs_by_kind.items()}


def _makespan(completed: list[JobHistory]) -> float:
    if not completed:
        return 0.0
    return max(job.runs[-1].end for job in completed) - min(job.submitted for job in completed)


def _bounded_slowdown(waits: NDArray[np.float64], runs: NDArray[np.float64]) -> float:
    return float(np.maximum(1, (waits + runs) / np.maximum(runs, TAU)).mean()) if len(waits) else 0.0


def _shares(
    usages: Iterable[tuple[Mapping[str, int], float]], capacity: Mapping[str, int], makespan: float
) -> ResourceShares:
    """Return the shares of usages over so many seconds each; zero for a resource without capacity."""
    shares = dict.fromkeys(capacity, 0.0)
    for amounts, seconds in usages:
        for name, amount in amounts.items():
            if name in shares:
                shares[name] += amount * seconds
    return {
        name: size / (capacity[name] * makespan) if capacity[name] * makespan else 0.0 for name, size in shares.items()
    }
