"""The virtual clock: jobs come and end, and between, the policy decides as it does on a live cluster.

Of events at one time, submissions are before ends, each on its own (as in pyss, whose results are published). A job
that ends by its latest end in that very instant has its room back for all of them: that it ends now is certain. One
that ends early is only known to when its own event comes.
"""

from __future__ import annotations

import time
from heapq import heappop, heappush
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.backfill.pool.pool_state import PoolState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision, PoolPolicy


class PoolObserver(Protocol):
    """Is told of what happens."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Take note of a job that waits now; nothing is decided yet."""
        ...

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Take note of a decision that is not applied yet."""
        ...

    def ended(self, now: float, job: Job, run: float) -> None:
        """Take note of a job that has ended, and how long it ran."""
        ...


class Task(NamedTuple):
    """A job and what only time tells of it."""

    job: Job
    run_time: float
    """How long it takes in truth, in seconds; longer than declared if need be."""


class PoolResult(NamedTuple):
    """What came of the tasks."""

    tasks: list[Task]
    """By time of submission."""
    starts: dict[Job, float]
    rejected: list[Task]
    """Those that do not fit into an empty machine; they never waited."""
    decisions: int
    seconds: float
    """CPU time that all of it took."""


class _PoolSimulation:
    """One run of tasks through a policy."""

    def __init__(
        self, tasks: Iterable[Task], capacity: int, policy: PoolPolicy, watcher: PoolObserver | None = None
    ) -> None:
        """Take the tasks in any order, their serials unique, and what is there in all (Columns.room)."""
        self._capacity = capacity
        self._state = PoolState(capacity)
        self._policy = policy
        self._watcher = watcher
        self._tasks = sorted(tasks, key=_arrival)
        self._ends: list[tuple[float, int, Job]] = []
        """A heap of those that run by their true ends; of equal ones, who came first."""
        self._runs = {task.job: task.run_time for task in self._tasks}
        self._starts: dict[Job, float] = {}
        self._decisions = 0
        self._wake = inf

    def run(self) -> PoolResult:
        """Let everything happen."""
        began = time.process_time()
        refused: list[Task] = []
        for task in self._tasks:
            job = task.job
            self._happen_before(job.submitted)
            if (self._capacity - job.request) & job.guards == job.guards:
                self._submit(job)
            else:
                refused.append(task)
        self._happen_before(inf)
        return PoolResult(self._tasks, self._starts, refused, self._decisions, time.process_time() - began)

    def _happen_before(self, until: float) -> None:
        """Let jobs end, and reservations begin, before the next submission."""
        ends = self._ends
        while True:
            at = ends[0][0] if ends else inf
            if self._wake < at:
                if self._wake >= until:
                    return
                self._settle(self._wake)
                self._decide(self._wake)
            elif at < until:
                job = heappop(ends)[2]
                self._settle(at)
                if job in self._state.run_spans:
                    self._state.end(job)
                if self._watcher is not None:
                    self._watcher.ended(at, job, self._runs[job])
                self._decide(at)
            else:
                return

    def _submit(self, job: Job) -> None:
        state, now = self._state, job.submitted
        self._settle(now)
        state.submit(job)
        if self._watcher is not None:
            self._watcher.arrived(now, state, job)
        if self._policy.eager or (state.available - job.request) & job.guards == job.guards:
            self._decide(now)

    def _settle(self, now: float) -> None:
        """See to those whose latest end has come: they end in this instant or outlive their declared run time."""
        state = self._state
        if not state.running or state.running[0][0] > now:
            return
        for _, _, job in list(takewhile(lambda run: run[0] <= now, state.running)):
            if state.run_spans[job][0] + self._runs[job] <= now:
                state.end(job)
        state.extend_overrun(now)

    def _decide(self, now: float) -> None:
        decision = self._policy.decide(now, self._state)
        if self._watcher is not None:
            self._watcher.decided(now, self._state, decision)
        self._state.apply(decision, now)
        self._decisions += 1
        self._wake = decision.wake_at
        for job in decision.starts:
            self._starts[job] = now
            heappush(self._ends, (now + self._runs[job], job.serial, job))


def simulate_pool(
    tasks: Iterable[Task], capacity: int, policy: PoolPolicy, observer: PoolObserver | None = None
) -> PoolResult:
    """Run tasks, in any order, their serials unique, through a policy on a machine so large (Columns.room)."""
    return _PoolSimulation(tasks, capacity, policy, observer).run()


def _arrival(task: Task) -> tuple[float, int]:
    return (task.job.submitted, task.job.serial)
