"""Errors of forecasts and reservations against the true starts."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History, JobHistory


class ForecastError(NamedTuple):
    """Of jobs that were pending, as forecast at submission; seconds, infinite where no forecast was known."""

    jobs: int
    unknown: int
    """Jobs without a known forecast."""
    mean: float
    """Mean absolute error of the likely start."""
    median: float
    declared_mean: float
    """Mean absolute error of the latest start, which is by walltimes, for comparison."""
    within: float
    """Share of jobs that started between the earliest and the latest start."""


class ReservationAccuracy(NamedTuple):
    """Outcome of reserved starts; seconds."""

    jobs: int
    """Jobs with a reservation at a known time."""
    broken: int
    """Jobs that started later than first reserved, or not at all. There are none where walltimes are upper bounds and
    no job with a claim to the same quota is submitted later."""
    early_mean: float
    """Mean time by which the other jobs started before the reserved time."""


def forecast_error(history: History) -> ForecastError | None:
    """Compare forecasts with the first starts; None where no started job had a forecast."""
    forecasts = [(job.forecast, job.runs[0].start) for job in history.jobs if job.forecast is not None and job.runs]
    if not forecasts:
        return None
    known = [(forecast, start) for forecast, start in forecasts if forecast[2] < inf]
    if not known:
        return ForecastError(len(forecasts), len(forecasts), inf, inf, inf, inf)
    likely = np.array([abs(forecast[1] - start) for forecast, start in known])
    declared = np.array([abs(forecast[2] - start) for forecast, start in known])
    within = sum(forecast[0] <= start <= forecast[2] for forecast, start in known) / len(known)
    unknown = len(forecasts) - len(known)
    return ForecastError(
        len(forecasts), unknown, float(likely.mean()), float(np.median(likely)), float(declared.mean()), within
    )


def reservation_accuracy(history: History) -> ReservationAccuracy | None:
    """Compare reserved starts with the first start after the reservation; None without reservations."""
    reserved = [
        (job, job.reservation) for job in history.jobs if job.reservation is not None and job.reservation[1] < inf
    ]
    starts = [(start, _start_after(job, at)) for job, (at, start) in reserved]
    if not starts:
        return None
    early = [reserved_start - start for reserved_start, start in starts if start <= reserved_start]
    return ReservationAccuracy(len(starts), len(starts) - len(early), sum(early) / len(early) if early else 0.0)


def _start_after(job: JobHistory, time: float) -> float:
    return next((run.start for run in job.runs if run.start >= time), inf)
