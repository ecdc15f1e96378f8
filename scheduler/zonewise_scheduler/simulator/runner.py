"""One policy over whatever was read: a log on one pool by its closed form, everything else by the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zonewise_scheduler.backfill.pool.pool_policies import pool_policy
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.forecasters import ClusterForecaster, PoolForecaster
from zonewise_scheduler.simulator.latency import NO_LATENCY
from zonewise_scheduler.simulator.pool_history import build_pool_history
from zonewise_scheduler.simulator.pool_simulation import simulate_pool
from zonewise_scheduler.simulator.pool_tasks import COLUMNS, PROCESSORS, build_tasks
from zonewise_scheduler.simulator.reservations import ReservationRecorder
from zonewise_scheduler.simulator.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision, PoolState
    from zonewise_scheduler.simulator.history import History
    from zonewise_scheduler.simulator.latency import Latency
    from zonewise_scheduler.simulator.pool_simulation import PoolObserver
    from zonewise_scheduler.simulator.swf import SwfLog

ProgressCallback: TypeAlias = "Callable[[int, int, float], None]"
"""Is told now and then how many jobs have ended, of how many, and the simulated time."""

_PROGRESS_INTERVAL = 16
"""Jobs that end between two words of progress."""


class RunOptions(NamedTuple):
    """What holds for every policy."""

    exact: bool = False
    """In a log, each job declares just the run time that it has."""
    forecast_every: int = 0
    """Each so-manyth job that waits is foretold its start; 0: none is."""
    latency: Latency = NO_LATENCY
    """On a cluster."""


def run_policy(
    source: SwfLog | Scenario, rules: BackfillPolicy, options: RunOptions, progress: ProgressCallback | None = None
) -> History:
    """Return what happens under these rules; a log must say how many processors there are."""
    if isinstance(source, Scenario):
        foretold = ClusterForecaster(options.forecast_every) if options.forecast_every else None
        return simulate_cluster(source, rules, options.latency, progress, foretold)
    tasks = build_tasks(source.jobs, exact=options.exact)
    capacity = COLUMNS.pack_available({PROCESSORS: source.processors or 0})
    policy = pool_policy(rules)
    promises = ReservationRecorder(policy)
    foresight = PoolForecaster(policy, options.forecast_every) if options.forecast_every else None
    watchers: list[PoolObserver] = [promises] if rules.reserves else []
    watchers += [foresight] if foresight is not None else []
    watchers += [_ProgressObserver(progress, len(tasks))] if progress is not None else []
    outcome = simulate_pool(tasks, capacity, policy, _combine(watchers))
    told = {} if foresight is None else foresight.forecasts
    return build_pool_history(outcome, COLUMNS, capacity, told, promises.first_reservations)


def _combine(watchers: Sequence[PoolObserver]) -> PoolObserver | None:
    """Return several watchers as one."""
    if len(watchers) > 1:
        return _ObserverGroup(watchers)
    return watchers[0] if watchers else None


class _ObserverGroup:
    def __init__(self, watchers: Sequence[PoolObserver]) -> None:
        self._watchers = watchers

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        for one in self._watchers:
            one.arrived(now, state, job)

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        for one in self._watchers:
            one.decided(now, state, decision)

    def ended(self, now: float, job: Job, run: float) -> None:
        for one in self._watchers:
            one.ended(now, job, run)


class _ProgressObserver:
    """Tells of the jobs that end."""

    def __init__(self, progress: ProgressCallback, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Arrivals are no progress."""

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Neither are decisions."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        self._done += 1
        if self._done % _PROGRESS_INTERVAL == 1:
            self._progress(self._done, self._total, now)
