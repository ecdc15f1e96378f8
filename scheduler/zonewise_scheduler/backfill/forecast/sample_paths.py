"""Samples starts by simulating the planner itself on copies of its state.

Each sample path draws new run times from similar workloads (run_time_samples.py) and replays the submissions of another
week (arrival_history.py). A workload's start in each sample path is one sample; calibration.py derives an
interval from the samples. The passes of a sample path decide by walltimes, like all passes.

A pass takes milliseconds, and each workload that ends or arrives causes one. With many workloads, a time grain
therefore merges events at about the same time into one at the mean of their times. The further away they are, the more
events are merged. Merged ends free more at once, so wide workloads start too early in a sample path, and others too
late.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.forecast.quota_reservations import QuotaReservations
from zonewise_scheduler.backfill.forecast.run_time_samples import SampledRunTimes, number_of_sample_paths
from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state.events import evict, finish, submit, withdraw
from zonewise_scheduler.quota.api.workload_types import Eviction, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Set

    from zonewise_scheduler.backfill.forecast.arrival_history import PastArrival
    from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
    from zonewise_scheduler.backfill.forecast.run_time_samples import RunTimeDraw
    from zonewise_scheduler.backfill.state.planner_state import PlannerState

MAX_WORKLOADS_SAMPLED = 1000
"""Maximum number of workloads in all sample paths together, which bounds the cost of a forecast."""
MAX_DECISIONS = 10_000
"""Maximum number of passes of a sample path; a workload that has not started by then has an unknown start."""
MAX_BOUNDED_DECISIONS = 2_000
"""The same for a sample path that must not take long. Merged events need at most about 100."""
MAX_UNMERGED = 250
"""Number of pending and running workloads up to which a sample path merges no events."""
MAX_GRAIN = 0.1
"""Time grain with four times as many workloads or more."""
MAX_RESERVATION_DEPTH = 8
"""Number of reservations of a queue that a sample path includes, earliest first. More would hardly change it."""


class SubmittedWorkload(NamedTuple):
    """A workload as it was submitted, without its name."""

    workload: Workload
    """Without history keys, so that equal workloads of different jobs share it."""
    queue: str
    """The ClusterQueue."""
    history_keys: tuple[Hashable, ...] = ()
    """See Workload."""


class StartSamples(NamedTuple):
    """The starts of a pending workload, one per sample path; infinite if it does not start within the sample path."""

    queue: str
    """The ClusterQueue."""
    starts: tuple[float, ...]
    """No start is later than `bound`."""
    bound: float = inf
    """The reserved start; infinite without a reservation."""
    begin_at: float = 0.0
    """The begin time, which no start precedes."""


class SamplePathOptions(NamedTuple):
    """Options that all sample paths of a forecast share."""

    time_grain: float = 0.0
    """Events closer together than this fraction of their time from now are merged; 0 merges none."""
    max_decisions: int = MAX_DECISIONS
    is_over: Callable[[], bool] = lambda: False
    """Return whether the time is over. Then no sample path makes another decision, and none but the first begins. A
    workload that has not started by then has an unknown start."""


EXACT = SamplePathOptions()
"""No events are merged."""


def bounded_options(state: PlannerState) -> SamplePathOptions:
    """Return the options of the live queue and of the cluster simulator, which limit the cost of a sample path.

    No events are merged up to MAX_UNMERGED pending and running workloads. Then the grain grows with their number up to
    MAX_GRAIN. With fair sharing or preemption, a pass takes several times as long, so the grain is always MAX_GRAIN.
    """
    queues = state.snapshot.cluster_queues.values()
    if state.settings.fair_sharing or any(queue.spec.preemption.preempts for queue in queues):
        return SamplePathOptions(MAX_GRAIN, MAX_BOUNDED_DECISIONS)
    share = ((len(state.pending) + len(state.running)) / MAX_UNMERGED - 1) / 3
    return SamplePathOptions(MAX_GRAIN * max(0.0, min(1.0, share)), MAX_BOUNDED_DECISIONS)


def sample_starts(
    state: PlannerState,
    now: float,
    inputs: ForecastInputs[SubmittedWorkload],
    keys: Collection[str] | None = None,
    options: SamplePathOptions = EXACT,
    numbers: Iterable[int] | None = None,
) -> dict[str, StartSamples]:
    """Return the sampled starts of pending workloads, by key; the state is not changed.

    `keys`: the workloads to sample, or None for all; a sample path ends when they have started. `numbers`: the numbers
    of the sample paths, which seed the draws, or None for as many sample paths as the number of workloads allows. The
    same arguments give the same samples. Raises KeyError if one of the keys is not pending.
    """
    queues = {key: state.pending[key] for key in (state.pending if keys is None else keys)}
    run_times = SampledRunTimes(now, _running(state, now), inputs.run_times)
    starts_by_path: list[Mapping[str, float]] = []
    for number in range(_number_of_sample_paths(state, inputs)) if numbers is None else numbers:
        if starts_by_path and options.is_over():
            break
        sample_path = _SamplePath(state, now, run_times.draw(number), inputs.arrivals.replay(now, number), options)
        starts_by_path.append(sample_path.run(queues.keys()))
    reservations = state.reservations.by_key
    bounds = {key: max(reservations[key].start, now) for key in queues if key in reservations}
    return {
        key: StartSamples(
            queue,
            tuple(min(starts.get(key, inf), bounds.get(key, inf)) for starts in starts_by_path),
            bounds.get(key, inf),
            _begin_at(state, key),
        )
        for key, queue in queues.items()
    }


def _begin_at(state: PlannerState, key: str) -> float:
    workload = state.pending_workload(key)
    return 0.0 if workload is None else workload.begin_at


def _number_of_sample_paths(state: PlannerState, inputs: ForecastInputs[SubmittedWorkload]) -> int:
    if not inputs.run_times.observed and not len(inputs.arrivals):
        return 1  # nothing is drawn, so all sample paths would be the same
    return number_of_sample_paths(len(state.pending) + len(state.running), MAX_WORKLOADS_SAMPLED)


def _running(state: PlannerState, now: float) -> Iterator[tuple[Workload, float]]:
    """Yield the running workloads with their starts."""
    for run in state.running_workloads:
        admission = run.workload.admission
        yield run.workload, now if admission is None else admission.started_at


class _SamplePath:
    """A copy of the planner's state on a virtual clock."""

    def __init__(
        self,
        state: PlannerState,
        now: float,
        draw: RunTimeDraw[Workload],
        arrivals: Iterator[PastArrival[SubmittedWorkload]],
        options: SamplePathOptions,
    ) -> None:
        self._state = state.copy(MAX_RESERVATION_DEPTH)
        self._state.reservations = QuotaReservations(self._state.reservations.by_key.values(), now, options.time_grain)
        self._known = KnownAdmissions()
        self._started_at = self._now = now
        self._draw = draw
        self._arrivals = arrivals
        self._options = options
        self._arrival = next(arrivals, None)
        self._numbers = count()
        self._known_run_times: dict[str, float] = {}
        """Run times of replayed workloads that have ended, by key."""
        self._starts: dict[str, float] = {}
        self._ends: list[tuple[float, int, str]] = []
        """Heap of ends: time, serial of the run, key. An entry is stale if its workload was preempted."""
        self._replacements = _replacements(state)
        self._job_ends: dict[str, float] = {}
        """The end of the job of each running slice that a pending one replaces."""

    def run(self, keys: Set[str]) -> Mapping[str, float]:
        """Simulate until these workloads have started or nothing more happens; return the starts by key."""
        for end, workload in self._draw.ends():
            self._push_end(workload.key, end)
        for key in list(self._state.running_workloads.stopping):
            self._preempt(key)
        not_started = set(keys)
        for _ in range(self._options.max_decisions):
            wake_at = self._schedule()
            not_started.difference_update(self._starts)
            first = self._next_event(wake_at)
            if not not_started or first == inf or self._options.is_over():
                break
            self._advance(first, first + self._options.time_grain * (first - self._started_at))
        return self._starts

    def _next_event(self, wake_at: float) -> float:
        """Return the time of the next event; infinite if no workload is running or begins later.

        None can start then.
        """
        while self._ends and not self._is_current(self._ends[0]):
            heappop(self._ends)
        if not self._ends:
            return self._state.begin_times.first
        return min(self._ends[0][0], wake_at, inf if self._arrival is None else self._arrival.time)

    def _advance(self, first: float, last: float) -> None:
        """Advance the clock; finish the workloads that end and submit those that arrive, up to `last`."""
        times: list[float] = []
        while self._ends and self._ends[0][0] <= last:
            end = heappop(self._ends)
            if self._is_current(end):
                self._finish(end[-1])
                times.append(end[0])
        while self._arrival is not None and self._arrival.time <= last:
            self._submit(self._arrival)
            times.append(self._arrival.time)
            self._arrival = next(self._arrivals, None)
        self._now = max(first, fmean(times)) if times else first

    def _submit(self, arrival: PastArrival[SubmittedWorkload]) -> None:
        """Submit a workload of an earlier week."""
        workload, queue, history_keys = arrival.subject
        name = f"~{next(self._numbers)}"  # no object has such a name
        again = replace(workload, name=name, uid=name, created_at=arrival.time, history_keys=history_keys)
        if arrival.run_time is not None:
            self._known_run_times[again.key] = arrival.run_time
        submit(self._state, again, queue)

    def _schedule(self) -> float:
        """Run passes until no workload is preempted; return when the next pass is due without any event."""
        while True:
            plan = schedule(self._state, self._now, known=self._known)
            if self._state.assumed is not None:
                self._state.assumed.clear()  # admissions are observed at once
            for workload in plan.admitted:
                self._starts.setdefault(workload.key, self._now)
                self._push_end(workload.key, self._end_of(workload))
            for victim in plan.victims:
                self._preempt(victim.workload.key)
            if not plan.victims:
                self._state.young.clear()  # they may be preempted from the next event on
                return self._state.wake_at

    def _end_of(self, workload: Workload) -> float:
        """Return the end of a workload that starts now. A slice ends with its job, which runs already."""
        if (end := self._job_ends.pop(workload.replaces, None)) is not None:
            return end
        run_time = self._known_run_times.get(workload.key)
        return self._now + (self._draw.whole(workload) if run_time is None else run_time)

    def _push_end(self, key: str, end: float) -> None:
        """Schedule the end of a workload; an end in the past happens now, since the clock does not go back."""
        if key in self._replacements:
            self._job_ends[key] = end
        if end < inf:
            heappush(self._ends, (max(end, self._now), self._state.running[key].serial, key))

    def _is_current(self, end: tuple[float, int, str]) -> bool:
        """Return whether an end belongs to a current run."""
        _, serial, key = end
        run = self._state.running.get(key)
        return run is not None and run.serial == serial

    def _finish(self, key: str) -> None:
        """End a workload. The slice that would replace it never starts, since their job has ended."""
        finish(self._state, key)
        self._job_ends.pop(key, None)
        replacement = self._replacements.get(key, "")
        if replacement in self._state.pending:
            withdraw(self._state, replacement)
            self._starts[replacement] = inf

    def _preempt(self, key: str) -> None:
        """Stop a workload at once and requeue it. A pending slice that replaces it starts its job anew instead."""
        self._job_ends.pop(key, None)
        if self._replacements.get(key, "") in self._state.pending:
            finish(self._state, key)
        else:
            evict(self._state, key, Eviction("Preempted", self._now))


def _replacements(state: PlannerState) -> dict[str, str]:
    """Return the key of the pending slice that replaces each running slice."""
    pending = filter(None, map(state.pending_workload, state.pending))
    return {each.replaces: each.key for each in pending if each.replaces in state.running}
