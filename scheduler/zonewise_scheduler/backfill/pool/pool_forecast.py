"""When each waiting job is likely to start: the queue as it stands, played forward on the profile.

Three times: as if every job ran only as long as the short ones of its kin, as long as the middle one, and as long as
it declares. Jobs that come later and overtake are not foretold, so `latest` is a promise only with a reservation.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolPolicy, PoolState
    from zonewise_scheduler.backfill.run_time_history import RunTimeEstimate, RunTimeHistory


class PoolForecast(NamedTuple):
    """Starts of a waiting job, ascending; infinite where run times are unknown that it depends on."""

    job: Job
    earliest: float
    likely: float
    latest: float


def forecast_pool(now: float, state: PoolState, policy: PoolPolicy, history: RunTimeHistory) -> list[PoolForecast]:
    """Return when each waiting job starts, in the order in which the policy would try them; between two decisions."""
    running = {job: history.estimate(job, now - start) for job, (start, _) in state.run_spans.items()}
    turn = [(job, history.estimate(job)) for job in policy.trial_order(now, state)]
    promised = {one.job: one.start for one in policy.reservations(now, state)}
    played = [_played(now, state, turn, running, view, policy.overtaking) for view in range(3)]
    found: list[PoolForecast] = []
    for (job, _), *starts in zip(turn, *played, strict=True):
        earliest, likely, latest = sorted(starts)
        bound = promised.get(job, inf)
        found.append(PoolForecast(job, min(earliest, bound), min(likely, bound), min(latest, bound)))
    return found


def _played(
    now: float,
    state: PoolState,
    turn: Iterable[tuple[Job, RunTimeEstimate]],
    running: dict[Job, RunTimeEstimate],
    view: int,
    overtaking: bool,
) -> list[float]:
    """Return the starts of the jobs if each, running or not, takes the length of that place in Lengths."""
    ends = sorted(
        (max(start + running[job][view], now), job.serial, job) for job, (start, _) in state.run_spans.items()
    )
    profile = AvailabilityProfile(now, state.available, ends)
    starts: list[float] = []
    for job, lengths in turn:
        one = replace(job, walltime=lengths[view])
        start = profile.earliest(one)
        if start < inf:
            profile.add(start, start + one.walltime, -one.request)
            if not overtaking:
                profile.advance(start)
        starts.append(start)
    return starts
