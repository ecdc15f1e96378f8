"""Errors of forecasts and reservations relative to the true starts."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.simulator.job_columns import jobs_with_forecast, jobs_with_reservation

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import Floats, History, JobHistory


FIRST_FORECASTS = 7 * 24 * 3600.0
"""Seconds after the first submission during which forecasts are still being calibrated. If there are later forecasts,
only these count for relative errors, coverage and width."""
SHORT_WAIT = 2 * 3600.0
"""Waits shorter than this count as short, in seconds."""


class ForecastError(NamedTuple):
    """Errors of the forecasts at submission of jobs that were pending; seconds, infinite if none was known."""

    jobs: int
    unknown: int
    """Jobs without a known forecast."""
    mean: float
    """Mean absolute error of the likely start."""
    median: float
    relative: float
    """Median of the absolute error of the likely start, as a share of the wait."""
    short_median: float | None
    """Median absolute error of jobs that waited for less than SHORT_WAIT; None if there are none."""
    long_relative: float | None
    """`relative` of the other jobs; None if there are none. For waits of seconds, a relative error means little."""
    within: float
    """Share of jobs that started between the earliest and the latest start."""
    width: float
    """Median of the time from the earliest to the latest start, as a share of the wait."""
    long_width: float | None
    """`width` of jobs that waited for SHORT_WAIT or longer; None if there are none."""


class ReservationAccuracy(NamedTuple):
    """Outcome of reserved starts; times in seconds."""

    jobs: int
    """Jobs with a reservation for a known start."""
    broken: int
    """Jobs that started later than first reserved, or not at all. There are none if walltimes are upper bounds and no
    job with a claim to the same quota is submitted later."""
    early_mean: float
    """Mean time by which the other jobs started before the reserved time."""


def forecast_error(history: History) -> ForecastError | None:
    """Compare forecasts with the first starts; return None if no started job had a forecast."""
    forecasts = [
        (job.forecast, job.submitted, job.runs[0].start)
        for job in jobs_with_forecast(history.jobs)
        if job.forecast is not None and job.runs
    ]
    known = [forecast for forecast in forecasts if forecast[0][2] < inf]
    if not known:
        return ForecastError(len(forecasts), len(forecasts), *(8 * (inf,))) if forecasts else None
    settled_at = min(job.submitted for job in history.jobs) + FIRST_FORECASTS
    settled = [forecast for forecast in known if forecast[1] >= settled_at] or known
    errors = np.array([abs(forecast[1] - start) for forecast, _, start in known])
    earliest, likely, latest = np.array([forecast for forecast, _, _ in settled]).T
    starts = np.array([start for _, _, start in settled])
    waits = starts - np.array([submitted for _, submitted, _ in settled])
    settled_errors, shares, long = np.abs(likely - starts), np.maximum(waits, 1.0), waits >= SHORT_WAIT
    relative, widths = settled_errors / shares, (latest - earliest) / shares
    return ForecastError(
        len(forecasts),
        len(forecasts) - len(known),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.median(relative)),
        _median(settled_errors[~long]),
        _median(relative[long]),
        float(((earliest <= starts) & (starts <= latest)).mean()),
        float(np.median(widths)),
        _median(widths[long]),
    )


def reservation_accuracy(history: History) -> ReservationAccuracy | None:
    """Compare reserved starts with the first start after the reservation; return None without reservations."""
    jobs = late = 0
    early = 0.0
    for job in jobs_with_reservation(history.jobs):
        if job.reservation is None or job.reservation[1] == inf:
            continue
        at, reserved_start = job.reservation
        start = _start_after(job, at)
        jobs += 1
        late += start > reserved_start
        early += max(reserved_start - start, 0.0)
    return ReservationAccuracy(jobs, late, early / (jobs - late) if jobs > late else 0.0) if jobs else None


def _median(numbers: Floats) -> float | None:
    return float(np.median(numbers)) if len(numbers) else None


def _start_after(job: JobHistory, time: float) -> float:
    return next((run.start for run in job.runs if run.start >= time), inf)
