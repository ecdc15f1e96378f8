"""A live queue with its reporter, driven step by step on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.live_queue import LiveQueue
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.metrics import ControllerMetrics
from zonewise_scheduler.controller.planning.forecaster import learning_pass
from zonewise_scheduler.controller.status.reporter import StatusReporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.model_cluster import ModelCluster
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.types import Write

Json = dict[str, Any]


class ReportedQueue:
    """A controller and its reporter on a model cluster."""

    def __init__(self, cluster: ModelCluster, now: float) -> None:
        """`now`: seconds since 1970; tick() advances the clock."""
        self.cluster = cluster
        self.now = now
        self.queue = LiveQueue(
            cluster.listed,
            cluster.send,
            now=lambda: self.now,
            nodes=cluster.node_feed(),
            run_pass=learning_pass(PlannerFeed.run_pass, lambda: self.reporter.history),
            report=lambda write, outcome: self.reporter.end_write(write, outcome, self.now),
        )
        self.metrics = ControllerMetrics(lambda: 0.0)
        self.events: list[Json] = []
        self.writes: list[Write] = []
        """Writes of statuses and notes."""
        self._submitted: list[Write] = []
        self.reporter = StatusReporter(
            self.controller, self._submitted.append, self._emit, self.metrics, lambda: 0.0, fair_sharing=False
        )
        self.metrics.export(lambda: self.reporter.snapshot)

    @property
    def controller(self) -> QueueController:
        return self.queue.controller

    def ask(self, function: Callable[[QueueController], Any], timeout: float) -> Any:
        """Call a function with the controller and return its result, as the loop does."""
        del timeout
        return function(self.controller)

    def tick(self, seconds: float = 0.0) -> None:
        """Advance the clock, then settle."""
        self.now += seconds
        self.queue.settle(self.cluster.sync_jobs)
        self.reporter.step(self.now)
        submitted, self._submitted[:] = list(self._submitted), []
        for write in submitted:
            outcome = self.cluster.send(write)
            assert outcome.result == "done", outcome
            if not self.reporter.end_write(write, outcome, self.now):
                self.controller.end_write(write, outcome, self.now)
        self.writes += submitted

    def _emit(self, write: Write) -> None:
        assert isinstance(write.body, dict)
        self.events.append(write.body)
