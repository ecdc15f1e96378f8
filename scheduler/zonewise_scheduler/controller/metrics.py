"""Prometheus metrics of the live queue.

Metrics with the prefix `kueue_` have the same meaning as in Kueue (pkg/metrics/metrics.go), so that its dashboards and
alerts work. They lack the labels priority_class and replica_role. All others have the prefix `zonewise_`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from zonewise_common import __version__
from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.snapshot_metrics import SnapshotCollector
from zonewise_scheduler.controller.workloads.admission_checks import checks_of
from zonewise_scheduler.controller.workloads.conditions import condition_time, find_condition, is_true
from zonewise_scheduler.controller.workloads.slices import REPLACED
from zonewise_scheduler.controller.workloads.status import DEACTIVATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.backfill.reservations.timeline import RunningWorkload
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Forecast, Plan
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.status.reporter import ControllerSnapshot
    from zonewise_scheduler.controller.types import Json, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

_WAIT_BUCKETS = (1, *(2.5 * 2**i for i in range(13)))
"""Bucket bounds in seconds, equal to Kueue's generateExponentialBuckets(14)."""
_PASS_BUCKETS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 5.0, 10.0, 30.0)
_ERROR_BUCKETS = (-86400, -28800, -3600, -600, -60, -1, 1, 60, 600, 3600, 28800, 86400)
"""Bucket bounds in seconds; below 0: earlier than predicted."""


class ControllerMetrics:
    """Counts the controller's actions. Its methods, except count_attempt, are called in the controller's thread."""

    def __init__(self, timer: Callable[[], float]) -> None:
        """Create the metrics; `timer` returns seconds."""
        self.registry = registry = CollectorRegistry()
        self._timer = timer
        self._reserved: dict[str, float] = {}
        """First reserved start of each pending workload."""
        self._forecast: dict[str, float] = {}
        """First forecast of the likely start of each pending workload."""
        self._queues: frozenset[str] = frozenset()
        """The ClusterQueues that may have series."""
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        Info("zonewise_build", "Version of the controller.", registry=registry).info({"version": __version__})
        self.settings = Info("zonewise_settings", "Hash of the settings in force.", registry=registry)
        self._attempts = _counter(self, "kueue_admission_attempts", "Scheduling passes, by result.", "result")
        self._attempt_seconds = _histogram(self, "kueue_admission_attempt_duration_seconds",
                                           "Duration of the scheduling passes.", _PASS_BUCKETS, "result")  # fmt: skip
        self._reservations = _counter(self, "kueue_quota_reserved_workloads", "Workloads that reserved quota.",
                                      "cluster_queue")  # fmt: skip
        self._reserved_wait = _histogram(
            self, "kueue_quota_reserved_wait_time_seconds",
            "Time from the creation or the last eviction of a workload to its quota reservation.",
            _WAIT_BUCKETS, "cluster_queue",
        )  # fmt: skip
        self._admissions = _counter(self, "kueue_admitted_workloads", "Workloads that were admitted.", "cluster_queue")
        self._admission_wait = _histogram(
            self, "kueue_admission_wait_time_seconds",
            "Time from the creation or the last eviction of a workload to its admission.",
            _WAIT_BUCKETS, "cluster_queue",
        )  # fmt: skip
        self._checks_wait = _histogram(
            self, "kueue_admission_checks_wait_time_seconds",
            "Time from the quota reservation of a workload with admission checks to its admission.",
            _WAIT_BUCKETS, "cluster_queue",
        )  # fmt: skip
        self._ready_wait = _histogram(
            self, "kueue_ready_wait_time_seconds",
            "Time from the creation or the last eviction of a workload until its pods are ready.",
            _WAIT_BUCKETS, "cluster_queue",
        )  # fmt: skip
        self._admitted_until_ready = _histogram(
            self, "kueue_admitted_until_ready_wait_time_seconds",
            "Time from the admission of a workload until its pods are ready.", _WAIT_BUCKETS, "cluster_queue",
        )  # fmt: skip
        self._evictions = _counter(self, "kueue_evicted_workloads", "Workloads that were evicted.", "cluster_queue",
                                   "reason", "underlying_cause")  # fmt: skip
        self._eviction_latency = _histogram(
            self, "kueue_workload_eviction_latency_seconds",
            "Time from the eviction of a workload until its quota is free.", _WAIT_BUCKETS, "cluster_queue", "reason",
        )  # fmt: skip
        self._preemptions = _counter(self, "kueue_preempted_workloads", "Workloads that were chosen as victims.",
                                     "preempting_cluster_queue", "reason")  # fmt: skip
        self._finished = _counter(self, "kueue_finished_workloads", "Workloads that have ended.", "cluster_queue")
        self._replaced = _counter(self, "kueue_replaced_workload_slices",
                                  "Workload slices that another slice of their job has replaced.",
                                  "cluster_queue")  # fmt: skip
        self._by_queue = (self._reservations, self._reserved_wait, self._admissions, self._admission_wait,
                          self._checks_wait, self._ready_wait, self._admitted_until_ready, self._evictions,
                          self._eviction_latency, self._finished, self._replaced)  # fmt: skip
        """The metrics with the label cluster_queue."""
        self._reservation_error = _histogram(
            self, "zonewise_reservation_error_seconds",
            "Actual start minus the first reserved start. A value above 0 means that a "
            "reservation was not kept.", _ERROR_BUCKETS,
        )  # fmt: skip
        self._forecast_error = _histogram(
            self, "zonewise_forecast_error_seconds", "Actual start minus the likely start of the first forecast.",
            _ERROR_BUCKETS,
        )  # fmt: skip
        self._rejections = _counter(self, "zonewise_kubelet_rejections", "Pods of queued workloads that kubelets "
            "rejected.",
                                    "reason")  # fmt: skip
        self._writes = _counter(
            self, "zonewise_writes", "Attempts to write to the API server, by result: done, stale (the object has "
            "changed since), rejected, or unknown (repeated).", "purpose", "verb", "result",
        )  # fmt: skip
        self._dropped_events = _counter(
            self, "zonewise_dropped_events", "Events that were dropped because there were too many."
        )

    def run_pass(self, feed: PlannerFeed, at: float, max_admissions: int) -> Plan:
        """Run a scheduling pass, count it and measure its time."""
        begin = self._timer()
        plan = feed.run_pass(at, max_admissions)
        result = "success" if plan.admitted else "inadmissible"
        self._attempts.labels(result).inc()
        self._attempt_seconds.labels(result).observe(self._timer() - begin)
        for victim in plan.victims:
            self._preemptions.labels(feed.state.pending.get(victim.preemptor.key, ""), victim.reason).inc()
        return plan

    def count_attempt(self, write: Write, outcome: Outcome) -> None:
        """Count one attempt of a write. Threads of the writers call this method."""
        self._writes.labels(write.purpose, write.verb.value, outcome.result).inc()

    def count_dropped_event(self) -> None:
        """Count an Event that was dropped."""
        self._dropped_events.inc()

    def observe_rejection(self, reason: str) -> None:
        """Count a pod that its kubelet has rejected; `reason`: its status.reason."""
        self._rejections.labels(reason).inc()

    def observe_reservations(self, controller: QueueController, forecasts: Mapping[str, Forecast]) -> None:
        """Remember the first reserved and the first forecast start of each pending workload."""
        state = controller.feed.state
        for key, reservation in state.reservations.by_key.items():
            if reservation.start < inf:
                self._reserved.setdefault(key, reservation.start)
        for key, forecast in forecasts.items():
            if forecast.likely < inf:
                self._forecast.setdefault(key, forecast.likely)
        known = state.pending.keys() | state.running.keys()
        self._reserved = {key: start for key, start in self._reserved.items() if key in known}
        self._forecast = {key: start for key, start in self._forecast.items() if key in known}

    def forget_deleted_queues(self, state: PlannerState) -> None:
        """Remove the series of each ClusterQueue that is deleted and has no running workload.

        Source: pkg/metrics/metrics.go ClearClusterQueueMetrics.
        """
        existing = state.snapshot.cluster_queues.keys()
        deleted = self._queues - existing
        if deleted:
            deleted -= {_queue_of(run) for run in state.running.values()}
        for name in deleted:
            for metric in self._by_queue:
                metric.remove_by_labels({"cluster_queue": name})
            self._preemptions.remove_by_labels({"preempting_cluster_queue": name})
        self._queues = (self._queues - deleted) | existing

    def observe_write(self, controller: QueueController, write: Write, outcome: Outcome) -> None:
        """Count the effects of a write."""
        workload = outcome.obj
        if outcome.result != "done" or workload is None or write.key.resource != WORKLOADS:
            return
        if write.purpose == "admit":
            self._count_quota(write.workload, workload)
        if write.purpose in {"admit", "pass checks"} and is_true(workload, "Admitted"):
            self._admissions.labels(_queue(workload)).inc()
            _observe_wait(self._admission_wait, workload, "Admitted")
            self._observe_checks(workload)
        elif write.purpose == "evict" and is_true(workload, "Evicted"):
            self._count_eviction(workload)
        elif write.purpose == "release quota":
            self._observe_release(controller, write.workload, workload)
        elif write.purpose == "follow the pods":
            self._observe_readiness(write, workload)
        elif write.purpose in {"finish", "cannot start"}:
            self._finished.labels(_queue(workload)).inc()
            if (find_condition(workload, "Finished") or {}).get("reason") == REPLACED:
                self._replaced.labels(_queue(workload)).inc()

    def export(self, snapshot: Callable[[], ControllerSnapshot]) -> None:
        """Export the newest snapshot at each scrape."""
        self.registry.register(SnapshotCollector(snapshot))

    def export_backlogs(self, *, inbox: Callable[[], int], writes: Callable[[], int]) -> None:
        """Export the numbers of waiting messages and writes at each scrape."""
        self.registry.register(_BacklogCollector(inbox, writes))

    def export_kueue(self, claim: Callable[[], str]) -> None:
        """Export at each scrape whether Kueue manages the queues; `claim` returns why; "": it does not."""
        gauge = Gauge(
            "zonewise_kueue_manages_queues",
            "1 while Kueue manages the queues and this controller stands by, else 0.",
            registry=self.registry,
        )
        gauge.set_function(lambda: float(bool(claim())))

    def _count_quota(self, key: str, workload: Json) -> None:
        self._reservations.labels(_queue(workload)).inc()
        _observe_wait(self._reserved_wait, workload, "QuotaReserved")
        start = condition_time(workload, "QuotaReserved")
        for predicted, histogram in (
            (self._reserved.pop(key, None), self._reservation_error),
            (self._forecast.pop(key, None), self._forecast_error),
        ):
            if predicted is not None and start is not None:
                histogram.observe(start - predicted)

    def _observe_checks(self, workload: Json) -> None:
        if checks_of(workload):
            _observe_between(self._checks_wait, workload, "QuotaReserved", "Admitted", _queue(workload))

    def _observe_readiness(self, write: Write, workload: Json) -> None:
        """Observe a workload whose pods are ready for the first time since its admission."""
        if not isinstance(write.body, dict) or "conditions" not in write.body["status"]:
            return
        ready, admitted = find_condition(workload, "PodsReady") or {}, condition_time(workload, "Admitted")
        if (ready.get("status"), ready.get("reason")) == ("True", "Started") and admitted is not None:
            _observe_wait(self._ready_wait, workload, "PodsReady")
            _observe_between(self._admitted_until_ready, workload, "Admitted", "PodsReady", _queue(workload))

    def _count_eviction(self, workload: Json) -> None:
        self._evictions.labels(_queue(workload), *_eviction_reason(workload)).inc()

    def _observe_release(self, controller: QueueController, key: str, workload: Json) -> None:
        """Observe how long the quota of an evicted workload was held; the planner still knows its ClusterQueue."""
        running = controller.feed.state.running.get(key)
        if running is not None and running.workload.admission is not None:
            labels = running.workload.admission.cluster_queue, _eviction_reason(workload)[0]
            _observe_between(self._eviction_latency, workload, "Evicted", "QuotaReserved", *labels)


class _BacklogCollector(Collector):
    """The numbers of waiting messages and writes."""

    def __init__(self, inbox: Callable[[], int], writes: Callable[[], int]) -> None:
        self._inbox = inbox
        self._writes = writes

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("zonewise_inbox_messages", "Messages in the inbox of the controller.", self._inbox())
        yield GaugeMetricFamily("zonewise_write_backlog", "Writes whose outcome is not yet known.", self._writes())


def _observe_wait(histogram: Histogram, workload: Json, condition: str) -> None:
    """Observe how long a workload waited, from its creation or its last eviction."""
    end = condition_time(workload, condition)
    created = FieldReader(workload, "", []).child("metadata").time("creationTimestamp")
    evicted = condition_time(workload, "Requeued")
    begin = created if evicted is None else evicted
    if begin is not None and end is not None:
        histogram.labels(_queue(workload)).observe(max(0.0, end - begin))


def _observe_between(histogram: Histogram, workload: Json, first: str, second: str, *labels: str) -> None:
    """Observe the time between the changes of two conditions; `labels`: values of the histogram's labels."""
    begin, end = condition_time(workload, first), condition_time(workload, second)
    if begin is not None and end is not None:
        histogram.labels(*labels).observe(max(0.0, end - begin))


def _eviction_reason(workload: Json) -> tuple[str, str]:
    """Return the reason of an eviction and its underlying cause, as Kueue's labels have them; "": there is none."""
    text = str((find_condition(workload, "Evicted") or {}).get("reason", ""))
    if text.startswith(DEACTIVATED):
        return DEACTIVATED, text.removeprefix(DEACTIVATED).removeprefix("DueTo")
    is_timeout = text == "PodsReadyTimeout"
    return text, str((find_condition(workload, "PodsReady") or {}).get("reason", "")) if is_timeout else ""


def _queue_of(run: RunningWorkload) -> str:
    return run.workload.admission.cluster_queue if run.workload.admission else ""


def _queue(workload: Json) -> str:
    """Return the ClusterQueue of a Workload with quota; "" if it has none."""
    return FieldReader(workload, "", []).child("status").child("admission").text("clusterQueue")


def _counter(metrics: ControllerMetrics, name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=metrics.registry)


def _histogram(metrics: ControllerMetrics, name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
    return Histogram(name, text, labels, registry=metrics.registry, buckets=tuple(buckets))
