"""Recorders of forecasts on the virtual clock, to be compared with the true starts (simulator.accuracy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.forecast import forecast_starts
from zonewise_scheduler.backfill.forecast_calibration import ForecastCalibration
from zonewise_scheduler.backfill.pool.pool_forecast import new_history, sample_starts
from zonewise_scheduler.backfill.run_time_history import RunTimeHistory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision, PoolPolicy, PoolState
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.quota.api.workload_types import Workload


_GRAIN = 0.05
"""Relative grain of time of forecasts in a cluster (backfill.forecast)."""


class PoolForecaster:
    """Records a forecast for each submitted job that is pending; on one pool."""

    def __init__(self, policy: PoolPolicy, every: int = 1) -> None:
        """Record every `every`th pending job only: forecasts cost much more than decisions."""
        self._policy = policy
        self._every = every
        self._pending = 0
        self._history = new_history()
        self._calibration = ForecastCalibration()
        self.forecasts: dict[Job, Forecast] = {}
        """By job."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Record the forecast of a job that does not fit now."""
        self._history.arrivals.observe(job, now)
        if (state.available - job.request) & job.guards == job.guards:
            return
        self._pending += 1
        if self._pending % self._every == 0:
            starts = sample_starts(now, state, self._policy, self._history, [job])[job]
            self.forecasts[job] = self._calibration.forecast(job, job.history_keys[1:2], now, starts)

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:  # noqa: ARG002 -- a watcher's
        """Score the forecasts of jobs that start."""
        for job in decision.starts:
            self._calibration.started(job, now)

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        """Learn the run time of a job."""
        self._history.run_times.observe(job, run)
        self._history.arrivals.observe_end(job, run)


class ClusterForecaster:
    """The same over a whole cluster."""

    def __init__(self, every: int = 1) -> None:
        """Record every `every`th pending job only."""
        self._every = every
        self._pending = 0
        self._run_times = RunTimeHistory()
        self._calibration = ForecastCalibration()
        self._open: dict[str, None] = {}
        """Keys of the workloads with a forecast that have not started."""
        self.forecasts: dict[str, Forecast] = {}
        """By key of the workload."""

    def decided(self, planner: PlannerState, now: float, submitted: Iterable[str]) -> None:
        """Score the forecasts of workloads that have started; record those of submitted jobs that are pending."""
        for key in [key for key in self._open if key in planner.running]:
            del self._open[key]
            self._calibration.started(key, now)
        keys: list[str] = []
        for key in submitted:
            if key in planner.pending:
                self._pending += 1
                keys += [key] if self._pending % self._every == 0 else []
        if keys:
            played = forecast_starts(planner, now, self._run_times, keys, time_grain=_GRAIN)
            for key, starts in played.items():
                self.forecasts[key] = self._calibration.forecast(key, planner.pending[key], now, starts)
                self._open[key] = None

    def ended(self, workload: Workload, run: float) -> None:
        """Learn the run time of a job."""
        self._run_times.observe(workload, run)
