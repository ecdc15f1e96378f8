"""When each waiting workload is likely to start: the planner itself, played forward on a copy.

Three times: as if every workload ran only as long as the short ones of its kin, as long as the middle one, and as long
as it declares (queue.time.learned). What is decided on the way is decided by declared run times, as it will be.
Workloads that come later and overtake are not foretold, so `latest` is a promise only with a reservation.

A decision costs milliseconds, and there are as many as workloads end. Where these are many, time is played in grains:
what ends at about the same time is taken to end at the mean of these times, the more of it the further away it is.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.events import evict, finish
from zonewise_scheduler.backfill.pool.pool_state import OVERRUN_EXTENSION
from zonewise_scheduler.backfill.run_time_history import RunTimeEstimate
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.quota.api.workload_types import Eviction

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Set

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.run_time_history import RunTimeHistory

MAX_DECISIONS = 10_000
"""Decisions that are played forward at most, in each view; who has not started by then starts at an unknown time."""
MAX_RESERVATION_DEPTH = 8
"""So many reservations of a queue are played at most, those that come first: with more, the others are near enough."""
_VIEWS = len(RunTimeEstimate._fields)


class Forecast(NamedTuple):
    """Starts of a waiting workload, ascending; infinite where they depend on run times that nobody knows."""

    key: str
    earliest: float
    likely: float
    latest: float


def forecast_starts(
    planner: PlannerState,
    now: float,
    history: RunTimeHistory,
    keys: Collection[str] | None = None,
    *,
    time_grain: float = 0.0,
    max_decisions: int = MAX_DECISIONS,
) -> dict[str, Forecast]:
    """Return when waiting workloads start, by key; the planner is not changed.

    `keys`: of whom to tell, None: of all; no more is played than these take. `grain`: the part of the time
    from now on within which ends are taken together; 0: none are. `most`: so many decisions of each view. Raises
    KeyError where one of the keys does not wait.
    """
    wanted = list(planner.pending) if keys is None else [key for key in keys if planner.pending[key]]
    lengths = _Lengths(planner, now, history)
    how = _How(set(wanted), time_grain, max_decisions)
    promised = planner.reservations.by_key
    played: list[Mapping[str, float]] = []
    for view in range(_VIEWS):
        same = next((one for one in range(view) if lengths.same(one, view)), view)
        played.append(played[same] if same < view else _Play(planner, now, lengths, view).run(how))
    found: dict[str, Forecast] = {}
    for key in wanted:
        short, likely, longest = (one.get(key, inf) for one in played)
        bound = max(promised[key].start, now) if key in promised else inf
        latest = min(max(likely, longest), bound)
        found[key] = Forecast(key, min(short, likely, longest, bound), min(likely, bound), latest)
    return found


class _Lengths:
    """How long all take that wait, and when those end that run."""

    def __init__(self, planner: PlannerState, now: float, learned: RunTimeHistory) -> None:
        waiting = (planner.pending_queues[queue].heap.get(key) for key, queue in planner.pending.items())
        self.of = {one.key: learned.estimate(one) for one in waiting if one is not None}
        """Of whole runs, by key; of those that run, too, who may have to begin anew."""
        self.ends: dict[str, RunTimeEstimate] = {}
        """Of those that run."""
        for key, run in planner.running.items():
            one = run.workload
            since = now if one.admission is None else one.admission.started_at
            self.of[key] = learned.estimate(one)
            short, likely, _ = (max(since + each, now) for each in learned.estimate(one, now - since))
            self.ends[key] = RunTimeEstimate(
                short, likely, run.deadline if run.deadline > now else now + OVERRUN_EXTENSION
            )

    def same(self, one: int, other: int) -> bool:
        """Tell whether two views are the same."""
        return all(each[one] == each[other] for found in (self.of, self.ends) for each in found.values())


class _How(NamedTuple):
    """What is the same for all views: see forecasts."""

    wanted: Set[str]
    grain: float
    most: int


class _Play:
    """A planner's copy on a virtual clock."""

    def __init__(self, planner: PlannerState, now: float, lengths: _Lengths, view: int) -> None:
        self._planner = planner.copy(MAX_RESERVATION_DEPTH)
        self._began = self._now = now
        self._lengths = lengths
        self._view = view
        self._starts: dict[str, float] = {}
        self._ends: list[tuple[float, int, str]] = []
        """A heap: when, the number of the run, whose; with some left over of those that have given way."""

    def run(self, how: _How) -> Mapping[str, float]:
        """Play on until all have started that are asked for, or nothing happens any more; return the starts by key."""
        for key, ends in self._lengths.ends.items():
            self._expect(key, ends[self._view])
        for key in list(self._planner.running_workloads.stopping):
            self._give_way(key)
        left = set(how.wanted)
        for _ in range(how.most):
            wake = self._decide()
            left.difference_update(self._starts)
            first = self._next(wake)
            if not left or first == inf:
                break
            self._settle(first, first + how.grain * (first - self._began))
        return self._starts

    def _next(self, wake: float) -> float:
        """Return when something happens next; where nothing runs, who cannot start now never will."""
        while self._ends and not self._runs(self._ends[0]):
            heappop(self._ends)
        return min(self._ends[0][0], wake) if self._ends else inf

    def _settle(self, first: float, last: float) -> None:
        """Let time pass until the first event, and those end whose time is about then."""
        ends: list[float] = []
        while self._ends and self._ends[0][0] <= last:
            one = heappop(self._ends)
            if self._runs(one):
                finish(self._planner, one[-1])
                ends.append(one[0])
        self._now = max(first, fmean(ends)) if ends else first

    def _decide(self) -> float:
        """Decide, and again where some had to give way; return when to decide again though nothing happens."""
        while True:
            step = schedule(self._planner, self._now)
            for one in step.admitted:
                self._starts.setdefault(one.key, self._now)
                self._expect(one.key, self._now + self._lengths.of[one.key][self._view])
            for victim in step.victims:
                self._give_way(victim.workload.key)
            if not step.victims:
                return step.wake_at

    def _expect(self, key: str, end: float) -> None:
        if end < inf:
            heappush(self._ends, (end, self._planner.running[key].serial, key))

    def _runs(self, end: tuple[float, int, str]) -> bool:
        """Tell whether an end is still to come."""
        _, serial, key = end
        run = self._planner.running.get(key)
        return run is not None and run.serial == serial

    def _give_way(self, key: str) -> None:
        """Let a workload stop at once, and wait again."""
        evict(self._planner, key, Eviction("Preempted", self._now))
