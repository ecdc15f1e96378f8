"""What a simulation amounts to, in the numbers of the field."""

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
"""By resource: of all there is, from the first submission to the last end."""


class Summary(NamedTuple):
    """Waits and makespan in seconds."""

    jobs: int
    """Those that were done, or failed: all means are of them."""
    failed: int
    """Those of them that were not done within their declared run time."""
    refused: int
    """Those that never fit."""
    waiting: int
    """Those that had not started when it ended."""
    wait_mean: float
    """From the submission to the start of the run that a job was done with."""
    wait_median: float
    wait_p95: float
    wait_max: float
    ready_mean: float
    """From the submission until all pods of that run were ready: to the admission where pods start at once."""
    bounded_slowdown: float
    """The mean of max(1, (wait + run) / max(run, TAU))."""
    utilisation: ResourceShares
    """What runs had."""
    effective: ResourceShares
    """What the runs had that jobs were done with, from when all their pods were ready."""
    lost: ResourceShares
    """What preempted runs had, whose work is lost."""
    preemptions: int
    makespan: float
    """From the first submission to the last end."""
    forecast: ForecastError | None
    promises: ReservationAccuracy | None
    decisions_per_second: float
    """Of CPU time."""


def summarise(history: History) -> Summary:
    """Sum up what happened; of no jobs, all is zero."""
    jobs = history.jobs
    ran = [job for job in jobs if job.started is not None]
    outcomes = [job.outcome for job in jobs]
    makespan = _makespan(ran)
    waits = np.array([job.wait for job in ran], np.float64)
    whole = [(job.amounts, job.runs[-1].end - job.runs[-1].start) for job in ran]
    useful = [(job.amounts, job.runs[-1].end - job.runs[-1].ready) for job in ran if job.outcome == "done"]
    broken = [(job.amounts, run.end - run.start) for job in jobs for run in job.runs if not run.whole]
    median, p95 = (float(one) for one in np.quantile(waits, (0.5, 0.95))) if ran else (0.0, 0.0)
    return Summary(
        len(ran),
        outcomes.count("failed"),
        outcomes.count("refused"),
        outcomes.count("waiting"),
        float(waits.mean()) if ran else 0.0,
        median,
        p95,
        float(waits.max(initial=0)),
        sum(job.runs[-1].ready - job.submitted for job in ran) / len(ran) if ran else 0.0,
        _bounded_slowdown(waits, np.array([length for _, length in whole], np.float64)),
        _shares((*whole, *broken), history.capacity, makespan),
        _shares(useful, history.capacity, makespan),
        _shares(broken, history.capacity, makespan),
        len(broken),
        makespan,
        forecast_error(history),
        reservation_accuracy(history),
        history.decisions / history.seconds if history.seconds else 0.0,
    )


def by_kind(history: History) -> dict[str, Summary]:
    """Sum up the jobs of each kind, where they have kinds, in the order in which those first came."""
    kinds: dict[str, list[JobHistory]] = {}
    for job in history.jobs:
        if job.kind:
            kinds.setdefault(job.kind, []).append(job)
    return {kind: summarise(history._replace(jobs=jobs)) for kind, jobs in kinds.items()}


def _makespan(ran: list[JobHistory]) -> float:
    if not ran:
        return 0.0
    return max(job.runs[-1].end for job in ran) - min(job.submitted for job in ran)


def _bounded_slowdown(waits: NDArray[np.float64], runs: NDArray[np.float64]) -> float:
    return float(np.maximum(1, (waits + runs) / np.maximum(runs, TAU)).mean()) if len(waits) else 0.0


def _shares(
    taken: Iterable[tuple[Mapping[str, int], float]], capacity: Mapping[str, int], makespan: float
) -> ResourceShares:
    """Return the share of each resource that was taken for so many seconds each; of what there is none, zero."""
    found = dict.fromkeys(capacity, 0.0)
    for amounts, seconds in taken:
        for name, amount in amounts.items():
            if name in found:
                found[name] += amount * seconds
    return {
        name: size / (capacity[name] * makespan) if capacity[name] * makespan else 0.0 for name, size in found.items()
    }
