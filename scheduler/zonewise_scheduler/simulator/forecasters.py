"""Recorders of forecasts on the virtual clock, for comparison with the true starts (simulator.accuracy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.forecast.arrival_history import ArrivalHistory
from zonewise_scheduler.backfill.forecast.calibration import ForecastCalibration
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.forecast.sample_paths import bounded_options, sample_starts
from zonewise_scheduler.backfill.pool import pool_forecast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolPolicy, PoolState
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.quota.api.workload_types import Workload


class PoolForecaster:
    """Records a forecast for each submitted job that is pending, on one pool."""

    def __init__(self, policy: PoolPolicy, every: int = 1) -> None:
        """Record only every `every`th pending job, since forecasts cost much more than decisions."""
        self._policy = policy
        self._every = every
        self._pending = 0
        self._inputs: ForecastInputs[Job] = ForecastInputs(RunTimeHistory(), ArrivalHistory())
        self._calibration = ForecastCalibration()
        self.forecasts: dict[Job, Forecast] = {}
        """Forecasts by job."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Record the forecast of a job that does not fit now."""
        self._inputs.arrivals.observe(job, job, now)
        if state.fits_available(job):
            return
        self._pending += 1
        if self._pending % self._every == 0:
            starts = pool_forecast.sample_starts(now, state, self._policy, self._inputs, [job])[job]
            self.forecasts[job] = self._calibration.forecast(job, job.history_keys[1:2], now, starts)

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:  # noqa: ARG002 -- a watcher's
        """Score the forecasts of jobs that start."""
        for job in decision.starts:
            self._calibration.started(job, now)

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        """Learn the run time of a job."""
        self._inputs.run_times.observe(job, run)
        self._inputs.arrivals.observe_end(job, run)


class ClusterForecaster:
    """Records a forecast for each submitted job that is pending, on a whole cluster."""

    def __init__(self, every: int = 1) -> None:
        """Record only every `every`th pending job."""
        self._every = every
        self._pending = 0
        self._history = ForecastHistory()
        self.forecasts: dict[str, Forecast] = {}
        """Forecasts by workload key."""

    def decided(
        self, planner: PlannerState, now: float, admitted: Iterable[Workload], submitted: Iterable[str]
    ) -> None:
        """Learn from workloads that a pass has admitted; record the forecasts of submitted jobs that are pending."""
        self._history.admitted(admitted, now)
        keys: list[str] = []
        for key in submitted:
            if key in planner.pending:
                self._pending += 1
                keys += [key] if self._pending % self._every == 0 else []
        if keys:
            samples = sample_starts(planner, now, self._history.inputs, keys, bounded_options(planner))
            self.forecasts |= self._history.forecasts(now, samples, planner.pending)

    def ended(self, workload: Workload, run: float) -> None:
        """Learn the run time of a job."""
        self._history.ended(workload, run)
