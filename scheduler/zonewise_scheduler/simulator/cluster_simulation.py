"""The virtual clock over a whole cluster: jobs come, start, end and give way, and between, the planner decides.

What comes and what ends in one instant is known before one decision: those that come are there to be chosen, and what
ends has its room back for them, as on one pool (simulate.clock); so have the victims of a preemption if they stop at
once. A run that is cut short is lost: its job waits again, and is then run from the beginning.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.explain import explain
from zonewise_scheduler.backfill.explain_message import explanation_message
from zonewise_scheduler.backfill.planner_state import new_state
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.simulator.history import History, JobHistory, JobOutcome, JobRun
from zonewise_scheduler.simulator.initial_state import (
    FeasibilityCheck,
    initial_snapshot,
    nominal_capacity,
    resource_amounts,
)
from zonewise_scheduler.simulator.latency import NO_LATENCY, TokenBucket, pod_start_delays

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.quota.api.workload_types import Amounts, Workload
    from zonewise_scheduler.simulator.forecasters import ClusterForecaster
    from zonewise_scheduler.simulator.latency import Latency
    from zonewise_scheduler.simulator.scenario import Arrival, Scenario

_MAX_PREEMPTIONS = 1000
"""Runs that a job may lose; with more, jobs make each other give way in a circle."""
_NAMED = 5
"""Jobs with names of others that are told."""


@dataclass(slots=True, eq=False)
class _Job:
    """A job on its way."""

    serial: int
    arrival: Arrival
    pod_start: float
    """Seconds until all its pods are ready."""
    amounts: Amounts
    run: JobRun | None = None
    """As it is expected to be, while it has its quota."""
    expected: int = 0
    """The number of the event that will be the end of it; those before are void."""
    killed: bool = False
    """Whether it will not be done by its declared run time."""
    runs: tuple[JobRun, ...] = ()
    outcome: JobOutcome = "waiting"
    reservation: tuple[float, float] | None = None
    explanation: str = ""
    """What stands in the way of one that has not run."""

    @property
    def key(self) -> str:
        return self.arrival.workload.key


class SimulationError(Exception):
    """A scenario that cannot be, or has no end; it says what is wrong."""


class _ClusterSimulation:
    """One run of a scenario through a policy."""

    def __init__(
        self,
        scenario: Scenario,
        rules: BackfillPolicy,
        latency: Latency,
        progress: Callable[[int, int, float], None] | None,
        foresight: ClusterForecaster | None,
    ) -> None:
        self._scenario = scenario
        self._latency = latency
        self._progress = progress
        self._foresight = foresight
        self._snapshot = initial_snapshot(scenario)
        self._planner = new_state(self._snapshot, rules, scenario.settings, scenario.local_queues)
        self._bucket = TokenBucket(latency.rate, latency.burst)
        arrivals = sorted(scenario.arrivals, key=lambda one: one.workload.created_at)
        pods = [sum(one.pods for one in arrival.workload.pod_sets) for arrival in arrivals]
        delays = pod_start_delays(latency, pods)
        self._amounts: dict[frozenset[tuple[str, int]], Amounts] = {}
        """Those of all jobs, equal ones once: they are alike for tens of thousands."""
        self._jobs = [
            _Job(serial, one, delays[serial], self._taken(one.workload)) for serial, one in enumerate(arrivals)
        ]
        self._by_key = _by_key(self._jobs, scenario.name)
        self._come = 0
        """How many have."""
        self._over = 0
        self._events: list[tuple[float, int, int]] = []
        """When quota will be free, the number of the event, and whose; a heap."""
        self._numbers = count(1)
        self._wake = inf
        self._now = 0.0
        self._decisions = 0

    def run(self) -> History:
        """Let everything happen."""
        began = time.process_time()
        while (now := self._next()) < inf:
            self._now = now
            first = self._come
            self._submit(now)
            self._settle(now)
            self._decide(now)
            if self._foresight is not None:
                self._foresight.decided(self._planner, now, [job.key for job in self._jobs[first : self._come]])
            if self._progress is not None:
                self._progress(self._over, len(self._jobs), now)
        seconds = time.process_time() - began
        self._look_back()
        told = {} if self._foresight is None else self._foresight.forecasts
        jobs = [_history_of(job, told.get(job.key)) for job in self._jobs]
        return History(jobs, nominal_capacity(self._scenario), self._decisions, seconds)

    def _look_back(self) -> None:
        """Say of those that wait still what stands in the way, all else having ended, and refuse who never fits."""
        possible = FeasibilityCheck(self._snapshot, self._scenario.settings)
        said: dict[tuple[str, Hashable], str] = {}
        for job in self._jobs:
            if job.outcome == "waiting":
                kind = (job.arrival.queue, job.arrival.workload.scheduling_shape)
                if kind not in said:
                    said[kind] = self._why(job)
                job.explanation = said[kind]
                if not possible(job.arrival):
                    job.outcome = "refused"

    def _why(self, job: _Job) -> str:
        if job.key not in self._planner.pending:
            return self._planner.inadmissible[job.key].message
        if not any(job.amounts.values()):
            return "it requests nothing, and so is given no flavor and no place"
        return explanation_message(explain(self._planner, job.key, self._now))

    def _next(self) -> float:
        """Return when something happens next; infinite: nothing does."""
        while self._events and self._jobs[self._events[0][2]].expected != self._events[0][1]:
            heappop(self._events)
        coming = self._jobs[self._come].arrival.workload.created_at if self._come < len(self._jobs) else inf
        return min(coming, self._events[0][0] if self._events else inf, self._wake)

    def _submit(self, now: float) -> None:
        while self._come < len(self._jobs):
            arrival = self._jobs[self._come].arrival
            if arrival.workload.created_at > now:
                return
            events.submit(self._planner, arrival.workload, arrival.queue)
            self._come += 1

    def _settle(self, now: float) -> None:
        """Give back the quota that is free by now."""
        while self._events and self._events[0][0] <= now:
            _, number, serial = heappop(self._events)
            job = self._jobs[serial]
            if number != job.expected or job.run is None:
                continue
            job.runs += (job.run,)
            if job.run.whole:
                events.finish(self._planner, job.key)
                job.outcome = "failed" if job.killed else "done"
                self._over += 1
                if self._foresight is not None:
                    self._foresight.ended(job.arrival.workload, job.run.end - job.run.start)
            else:
                events.evict(self._planner, job.key, Eviction("Preempted", now))
            job.run = None

    def _decide(self, now: float) -> None:
        step = schedule(self._planner, now)
        self._decisions += 1
        for workload in step.admitted:
            self._start(workload, now)
        for victim in step.victims:
            self._stop(self._by_key[victim.workload.key], now)
        for promise in step.reserved:
            job = self._by_key[promise.workload.key]
            if job.reservation is None:
                job.reservation = (now, promise.start)
        ended = self._come == len(self._jobs) and not self._events  # who cannot start now never will
        self._wake = inf if ended else step.wake_at

    def _start(self, workload: Workload, now: float) -> None:
        job, latency = self._by_key[workload.key], self._latency
        going = self._bucket.reserve(now)
        ready = going + job.pod_start
        end, deadline = ready + job.arrival.run_time, going + job.arrival.workload.walltime
        job.killed = latency.enforce_deadlines and end > deadline
        if job.killed:
            end = deadline
        job.run = JobRun(now, end, min(ready, end))
        job.amounts = self._taken(workload)
        self._expect(job, end + latency.grace if job.killed else end)

    def _taken(self, workload: Workload) -> Amounts:
        found = resource_amounts(workload)
        return self._amounts.setdefault(frozenset(found.items()), found)

    def _stop(self, job: _Job, now: float) -> None:
        """Cut a run short, unless it is over by then."""
        end = now + self._latency.grace
        if job.run is None or job.run.end <= end:
            return
        if len(job.runs) == _MAX_PREEMPTIONS:
            raise SimulationError(f"{job.key}: preempted {_MAX_PREEMPTIONS} times; it will not come to an end")
        job.run = JobRun(job.run.start, end, min(job.run.ready, end), whole=False)
        self._expect(job, end)

    def _expect(self, job: _Job, gone: float) -> None:
        """Have a run's quota free some time after its pods are gone."""
        job.expected = next(self._numbers)
        heappush(self._events, (gone + self._latency.release, job.expected, job.serial))


def simulate_cluster(
    scenario: Scenario,
    rules: BackfillPolicy,
    latency: Latency = NO_LATENCY,
    progress: Callable[[int, int, float], None] | None = None,
    forecaster: ClusterForecaster | None = None,
) -> History:
    """Run a scenario through a policy; `progress` is told after each decision how many jobs are over, of how many, and
    the time. `foresight` is asked for forecasts.

    Raises SimulationError where several jobs have one name, or preemptions go round in circles, and ValueError for a
    Topology without levels.
    """
    return _ClusterSimulation(scenario, rules, latency, progress, forecaster).run()


def _history_of(job: _Job, told: tuple[float, float, float] | None) -> JobHistory:
    arrival, workload = job.arrival, job.arrival.workload
    return JobHistory(
        workload.name,
        arrival.queue,
        arrival.kind,
        workload.created_at,
        workload.walltime,
        job.amounts,
        sum(one.pods for one in workload.pod_sets),
        workload.priority,
        job.outcome,
        job.runs,
        job.reservation,
        told,
        job.explanation,
    )


def _by_key(jobs: Iterable[_Job], scenario: str) -> dict[str, _Job]:
    found: dict[str, _Job] = {}
    twice = [job.key for job in jobs if found.setdefault(job.key, job) is not job]
    if twice:
        names = ", ".join(dict.fromkeys(twice[:_NAMED])) + (", ..." if len(twice) > _NAMED else "")
        raise SimulationError(f"{scenario}: jobs have names of their own; there are several of the name {names}")
    return found
