"""Forecasts of starts: the planner itself, played forward on a copy of its state.

It is played three times. Every workload runs as long as the short ones of its group did, as long as the median one, or
for its walltime (run_time_history.py). The passes on the way decide by walltimes, as they always do. Workloads that
arrive later are ignored, so `latest` is an upper bound only for a workload with a reservation.

A pass takes milliseconds, and there are as many passes as workloads that end. A time grain merges ends: workloads that
end at about the same time all end at the mean of these times. The further away that is, the more ends are merged.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.events import evict, finish
from zonewise_scheduler.backfill.policies import OVERRUN_EXTENSION
from zonewise_scheduler.backfill.run_time_history import RunTimeEstimate
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.quota.api.workload_types import Eviction

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Set

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.run_time_history import RunTimeHistory

MAX_DECISIONS = 10_000
"""Passes of each play; a workload that has not started by then has an unknown start."""
MAX_RESERVATION_DEPTH = 8
"""Reservations of a queue that are played, the earliest first. More change the forecast little."""
_PLAYS = len(RunTimeEstimate._fields)


def forecast_starts(
    state: PlannerState,
    now: float,
    history: RunTimeHistory,
    keys: Collection[str] | None = None,
    *,
    time_grain: float = 0.0,
    max_decisions: int = MAX_DECISIONS,
) -> dict[str, Forecast]:
    """Return the predicted starts of pending workloads, by key; the state is not changed.

    `keys`: of these workloads, None: of all; the play ends when they have started. `time_grain`: ends within this
    fraction of the time from now on are merged; 0: none are. Raises KeyError if one of the keys is not pending.
    """
    forecast_keys = list(state.pending) if keys is None else [key for key in keys if state.pending[key]]
    run_times = _RunTimes(state, now, history)
    options = _Options(set(forecast_keys), time_grain, max_decisions)
    starts_by_play: list[Mapping[str, float]] = []
    for play in range(_PLAYS):
        equal = next((earlier for earlier in range(play) if run_times.equal(earlier, play)), play)
        starts_by_play.append(
            starts_by_play[equal] if equal < play else _Play(state, now, run_times, play).run(options)
        )
    reservations = state.reservations.by_key
    forecasts: dict[str, Forecast] = {}
    for key in forecast_keys:
        short, likely, longest = (starts.get(key, inf) for starts in starts_by_play)
        bound = max(reservations[key].start, now) if key in reservations else inf
        latest = min(max(likely, longest), bound)
        forecasts[key] = Forecast(min(short, likely, longest, bound), min(likely, bound), latest)
    return forecasts


class _RunTimes:
    """The predicted run times of all workloads, and the predicted ends of the running ones."""

    def __init__(self, state: PlannerState, now: float, history: RunTimeHistory) -> None:
        pending = map(state.pending_workload, state.pending)
        self.by_key = {workload.key: history.estimate(workload) for workload in pending if workload is not None}
        """Whole run times; also of running workloads, which may be preempted and start again."""
        self.ends: dict[str, RunTimeEstimate] = {}
        """When running workloads end, by key."""
        for key, run in state.running.items():
            workload = run.workload
            started_at = now if workload.admission is None else workload.admission.started_at
            self.by_key[key] = history.estimate(workload)
            rest = history.estimate(workload, now - started_at)
            short, likely, _ = (max(started_at + run_time, now) for run_time in rest)
            deadline = run.deadline if run.deadline > now else now + OVERRUN_EXTENSION
            self.ends[key] = RunTimeEstimate(short, likely, deadline)

    def equal(self, play: int, other: int) -> bool:
        """Return whether two plays have the same run times."""
        return all(
            estimate[play] == estimate[other]
            for estimates in (self.by_key, self.ends)
            for estimate in estimates.values()
        )


class _Options(NamedTuple):
    """The arguments that all plays share; see forecast_starts."""

    keys: Set[str]
    time_grain: float
    max_decisions: int


class _Play:
    """A copy of the planner's state on a virtual clock."""

    def __init__(self, state: PlannerState, now: float, run_times: _RunTimes, play: int) -> None:
        self._state = state.copy(MAX_RESERVATION_DEPTH)
        self._started_at = self._now = now
        self._run_times = run_times
        self._play = play
        self._starts: dict[str, float] = {}
        self._ends: list[tuple[float, int, str]] = []
        """A heap of ends: time, serial of the run, key; stale where a workload was preempted."""

    def run(self, options: _Options) -> Mapping[str, float]:
        """Play until the workloads have started or nothing more happens; return the starts by key."""
        for key, ends in self._run_times.ends.items():
            self._push_end(key, ends[self._play])
        for key in list(self._state.running_workloads.stopping):
            self._preempt(key)
        not_started = set(options.keys)
        for _ in range(options.max_decisions):
            wake_at = self._schedule()
            not_started.difference_update(self._starts)
            first = self._next_event(wake_at)
            if not not_started or first == inf:
                break
            self._advance(first, first + options.time_grain * (first - self._started_at))
        return self._starts

    def _next_event(self, wake_at: float) -> float:
        """Return when something happens next; infinite if no workload runs, since then none can start any more."""
        while self._ends and not self._is_current(self._ends[0]):
            heappop(self._ends)
        return min(self._ends[0][0], wake_at) if self._ends else inf

    def _advance(self, first: float, last: float) -> None:
        """Move the clock to the first event, and finish the workloads that end until `last`."""
        ends: list[float] = []
        while self._ends and self._ends[0][0] <= last:
            end = heappop(self._ends)
            if self._is_current(end):
                finish(self._state, end[-1])
                ends.append(end[0])
        self._now = max(first, fmean(ends)) if ends else first

    def _schedule(self) -> float:
        """Run passes until no workload is preempted; return when the next pass is due without any event."""
        while True:
            plan = schedule(self._state, self._now)
            if self._state.assumed is not None:
                self._state.assumed.clear()  # admissions are observed at once
            for workload in plan.admitted:
                self._starts.setdefault(workload.key, self._now)
                self._push_end(workload.key, self._now + self._run_times.by_key[workload.key][self._play])
            for victim in plan.victims:
                self._preempt(victim.workload.key)
            if not plan.victims:
                return plan.wake_at

    def _push_end(self, key: str, end: float) -> None:
        if end < inf:
            heappush(self._ends, (end, self._state.running[key].serial, key))

    def _is_current(self, end: tuple[float, int, str]) -> bool:
        """Return whether an end belongs to a run that lasts."""
        _, serial, key = end
        run = self._state.running.get(key)
        return run is not None and run.serial == serial

    def _preempt(self, key: str) -> None:
        """Stop a workload at once; it is pending again."""
        evict(self._state, key, Eviction("Preempted", self._now))
