"""The live queue and the simulator share the forecast code: the same history gives the same forecasts."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.model_cluster import ModelCluster
from support.reported_queue import ReportedQueue
from support.scenarios import scenario
from zonewise_scheduler.backfill.forecast import arrival_history, sample_paths
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.backfill.forecast.run_time_samples import MIN_SAMPLES
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.controller.planning.checkpoint_object import (
    encode_checkpoint,
    encode_forecasts,
    read_forecasts,
    write_config_map,
)
from zonewise_scheduler.controller.planning.forecaster import SampledForecast, copy_basis, sample_basis
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.forecasters import ClusterForecaster
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.controller.types import ObjectKey
    from zonewise_scheduler.quota.api.workload_types import Workload

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z, when the jobs are created
SPAN = 720
"""Seconds during which jobs are submitted."""
DAY = 200.0
"""Seconds of a day in these tests, after which submissions are replayed."""


class LiveJob(NamedTuple):
    key: ObjectKey
    run_time: int


class LiveForecasts:
    """A live queue on a virtual clock, with a forecast after each change."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.reported = ReportedQueue(ModelCluster(), NOW)
        self.jobs: list[LiveJob] = []
        self.workloads: dict[str, Workload] = {}
        """The workloads as submitted, by key."""
        self.forecasts: dict[str, Forecast] = {}
        """The first forecast of each workload, by key."""
        self.starts: dict[str, float] = {}

    def play(self, restart_at: float = inf) -> None:
        """Submit jobs at random and end each after its run time; restart the controller at the given time."""
        submissions = list(range(0, SPAN, 16))
        running: dict[str, LiveJob] = {}
        while submissions or running:
            ends = {key: self.starts[key] + job.run_time for key, job in running.items()}
            now = min([*ends.values(), *(NOW + at for at in submissions[:1])])
            if now >= NOW + restart_at:
                self.restart()
                restart_at = inf
            for key, end in ends.items():
                if end == now:
                    self.reported.cluster.complete(running.pop(key).key)
            submitted = bool(submissions) and now == NOW + submissions[0]
            if submitted:
                self.submit(submissions.pop(0))
            self.reported.tick(now - self.reported.now)
            self.observe(now, running)
            if submitted:
                self.forecast(now)

    def submit(self, at: int) -> None:
        kind = self.random.choice(("short", "long", "wide"))
        cpus, limit = {"short": (2, 60), "long": (3, 300), "wide": (8, 40)}[kind]
        self.reported.cluster.created = f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"  # creation time of the Workload
        key = self.reported.cluster.submit(f"{kind}-{at}", cpus, at=at)
        self.reported.cluster.change(key, {"spec": {"activeDeadlineSeconds": limit}})
        self.jobs.append(LiveJob(key, self.random.randint(limit // 8, limit // 3)))

    def observe(self, now: float, running: dict[str, LiveJob]) -> None:
        state = self.reported.controller.feed.state
        for key, run in state.running.items():
            if key not in self.starts and run.workload.admission is not None:
                self.starts[key] = now
                running[key] = self.job_of(key)
            self.workloads.setdefault(key, run.workload)
        for key in state.pending:
            if (workload := state.pending_workload(key)) is not None:
                self.workloads.setdefault(key, workload)

    def forecast(self, now: float) -> None:
        reporter = self.reported.reporter
        basis = copy_basis(self.reported.controller.feed.state, reporter.history, now)
        played = sample_basis(basis._replace(numbers=range(MIN_SAMPLES)))
        reporter.publish_forecasts(SampledForecast(now, played))
        for key, forecast in reporter.forecasts.items():
            self.forecasts.setdefault(key, forecast)

    def restart(self) -> None:
        """Replace the learned state by what a checkpoint stores of it."""
        reporter = self.reported.reporter
        encoded = encode_checkpoint({"reservations": [], "usage": {}})
        config_map = write_config_map("ns", encoded, encode_forecasts(reporter.history))
        restored = read_forecasts(config_map)
        assert restored is not None
        reporter.history = restored

    def job_of(self, key: str) -> LiveJob:
        return next(job for job in self.jobs if f"/job-{job.key.name}-" in key)


class Forgetful(LiveForecasts):
    """A live queue whose restart has no checkpoint."""

    def restart(self) -> None:
        self.reported.reporter.history = ForecastHistory()


@pytest.fixture(autouse=True)
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_history, "DAY", DAY)
    monkeypatch.setattr(arrival_history, "WEEK", 2 * DAY)


@pytest.fixture(autouse=True)
def few_sample_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each forecast to the fewest sample paths, as in a large queue."""
    monkeypatch.setattr(sample_paths, "MAX_WORKLOADS_SAMPLED", 1)


def simulated(live: LiveForecasts) -> dict[str, Forecast]:
    """Return the forecasts of the simulator for the jobs of a live queue."""
    recorder = ClusterForecaster()
    arrivals = [
        Arrival(replace(workload, admission=None), "q", live.job_of(key).run_time)
        for key, workload in live.workloads.items()
    ]
    spec = live.reported.controller.feed.state.snapshot.cluster_queues["q"].spec
    played = scenario(*arrivals)._replace(queues=(spec,))
    simulate_cluster(played, BackfillPolicy(), forecaster=recorder)
    return recorder.forecasts


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_same_history_has_the_same_forecasts(seed: int) -> None:
    live = LiveForecasts(seed)
    live.play()
    forecasts = simulated(live)
    assert len(forecasts) > 25
    assert any(forecast.earliest < forecast.likely < forecast.latest for forecast in forecasts.values())
    assert live.forecasts == forecasts


def test_the_learned_state_survives_a_restart() -> None:
    """Later forecasts equal those without a restart, up to rounding in the checkpoint, and so does their coverage."""
    alone, restarted, forgetful = LiveForecasts(5), LiveForecasts(5), Forgetful(5)
    for live in (alone, restarted, forgetful):
        live.play(inf if live is alone else SPAN / 2)
    assert restarted.starts == forgetful.starts == alone.starts
    assert restarted.forecasts.keys() == alone.forecasts.keys()
    for key, forecast in alone.forecasts.items():
        assert restarted.forecasts[key] == pytest.approx(forecast, rel=0, abs=2)
    assert forgetful.forecasts != alone.forecasts
