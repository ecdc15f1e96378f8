"""Forecasts on the virtual clock, to be compared with what came to be (simulate.accuracy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.time.forecast import forecasts
from zonewise_scheduler.queue.time.learned import RunTimes

if TYPE_CHECKING:
    from zonewise_scheduler.queue.time.forecast import Forecast
    from zonewise_scheduler.queue.time.state import Decision, Job, Policy, State


class Foresight:
    """Asks for a forecast when a job comes that has to wait, and keeps it."""

    def __init__(self, policy: Policy, every: int = 1) -> None:
        """Forecasts cost much more than decisions; with `every`, only each so-manyth job that waits is asked about."""
        self._policy = policy
        self._every = every
        self._waiting = 0
        self._learned = RunTimes()
        self.told: dict[Job, Forecast] = {}
        """What was foretold of whom."""

    def arrived(self, now: float, state: State, job: Job) -> None:
        """Ask about a job that does not fit now."""
        if (state.room - job.demand) & job.guards == job.guards:
            return
        self._waiting += 1
        if self._waiting % self._every == 0:
            found = forecasts(now, state, self._policy, self._learned)
            self.told[job] = next(one for one in found if one.job is job)

    def decided(self, now: float, state: State, decision: Decision) -> None:
        """Decisions say nothing of forecasts."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        """Learn."""
        self._learned.observe(job, run)
