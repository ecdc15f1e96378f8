"""Prometheus metrics of the agent's own work; the metrics of the node are in node_metrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import GaugeMetricFamily

from zonewise.daemon.fault_metrics import FaultMetrics
from zonewise.daemon.node_metrics import NodeMetrics
from zonewise_common import __version__
from zonewise_common.service.metrics import WatchAges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from zonewise.daemon.status import Status

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Seconds: a rescan takes about 1 ms, the first scan of a large machine 30 ms to 100 ms."""
_SIZES = (250, 500, 750, 1000, 1200, 2000, 4000, 8000, 16000, 64000)
"""Bytes: a patch for one pod is about 600, the whole object of a large machine 20,000."""
_REMOTE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)


class AgentMetrics:
    """The metrics of one agent, in their own registry. Thread-safe."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(PROCESS_COLLECTOR)
        registry.register(GC_COLLECTOR)
        Info("zonewise_build", "Version of the agent.", registry=registry).info({"version": __version__})
        self.wakeups = Counter(
            "zonewise_wakeups", "Scans of the agent, by the reason that started them.", ["reason"], registry=registry
        )
        self.scan_seconds = Histogram(
            "zonewise_scan_duration_seconds", "Time from an event to the new snapshot of the node.", buckets=_FAST,
            registry=registry,
        )  # fmt: skip
        self.kubelet_requests = Counter(
            "zonewise_kubelet_requests", "Requests to the kubelet, by method.", ["method"], registry=registry
        )
        self.kubelet_errors = Counter(
            "zonewise_kubelet_errors", "Requests to the kubelet that failed, by method "
                "and kind of error.", ["method", "error"],
            registry=registry,
        )  # fmt: skip
        self.kubelet_ready = Gauge(
            "zonewise_kubelet_ready", "1 if the kubelet reports all allocations, else 0.", registry=registry
        )
        self.publish_bytes = Histogram(
            "zonewise_publish_size_bytes", "Size of the request bodies of writes to the API server, by object and "
                "operation.",
            ["object", "operation"], buckets=_SIZES, registry=registry,
        )  # fmt: skip
        self.publish_seconds = Histogram(
            "zonewise_publish_duration_seconds", "Duration of the writes to "
                "the API server.", ["object"], buckets=_REMOTE,
            registry=registry,
        )  # fmt: skip
        self.publish_errors = Counter(
            "zonewise_publish_errors", "Writes to the API server that failed, by "
                "object and reason.", ["object", "reason"],
            registry=registry,
        )  # fmt: skip
        self.publish_repairs = Counter(
            "zonewise_publish_repairs", "Repairs of objects that another client had deleted or edited.",
            ["object", "cause"], registry=registry,
        )  # fmt: skip
        self.labels_written = Gauge(
            "zonewise_labels", "Labels of the agent that the API server has, in its NodeFeature or on the Node.",
            ["path"], registry=registry,
        )  # fmt: skip
        self.rules = Gauge(
            "zonewise_rules",
            "Rules of NodeFeatureRules and NodeFeatureGroups on this node, by state: matched, unmatched or failed.",
            ["state"], registry=registry,
        )  # fmt: skip
        self.rule_rejections = Gauge(
            "zonewise_rule_outputs_rejected",
            "Outputs of NodeFeatureRules that the agent may not set.",
            registry=registry,
        )
        self.settings = Info("zonewise_settings", "Hash of the settings in force.", registry=registry)
        self._watch_ages: dict[str, Callable[[], float]] = {}
        self.reload_errors = Counter(
            "zonewise_settings_errors",
            "New settings that were rejected, so that the old ones remain in force.",
            registry=registry,
        )

    def watch(self, status: Status) -> None:
        """Add the metrics of the node, and those of the collectors in the last scan."""
        self.registry.register(NodeMetrics(lambda: status.snapshot))
        self.registry.register(FaultMetrics(lambda: status.snapshot))
        self.registry.register(_Scans(status))
        self.registry.register(WatchAges(self._finite_ages))

    def watch_age(self, resource: str, age: Callable[[], float]) -> None:
        """Add the age of a watch, in seconds, infinite before its first listing."""
        self._watch_ages[resource] = age

    def remove_watch_age(self, resource: str) -> None:
        """Remove the age of a watch that is closed."""
        self._watch_ages.pop(resource, None)

    def clear_rules(self) -> None:
        """Remove the counts of rules if rules are disabled."""
        self.rules.clear()
        self.rule_rejections.set(0)

    def _finite_ages(self) -> dict[str, float]:
        ages = {resource: age() for resource, age in list(self._watch_ages.items())}
        return {resource: seconds for resource, seconds in ages.items() if math.isfinite(seconds)}


class _Scans:
    """Duration and success of each collector in the last scan, and the age of the published objects."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        runs = self._status.snapshot.runs
        seconds = ((run.collector, run.seconds) for run in runs)
        success = ((run.collector, float(run.outcome != "failed")) for run in runs)
        yield _by_collector("zonewise_collector_duration_seconds", "Duration of each part of discovery.", seconds)
        yield _by_collector(
            "zonewise_collector_success", "0 if a part of discovery failed because of a defect, else 1.", success
        )
        age = self._status.age()
        if age is not None:
            text = "Seconds since all published objects were last known to match the node."
            yield GaugeMetricFamily("zonewise_published_age_seconds", text, value=age)


def _by_collector(name: str, text: str, samples: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=("collector",))
    for collector, value in samples:
        family.add_metric((collector,), value)
    return family
