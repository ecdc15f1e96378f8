"""One policy over whatever was read: a log on one pool by its closed form, everything else by the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zonewise_scheduler.queue.time.policies import policy_of
from zonewise_scheduler.simulate.clock import simulate
from zonewise_scheduler.simulate.cluster import simulate_cluster
from zonewise_scheduler.simulate.foresight import Foresight, PlanForesight
from zonewise_scheduler.simulate.latency import NO_LATENCY
from zonewise_scheduler.simulate.logged import history_of
from zonewise_scheduler.simulate.promises import Promises
from zonewise_scheduler.simulate.scenario import Scenario
from zonewise_scheduler.simulate.workload import COLUMNS, PROCESSORS, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.queue.time.rules import Rules
    from zonewise_scheduler.queue.time.state import Decision, Job, State
    from zonewise_scheduler.simulate.clock import Watcher
    from zonewise_scheduler.simulate.history import History
    from zonewise_scheduler.simulate.latency import Latency
    from zonewise_scheduler.simulate.swf import Log

Progress: TypeAlias = "Callable[[int, int, float], None]"
"""Is told now and then how many jobs have ended, of how many, and the simulated time."""

_NEWS = 16
"""Jobs that end between two words of progress."""


class How(NamedTuple):
    """What holds for every policy."""

    exact: bool = False
    """In a log, each job declares just the run time that it has."""
    forecast_every: int = 0
    """Each so-manyth job that waits is foretold its start; 0: none is."""
    latency: Latency = NO_LATENCY
    """On a cluster."""


def play(given: Log | Scenario, rules: Rules, how: How, progress: Progress | None = None) -> History:
    """Return what happens under these rules; a log must say how many processors there are."""
    if isinstance(given, Scenario):
        foretold = PlanForesight(how.forecast_every) if how.forecast_every else None
        return simulate_cluster(given, rules, how.latency, progress, foretold)
    tasks = tasks_of(given.jobs, exact=how.exact)
    capacity = COLUMNS.room({PROCESSORS: given.processors or 0})
    policy = policy_of(rules)
    promises = Promises(policy)
    foresight = Foresight(policy, how.forecast_every) if how.forecast_every else None
    watchers: list[Watcher] = [promises] if rules.reserves else []
    watchers += [foresight] if foresight is not None else []
    watchers += [_Counting(progress, len(tasks))] if progress is not None else []
    outcome = simulate(tasks, capacity, policy, _together(watchers))
    told = {} if foresight is None else foresight.told
    return history_of(outcome, COLUMNS, capacity, told, promises.made)


def _together(watchers: Sequence[Watcher]) -> Watcher | None:
    """Return several watchers as one."""
    if len(watchers) > 1:
        return _Together(watchers)
    return watchers[0] if watchers else None


class _Together:
    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def arrived(self, now: float, state: State, job: Job) -> None:
        for one in self._watchers:
            one.arrived(now, state, job)

    def decided(self, now: float, state: State, decision: Decision) -> None:
        for one in self._watchers:
            one.decided(now, state, decision)

    def ended(self, now: float, job: Job, run: float) -> None:
        for one in self._watchers:
            one.ended(now, job, run)


class _Counting:
    """Tells of the jobs that end."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def arrived(self, now: float, state: State, job: Job) -> None:
        """Arrivals are no progress."""

    def decided(self, now: float, state: State, decision: Decision) -> None:
        """Neither are decisions."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        self._done += 1
        if self._done % _NEWS == 1:
            self._progress(self._done, self._total, now)
