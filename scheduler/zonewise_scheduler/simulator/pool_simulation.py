"""Simulates one pool on a virtual clock: jobs are submitted and end, and the policy decides after each event.

Among events at the same time, submissions precede ends, and each is handled separately, as in pyss, whose results are
published. A job whose deadline is that instant has already freed its processors, since it is certain to end then. A job
that ends earlier frees them with its own event.
"""

from __future__ import annotations

import time
from heapq import heappop, heappush
from itertools import count, takewhile
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.backfill.pool.pool_state import PoolState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolPolicy


class PoolObserver(Protocol):
    """An observer of the simulation."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Observe a job that is pending now, before any decision."""
        ...

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Observe a decision before it is applied."""
        ...

    def ended(self, now: float, job: Job, run: float) -> None:
        """Observe a job that has ended, and its run time."""
        ...


class Task(NamedTuple):
    """A job and its true run time."""

    job: Job
    run_time: float
    """Seconds; it may exceed the walltime."""


class PoolCost(NamedTuple):
    """The cost of a simulation."""

    decisions: int
    seconds: float
    """CPU time, including that of reading the tasks."""


class _PoolSimulation:
    """One run of tasks under a policy. It holds only the jobs that are pending or running."""

    def __init__(
        self,
        capacity: int,
        policy: PoolPolicy,
        observer: PoolObserver | None,
        started: Callable[[Job, float], object],
    ) -> None:
        self._state = PoolState(capacity)
        self._policy = policy
        self._observer = observer
        self._started = started
        self._end_events: list[tuple[float, int, Job]] = []
        """Heap of running jobs by true end, then by start, as in the published schedules of EASY."""
        self._runs: dict[Job, float] = {}
        """True run times of pending and running jobs."""
        self._start_numbers = count()
        self._decisions = 0
        self._wake_at = inf

    def run(self, tasks: Iterable[Task]) -> PoolCost:
        """Run the simulation to its end; tasks must be in order of submission."""
        start = time.process_time()
        for job, run_time in tasks:
            self._advance_until(job.submitted)
            if self._state.fits_capacity(job):
                self._runs[job] = run_time
                self._submit(job)
        self._advance_until(inf)
        return PoolCost(self._decisions, time.process_time() - start)

    def _advance_until(self, until: float) -> None:
        """Handle ends and wake-ups before the next submission."""
        ends = self._end_events
        while True:
            at = ends[0][0] if ends else inf
            if self._wake_at < at:
                if self._wake_at >= until:
                    return
                self._release_due(self._wake_at)
                self._decide(self._wake_at)
            elif at < until:
                job = heappop(ends)[2]
                self._release_due(at)
                if job in self._state.run_spans:
                    self._state.end(job)
                run_time = self._runs.pop(job)
                if self._observer is not None:
                    self._observer.ended(at, job, run_time)
                self._decide(at)
            else:
                return

    def _submit(self, job: Job) -> None:
        state, now = self._state, job.submitted
        self._release_due(now)
        state.submit(job)
        if self._observer is not None:
            self._observer.arrived(now, state, job)
        if self._policy.eager or state.fits_available(job):
            self._decide(now)

    def _release_due(self, now: float) -> None:
        """Handle jobs at their deadline: each ends at this instant or overruns its walltime."""
        state = self._state
        if not state.running or state.running[0][0] > now:
            return
        for _, _, job in list(takewhile(lambda run: run[0] <= now, state.running)):
            if state.run_spans[job][0] + self._runs[job] <= now:
                state.end(job)
        state.extend_overrun(now)

    def _decide(self, now: float) -> None:
        decision = self._policy.decide(now, self._state)
        if self._observer is not None:
            self._observer.decided(now, self._state, decision)
        self._state.apply(decision, now)
        self._decisions += 1
        self._wake_at = decision.wake_at
        for job in decision.starts:
            heappush(self._end_events, (now + self._runs[job], next(self._start_numbers), job))
            self._started(job, now)


def stream_pool(
    tasks: Iterable[Task],
    capacity: int,
    policy: PoolPolicy,
    started: Callable[[Job, float], object],
    observer: PoolObserver | None = None,
) -> PoolCost:
    """Simulate tasks, given by time of submission and then by serial; each is forgotten once it has ended.

    `started` is called with each job that starts, and the time. Only jobs that do not fit into the empty machine never
    start.
    """
    return _PoolSimulation(capacity, policy, observer, started).run(tasks)
