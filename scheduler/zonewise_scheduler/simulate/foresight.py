"""How far forecasts were from what came to be."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.time.forecast import Forecast, forecasts
from zonewise_scheduler.queue.time.learned import RunTimes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.time.state import Decision, Job, Policy, State


class ForecastError(NamedTuple):
    """Of jobs that waited, as foretold when they came; seconds."""

    jobs: int
    unknown: int
    """Those of which nothing could be foretold."""
    mean: float
    """Between the likely start and the true one."""
    median: float
    declared_mean: float
    """Between the start by declared run times and the true one, for comparison."""
    within: float
    """The share that started between the earliest and the latest."""


class Foresight:
    """Asks for a forecast when a job comes that has to wait, and keeps it until the truth is known."""

    def __init__(self, policy: Policy, every: int = 1) -> None:
        """Forecasts cost much more than decisions; with `every`, only each so-manyth job that waits is asked about."""
        self._policy = policy
        self._every = every
        self._waiting = 0
        self._learned = RunTimes()
        self._told: dict[Job, Forecast] = {}

    def arrived(self, now: float, state: State, job: Job) -> None:
        """Ask about a job that does not fit now."""
        if (state.room - job.demand) & job.guards == job.guards:
            return
        self._waiting += 1
        if self._waiting % self._every == 0:
            found = forecasts(now, state, self._policy, self._learned)
            self._told[job] = next(one for one in found if one.job is job)

    def decided(self, now: float, state: State, decision: Decision) -> None:
        """Decisions say nothing of forecasts."""

    def ended(self, now: float, job: Job, run: float) -> None:  # noqa: ARG002 -- a watcher's
        """Learn."""
        self._learned.observe(job, run)

    def error(self, starts: Mapping[Job, float]) -> ForecastError:
        """Compare with the true starts."""
        told = [(one, starts[job]) for job, one in self._told.items()]
        known = [(one, start) for one, start in told if one.latest < inf]
        if not known:
            return ForecastError(len(told), len(told), 0, 0, 0, 0)
        likely = np.array([abs(one.likely - start) for one, start in known])
        declared = np.array([abs(one.latest - start) for one, start in known])
        within = sum(one.earliest <= start <= one.latest for one, start in known) / len(known)
        unknown = len(told) - len(known)
        return ForecastError(
            len(told), unknown, float(likely.mean()), float(np.median(likely)), float(declared.mean()), within
        )
