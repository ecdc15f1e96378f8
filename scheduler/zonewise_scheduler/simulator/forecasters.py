"""Recorders of forecasts on the virtual clock, to be compared with the true starts (simulator.accuracy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.forecast import forecast_starts
from zonewise_scheduler.backfill.pool.pool_forecast import forecast_pool
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
        self._run_times = RunTimeHistory()
        self.forecasts: dict[Job, Forecast] = {}
        """By job."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Record the forecast of a job that does not fit now."""
        if (state.available - job.request) & job.guards == job.guards:
            return
        self._pending += 1
        if self._pending % self._every == 0:
            self.forecasts[job] = forecast_pool(now, state, self._policy, self._run_times)[job]

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Ignore decisions."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        """Learn the run time of a job."""
        self._run_times.observe(job, run)


class ClusterForecaster:
    """The same over a whole cluster."""

    def __init__(self, every: int = 1) -> None:
        """Record every `every`th pending job only."""
        self._every = every
        self._pending = 0
        self._run_times = RunTimeHistory()
        self.forecasts: dict[str, tuple[float, float, float]] = {}
        """By key of the workload: earliest, likely and latest start."""

    def decided(self, planner: PlannerState, now: float, submitted: Iterable[str]) -> None:
        """Record the forecasts of submitted jobs that are pending after a decision."""
        keys: list[str] = []
        for key in submitted:
            if key in planner.pending:
                self._pending += 1
                keys += [key] if self._pending % self._every == 0 else []
        if keys:
            forecasts = forecast_starts(planner, now, self._run_times, keys, time_grain=_GRAIN)
            self.forecasts.update(
                (key, (forecast.earliest, forecast.likely, forecast.latest)) for key, forecast in forecasts.items()
            )

    def ended(self, workload: Workload, run: float) -> None:
        """Learn the run time of a job."""
        self._run_times.observe(workload, run)
