"""Forecasts a pool by simulating its policy on copies of its state.

Each sample path draws new run times from similar jobs (run_time_samples.py) and replays the submissions of another week
(arrival_history.py). A job's start in each sample path is one sample; calibration.py derives an interval from
the samples.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.forecast.run_time_samples import SampledRunTimes, number_of_sample_paths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zonewise_scheduler.backfill.forecast.arrival_history import PastArrival
    from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
    from zonewise_scheduler.backfill.forecast.run_time_samples import RunTimeDraw
    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy, PoolState

MAX_SAMPLE_PATHS = 48
"""Maximum number of sample paths: more than for a cluster, since a decision of a pool costs microseconds."""
MAX_JOBS_SAMPLED = 4000
"""Maximum number of jobs in all sample paths together, which bounds the cost of a forecast."""
MAX_SQUARES_SAMPLED = 1_500_000
"""Maximum sum of the squared numbers of jobs; of both bounds, the one that allows more sample paths applies. Twice as
many jobs cause twice as many events, and an event costs more with more pending jobs. So 170 jobs are simulated 48 times
and 1,000 jobs three times, at about the same cost."""
HORIZON = 30 * 24 * 3600.0
"""Length of a sample path, in seconds; a job that has not started by then has an unknown start."""
MAX_DECISIONS = 20_000
"""Maximum number of decisions of a sample path, as another bound."""
_FIRST_SERIAL = sys.maxsize
"""First serial of replayed jobs, which come after all others."""


def sample_starts(
    now: float, state: PoolState, policy: PoolPolicy, inputs: ForecastInputs[Job], jobs: Collection[Job] | None = None
) -> dict[Job, list[float]]:
    """Return the start of each pending job in each sample path, between two decisions; the state is not changed.

    `jobs`: the jobs to sample, or None for all. A start is infinite if the job does not start within a sample path, and
    never later than reserved. The same arguments give the same samples.
    """
    starts: dict[Job, list[float]] = {job: [] for job in (state.pending if jobs is None else jobs)}
    bounds = {reservation.job: max(reservation.start, now) for reservation in policy.reservations(now, state)}
    running = ((job, start) for job, (start, _) in state.run_spans.items())
    run_times = SampledRunTimes(now, running, inputs.run_times)
    for sample in range(number_of_pool_sample_paths(len(state.pending) + len(state.run_spans))):
        sample_path = _PoolSamplePath(
            now, state.copy(), policy.fork(), run_times.draw(sample), inputs.arrivals.replay(now, sample)
        )
        sampled_starts = sample_path.run(starts)
        for job, sampled in starts.items():
            sampled.append(min(sampled_starts.get(job, inf), bounds.get(job, inf)))
    return starts


def number_of_pool_sample_paths(jobs: int) -> int:
    """Return the number of sample paths for a number of pending and running jobs."""
    most = min(MAX_SAMPLE_PATHS, MAX_SQUARES_SAMPLED // (jobs + 1) ** 2)
    return max(most, number_of_sample_paths(jobs, MAX_JOBS_SAMPLED, MAX_SAMPLE_PATHS))


class _PoolSamplePath:
    """A copy of a pool on a virtual clock."""

    def __init__(
        self,
        now: float,
        state: PoolState,
        policy: PoolPolicy,
        draw: RunTimeDraw[Job],
        arrivals: Iterator[PastArrival[Job]],
    ) -> None:
        self._now = now
        self._until = now + HORIZON
        self._state = state
        self._policy = policy
        self._draw = draw
        self._arrivals = arrivals
        self._arrival = next(arrivals, None)
        self._serials = count(_FIRST_SERIAL)
        self._known_run_times: dict[Job, float] = {}
        """Run times of replayed jobs that have ended."""
        self._ends = [(max(end, now), job.serial, job) for end, job in draw.ends()]
        heapify(self._ends)
        self._wake_at = inf

    def run(self, jobs: Collection[Job]) -> dict[Job, float]:
        """Simulate until the jobs have started or nothing more happens; return all starts."""
        starts: dict[Job, float] = {}
        not_started = set(jobs)
        must_decide = self._is_decision_due()
        for _ in range(MAX_DECISIONS):
            if must_decide:
                not_started.difference_update(self._decide(starts))
            self._now = self._next_event()
            if not not_started or self._now > self._until:
                break
            ended, arrived = self._end_due(), self._submit_due()
            must_decide = ended or arrived or self._now >= self._wake_at
        return starts

    def _is_decision_due(self) -> bool:
        """Return whether changes since the last decision may start or reserve anything, as in the simulation."""
        state = self._state
        return state.must_retry or self._policy.eager or any(map(state.fits_available, state.new_jobs))

    def _next_event(self) -> float:
        end = self._ends[0][0] if self._ends else inf
        arrival = inf if self._arrival is None else self._arrival.time
        return min(end, arrival, self._wake_at)

    def _end_due(self) -> bool:
        """End the jobs that are due to end; return whether there are any. Other jobs may overrun their walltimes."""
        ended = False
        while self._ends and self._ends[0][0] <= self._now:
            self._state.end(heappop(self._ends)[2])
            ended = True
        self._state.extend_overrun(self._now)
        return ended

    def _submit_due(self) -> bool:
        """Submit the jobs that are due to arrive; return whether any of them needs a decision."""
        state, needed = self._state, False
        while self._arrival is not None and self._arrival.time <= self._now:
            job = replace(self._arrival.subject, serial=next(self._serials), submitted=self._arrival.time)
            if state.fits_capacity(job):
                state.submit(job)
                needed |= self._policy.eager or state.fits_available(job)
                if self._arrival.run_time is not None:
                    self._known_run_times[job] = self._arrival.run_time
            self._arrival = next(self._arrivals, None)
        return needed

    def _decide(self, starts: dict[Job, float]) -> Collection[Job]:
        """Start the jobs that the policy selects; return them."""
        decision = self._policy.decide(self._now, self._state)
        self._state.apply(decision, self._now)
        self._wake_at = decision.wake_at
        for job in decision.starts:
            starts[job] = self._now
            run_time = self._known_run_times.get(job)
            end = self._now + (self._draw.whole(job) if run_time is None else run_time)
            heappush(self._ends, (end, job.serial, job))
        return decision.starts
