"""Simulates a whole cluster on a virtual clock: jobs are submitted, start, end and are preempted; the planner decides.

All submissions and ends of one instant precede a single decision. Submitted jobs are therefore candidates, and the
quota of ended jobs is free for them, as on one pool (simulator.pool_simulation). So is the quota of victims without a
grace period. A preempted run is lost: its job is requeued and starts from the beginning.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
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
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.workload_types import Amounts, Workload
    from zonewise_scheduler.simulator.forecasters import ClusterForecaster
    from zonewise_scheduler.simulator.latency import Latency
    from zonewise_scheduler.simulator.scenario import Arrival, Scenario

_MAX_PREEMPTIONS = 1000
"""Maximum number of preemptions of one job while no job is submitted or ends; more mean that jobs preempt each other in
a cycle."""
_MAX_NAMES = 5
"""Maximum number of duplicate names in an error message."""


@dataclass(slots=True, eq=False)
class _Job:
    """A job in the simulation."""

    serial: int
    arrival: Arrival
    pod_start: float
    """Seconds until all its pods are ready."""
    amounts: Amounts
    run: JobRun | None = None
    """The current run with its expected end, while the job has quota."""
    expected: int = 0
    """Number of the event that ends the run; other events of the job are stale."""
    killed: bool = False
    """Whether it is killed at its deadline."""
    runs: tuple[JobRun, ...] = ()
    outcome: JobOutcome = "waiting"
    reservation: tuple[float, float] | None = None
    explanation: str = ""
    """Why an unfinished job is pending."""

    @property
    def key(self) -> str:
        return self.arrival.workload.key


class SimulationError(Exception):
    """The scenario is invalid or never ends; the message gives the reason."""


class _ClusterSimulation:
    """One run of a scenario under a policy."""

    def __init__(
        self,
        scenario: Scenario,
        policy: BackfillPolicy,
        latency: Latency,
        progress: Callable[[int, int, float], None] | None,
        forecaster: ClusterForecaster | None,
    ) -> None:
        self._scenario = scenario
        self._latency = latency
        self._progress = progress
        self._forecaster = forecaster
        self._snapshot = initial_snapshot(scenario)
        self._planner = new_state(self._snapshot, policy, scenario.settings, scenario.local_queues)
        self._bucket = TokenBucket(latency.rate, latency.burst)
        arrivals = sorted(scenario.arrivals, key=lambda arrival: arrival.workload.created_at)
        pods = [sum(pod_set.pods for pod_set in arrival.workload.pod_sets) for arrival in arrivals]
        delays = pod_start_delays(latency, pods)
        self._amounts: dict[frozenset[tuple[str, int]], Amounts] = {}
        """The amounts of all jobs; equal amounts share one object, since tens of thousands of jobs are identical."""
        self._jobs = [
            _Job(serial, arrival, delays[serial], self._shared_amounts(arrival.workload))
            for serial, arrival in enumerate(arrivals)
        ]
        self._by_key = _by_key(self._jobs, scenario.name)
        self._submitted = 0
        """Number of submitted jobs."""
        self._ended = 0
        self._preemptions = Counter[int]()
        """Preemptions since the last submission or end of a job, by serial."""
        self._unknown_starts: set[str] = set()
        """Keys of jobs whose reservations have no known start yet."""
        self._events: list[tuple[float, int, int]] = []
        """Heap of quota releases: time, number of the event, serial of the job."""
        self._numbers = count(1)
        self._wake_at = inf
        self._now = 0.0
        self._decisions = 0

    def run(self) -> History:
        """Run the simulation to its end."""
        cpu_start = time.process_time()
        while (now := self._next()) < inf:
            self._now = now
            first = self._submitted
            self._submit(now)
            self._release_due(now)
            admitted = self._decide(now)
            if self._forecaster is not None:
                submitted = [job.key for job in self._jobs[first : self._submitted]]
                self._forecaster.decided(self._planner, now, admitted, submitted)
            if self._progress is not None:
                self._progress(self._ended, len(self._jobs), now)
        seconds = time.process_time() - cpu_start
        self._explain_pending()
        forecasts = {} if self._forecaster is None else self._forecaster.forecasts
        jobs = [_job_history(job, forecasts.get(job.key)) for job in self._jobs]
        return History(jobs, nominal_capacity(self._scenario), self._decisions, seconds)

    def _explain_pending(self) -> None:
        """Explain each job that is still pending after all others have ended, and mark jobs that can never fit."""
        fits = FeasibilityCheck(self._snapshot, self._scenario.settings)
        explanations: dict[tuple[str, Hashable], str] = {}
        for job in self._jobs:
            if job.outcome == "waiting":
                shape = (job.arrival.queue, job.arrival.workload.scheduling_shape)
                if shape not in explanations:
                    explanations[shape] = self._explanation(job)
                job.explanation = explanations[shape]
                if not fits(job.arrival):
                    job.outcome = "refused"

    def _explanation(self, job: _Job) -> str:
        if job.key not in self._planner.pending:
            return self._planner.inadmissible[job.key].message
        if not any(job.amounts.values()):
            return "it requests nothing, and so has neither flavor nor placement"
        return explanation_message(explain(self._planner, job.key, self._now))

    def _next(self) -> float:
        """Return the time of the next event; infinite if there is none."""
        while self._events and self._jobs[self._events[0][2]].expected != self._events[0][1]:
            heappop(self._events)
        submission = (
            self._jobs[self._submitted].arrival.workload.created_at if self._submitted < len(self._jobs) else inf
        )
        return min(submission, self._events[0][0] if self._events else inf, self._wake_at)

    def _submit(self, now: float) -> None:
        while self._submitted < len(self._jobs):
            arrival = self._jobs[self._submitted].arrival
            if arrival.workload.created_at > now:
                return
            events.submit(self._planner, arrival.workload, arrival.queue)
            self._submitted += 1
            self._preemptions.clear()

    def _release_due(self, now: float) -> None:
        """Release the quota that has become free by now."""
        while self._events and self._events[0][0] <= now:
            _, number, serial = heappop(self._events)
            job = self._jobs[serial]
            if number != job.expected or job.run is None:
                continue
            job.runs += (job.run,)
            if job.run.whole:
                events.finish(self._planner, job.key)
                job.outcome = "failed" if job.killed else "done"
                self._ended += 1
                self._preemptions.clear()
                if self._forecaster is not None:
                    self._forecaster.ended(job.arrival.workload, job.run.end - job.run.start)
            else:
                events.evict(self._planner, job.key, Eviction("Preempted", now))
            job.run = None

    def _decide(self, now: float) -> Sequence[Workload]:
        """Run a pass; return the workloads that it admits."""
        plan = schedule(self._planner, now)
        self._decisions += 1
        for workload in plan.admitted:
            self._start(workload, now)
        for victim in plan.victims:
            self._stop(self._by_key[victim.workload.key], now)
        self._record_reservations(plan.reserved)
        ended = self._submitted == len(self._jobs) and not self._events
        # a job that waits now and has begun never starts
        self._wake_at = self._planner.begin_times.first if ended else plan.wake_at
        return plan.admitted

    def _record_reservations(self, reserved: Iterable[Reservation]) -> None:
        """Record the first reservation of each job; if its start is unknown, record it once a pass knows the start."""
        self._unknown_starts.update(reservation.workload.key for reservation in reserved)
        for key in [*self._unknown_starts]:
            reservation = self._planner.reservations.by_key.get(key)
            if reservation is not None and reservation.start == inf:
                continue
            self._unknown_starts.remove(key)
            job = self._by_key[key]
            if reservation is not None and job.reservation is None:
                job.reservation = (self._now, reservation.start)

    def _start(self, workload: Workload, now: float) -> None:
        job, latency = self._by_key[workload.key], self._latency
        admitted_at = self._bucket.reserve(now)
        ready = admitted_at + job.pod_start
        end, deadline = ready + job.arrival.run_time, admitted_at + job.arrival.workload.walltime
        job.killed = latency.enforce_deadlines and end > deadline
        if job.killed:
            end = deadline
        job.run = JobRun(now, end, min(ready, end))
        job.amounts = self._shared_amounts(workload)
        self._schedule_release(job, end + latency.grace if job.killed else end)

    def _shared_amounts(self, workload: Workload) -> Amounts:
        amounts = resource_amounts(workload)
        return self._amounts.setdefault(frozenset(amounts.items()), amounts)

    def _stop(self, job: _Job, now: float) -> None:
        """Shorten a run to the grace period, unless it ends earlier."""
        end = now + self._latency.grace
        if job.run is None or job.run.end <= end:
            return
        if self._preemptions[job.serial] == _MAX_PREEMPTIONS:
            raise SimulationError(
                f"{job.key}: preempted {_MAX_PREEMPTIONS} times while no job was submitted or ended; the simulation "
                "would not end"
            )
        self._preemptions[job.serial] += 1
        job.run = JobRun(job.run.start, end, min(job.run.ready, end), whole=False)
        self._schedule_release(job, end)

    def _schedule_release(self, job: _Job, terminated: float) -> None:
        """Release a run's quota some time after its pods have terminated."""
        job.expected = next(self._numbers)
        heappush(self._events, (terminated + self._latency.release, job.expected, job.serial))


def simulate_cluster(
    scenario: Scenario,
    policy: BackfillPolicy,
    latency: Latency = NO_LATENCY,
    progress: Callable[[int, int, float], None] | None = None,
    forecaster: ClusterForecaster | None = None,
) -> History:
    """Simulate a scenario under a policy.

    `progress` is called after each decision with the number of ended jobs, the number of all jobs, and the time.
    `forecaster` records forecasts.

    Raises SimulationError if several jobs have the same name or preempt each other in a cycle, and ValueError for a
    Topology without levels.
    """
    return _ClusterSimulation(scenario, policy, latency, progress, forecaster).run()


def _job_history(job: _Job, forecast: tuple[float, float, float] | None) -> JobHistory:
    arrival, workload = job.arrival, job.arrival.workload
    return JobHistory(
        workload.name,
        arrival.queue,
        arrival.kind,
        workload.queue_order_timestamp(),
        workload.walltime,
        job.amounts,
        sum(pod_set.pods for pod_set in workload.pod_sets),
        workload.priority,
        job.outcome,
        job.runs,
        job.reservation,
        forecast,
        job.explanation,
    )


def _by_key(jobs: Iterable[_Job], scenario: str) -> dict[str, _Job]:
    jobs_by_key: dict[str, _Job] = {}
    duplicates = [job.key for job in jobs if jobs_by_key.setdefault(job.key, job) is not job]
    if duplicates:
        names = ", ".join(dict.fromkeys(duplicates[:_MAX_NAMES])) + (", ..." if len(duplicates) > _MAX_NAMES else "")
        raise SimulationError(f"{scenario}: job names must be unique; several jobs have the name {names}")
    return jobs_by_key
