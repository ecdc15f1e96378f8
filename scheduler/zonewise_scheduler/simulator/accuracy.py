"""How far forecasts and promises were from what came to be."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History, JobHistory


class ForecastError(NamedTuple):
    """Of jobs that waited, as foretold when they came; seconds, infinite where nothing was known of any."""

    jobs: int
    unknown: int
    """Those of which nothing could be foretold."""
    mean: float
    """Between the likely start and the true one."""
    median: float
    declared_mean: float
    """Between the latest start, by declared run times, and the true one, for comparison."""
    within: float
    """The share that started between the earliest and the latest."""


class ReservationAccuracy(NamedTuple):
    """What became of promised starts; seconds."""

    jobs: int
    """Those that were promised a start at a known time."""
    broken: int
    """Those that started later than first promised, or not at all; none where declared run times are upper bounds and
    nobody with a claim to the same quota came later."""
    early_mean: float
    """How long before the promised time the others started."""


def forecast_error(history: History) -> ForecastError | None:
    """Compare what was foretold with the first starts; None where nothing was foretold of a job that started."""
    told = [(job.told, job.runs[0].start) for job in history.jobs if job.told is not None and job.runs]
    if not told:
        return None
    known = [(one, start) for one, start in told if one[2] < inf]
    if not known:
        return ForecastError(len(told), len(told), inf, inf, inf, inf)
    likely = np.array([abs(one[1] - start) for one, start in known])
    declared = np.array([abs(one[2] - start) for one, start in known])
    within = sum(one[0] <= start <= one[2] for one, start in known) / len(known)
    unknown = len(told) - len(known)
    return ForecastError(
        len(told), unknown, float(likely.mean()), float(np.median(likely)), float(declared.mean()), within
    )


def reservation_accuracy(history: History) -> ReservationAccuracy | None:
    """Compare what was promised with the first start from then on; None where nothing was promised."""
    made = [(job, job.promised) for job in history.jobs if job.promised is not None and job.promised[1] < inf]
    found = [(start, _start_after(job, at)) for job, (at, start) in made]
    if not found:
        return None
    early = [promised - start for promised, start in found if start <= promised]
    return ReservationAccuracy(len(found), len(found) - len(early), sum(early) / len(early) if early else 0.0)


def _start_after(job: JobHistory, time: float) -> float:
    return next((run.start for run in job.runs if run.start >= time), inf)
