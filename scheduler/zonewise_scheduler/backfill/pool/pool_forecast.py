"""Forecasts of a pool: its pending jobs, played forward on the availability profile.

They are played three times. Every job runs as long as the short ones of its group did, as long as the median one, or
for its walltime (run_time_history.py). Jobs that arrive later are ignored, so `latest` is an upper bound only for a
job with a reservation.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile
from zonewise_scheduler.backfill.run_time_history import RunTimeEstimate
from zonewise_scheduler.backfill.types import Forecast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolPolicy, PoolState
    from zonewise_scheduler.backfill.run_time_history import RunTimeHistory


def forecast_pool(now: float, state: PoolState, policy: PoolPolicy, history: RunTimeHistory) -> dict[Job, Forecast]:
    """Return the predicted starts of the pending jobs, in the policy's trial order; between two decisions."""
    running = {job: history.estimate(job, now - start) for job, (start, _) in state.run_spans.items()}
    pending = [(job, history.estimate(job)) for job in policy.trial_order(now, state)]
    reserved_starts = {reservation.job: reservation.start for reservation in policy.reservations(now, state)}
    plays = [
        _play(now, state, pending, running, play, overtaking=policy.overtaking)
        for play in range(len(RunTimeEstimate._fields))
    ]
    forecasts: dict[Job, Forecast] = {}
    for (job, _), *starts in zip(pending, *plays, strict=True):
        earliest, likely, latest = sorted(starts)
        bound = reserved_starts.get(job, inf)
        forecasts[job] = Forecast(min(earliest, bound), min(likely, bound), min(latest, bound))
    return forecasts


def _play(
    now: float,
    state: PoolState,
    pending: Iterable[tuple[Job, RunTimeEstimate]],
    running: dict[Job, RunTimeEstimate],
    play: int,
    *,
    overtaking: bool,
) -> list[float]:
    """Return the starts of the pending jobs if every job runs as long as this play's estimate."""
    ends = sorted(
        (max(start + running[job][play], now), job.serial, job) for job, (start, _) in state.run_spans.items()
    )
    profile = AvailabilityProfile(now, state.available, ends)
    starts: list[float] = []
    for job, estimate in pending:
        predicted = replace(job, walltime=estimate[play])
        start = profile.earliest(predicted)
        if start < inf:
            profile.add(start, start + predicted.walltime, -predicted.request)
            if not overtaking:
                profile.advance(start)
        starts.append(start)
    return starts
