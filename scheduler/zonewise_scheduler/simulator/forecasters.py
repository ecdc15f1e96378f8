"""Forecasts on the virtual clock, to be compared with what came to be (simulate.accuracy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.forecast import forecast_starts as plan_forecasts
from zonewise_scheduler.backfill.pool.pool_forecast import forecast_pool
from zonewise_scheduler.backfill.run_time_history import RunTimeHistory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.pool.pool_forecast import PoolForecast
    from zonewise_scheduler.backfill.pool.pool_state import Job, PoolDecision, PoolPolicy, PoolState
    from zonewise_scheduler.quota.api.workload_types import Workload


_GRAIN = 0.05
"""Of time, for forecasts in a cluster (queue.plan.forecast)."""


class PoolForecaster:
    """Asks for a forecast when a job comes that has to wait, and keeps it; on one pool."""

    def __init__(self, policy: PoolPolicy, every: int = 1) -> None:
        """Forecasts cost much more than decisions; with `every`, only each so-manyth job that waits is asked about."""
        self._policy = policy
        self._every = every
        self._waiting = 0
        self._learned = RunTimeHistory()
        self.forecasts: dict[Job, PoolForecast] = {}
        """What was foretold of whom."""

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Ask about a job that does not fit now."""
        if (state.available - job.request) & job.guards == job.guards:
            return
        self._waiting += 1
        if self._waiting % self._every == 0:
            found = forecast_pool(now, state, self._policy, self._learned)
            self.forecasts[job] = next(one for one in found if one.job is job)

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Decisions say nothing of forecasts."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        """Learn."""
        self._learned.observe(job, run)


class ClusterForecaster:
    """The same over a whole cluster."""

    def __init__(self, every: int = 1) -> None:
        """With `every`, only each so-manyth job that waits is asked about."""
        self._every = every
        self._waiting = 0
        self._learned = RunTimeHistory()
        self.forecasts: dict[str, tuple[float, float, float]] = {}
        """What was foretold of whom, by key: earliest, likely and latest start."""

    def decided(self, planner: PlannerState, now: float, came: Iterable[str]) -> None:
        """Ask about those of the jobs that have just come that have to wait, after a decision."""
        asked: list[str] = []
        for key in came:
            if key in planner.pending:
                self._waiting += 1
                asked += [key] if self._waiting % self._every == 0 else []
        if asked:
            found = plan_forecasts(planner, now, self._learned, asked, time_grain=_GRAIN)
            self.forecasts.update((key, (one.earliest, one.likely, one.latest)) for key, one in found.items())

    def ended(self, workload: Workload, run: float) -> None:
        """Learn how long a job ran."""
        self._learned.observe(workload, run)
