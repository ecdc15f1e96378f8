"""Runs one policy over a trace: a log on one pool with the closed form, any other trace with the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zonewise_scheduler.backfill.pool.pool_policies import pool_policy
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.forecasters import ClusterForecaster, PoolForecaster
from zonewise_scheduler.simulator.history import History
from zonewise_scheduler.simulator.latency import NO_LATENCY
from zonewise_scheduler.simulator.number_column import NumberColumn
from zonewise_scheduler.simulator.pool_log import COLUMNS, PROCESSORS, LogHistory, build_tasks
from zonewise_scheduler.simulator.pool_simulation import stream_pool
from zonewise_scheduler.simulator.reservations import ReservationRecorder
from zonewise_scheduler.simulator.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolState
    from zonewise_scheduler.simulator.latency import Latency
    from zonewise_scheduler.simulator.pool_simulation import PoolObserver
    from zonewise_scheduler.simulator.swf import SwfLog

ProgressCallback: TypeAlias = "Callable[[int, int, float], None]"
"""Called periodically with the number of ended jobs, the number of all jobs, and the simulated time."""

_PROGRESS_INTERVAL = 16
"""Number of jobs that end between two progress calls."""


class RunOptions(NamedTuple):
    """Options that apply to every policy."""

    exact: bool = False
    """Whether each job of a log declares its true run time."""
    forecast_every: int = 0
    """n: every nth pending job has a forecast; 0: no job has one."""
    latency: Latency = NO_LATENCY
    """Delays of a cluster."""


def run_policy(
    source: SwfLog | Scenario, policy: BackfillPolicy, options: RunOptions, progress: ProgressCallback | None = None
) -> History:
    """Return the history of a trace under a policy; a log must have its number of processors."""
    if isinstance(source, Scenario):
        forecaster = ClusterForecaster(options.forecast_every) if options.forecast_every else None
        return simulate_cluster(source, policy, options.latency, progress, forecaster)
    tasks = build_tasks(source.jobs, exact=options.exact)
    capacity = COLUMNS.pack_available({PROCESSORS: source.processors or 0})
    decider = pool_policy(policy)
    recorder = ReservationRecorder(decider)
    forecaster = PoolForecaster(decider, options.forecast_every) if options.forecast_every else None
    observers: list[PoolObserver] = [recorder] if policy.reserves else []
    observers += [forecaster] if forecaster is not None else []
    observers += [_ProgressObserver(progress, len(tasks))] if progress is not None else []
    starts = NumberColumn()
    cost = stream_pool(
        tasks, capacity, decider, lambda job, now: starts.__setitem__(job.serial, now), _combine(observers)
    )
    forecasts = {} if forecaster is None else {job.serial: known for job, known in forecaster.forecasts.items()}
    jobs = LogHistory(tasks, starts, recorder.first_reservations, forecasts)
    return History(jobs, COLUMNS.unpack_available(capacity), *cost)


def _combine(observers: Sequence[PoolObserver]) -> PoolObserver | None:
    """Combine several observers into one."""
    if len(observers) > 1:
        return _ObserverGroup(observers)
    return observers[0] if observers else None


class _ObserverGroup:
    def __init__(self, observers: Sequence[PoolObserver]) -> None:
        self._observers = observers

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        for observer in self._observers:
            observer.arrived(now, state, job)

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        for observer in self._observers:
            observer.decided(now, state, decision)

    def ended(self, now: float, job: Job, run: float) -> None:
        for observer in self._observers:
            observer.ended(now, job, run)


class _ProgressObserver:
    """Reports the number of ended jobs."""

    def __init__(self, progress: ProgressCallback, total: int) -> None:
        self._progress = progress
        self._total = total
        self._ended = 0

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Ignore submissions."""

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Ignore decisions."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        self._ended += 1
        if self._ended % _PROGRESS_INTERVAL == 1:
            self._progress(self._ended, self._total, now)
