"""Prometheus metrics of the scheduler, in the naming of the field: base units, counters that end in _total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from zonewise_scheduler.extender.cache import ExtenderCache

_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 5.0)
"""Seconds."""


class ExtenderMetrics:
    """What is counted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._calls = Counter(
            "zonewise_extender_requests", "Calls of kube-scheduler.", ["verb", "code"], registry=self.registry
        )
        self._seconds = Histogram(
            "zonewise_extender_request_duration_seconds", "From the request read to the answer made.", ["verb"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._decisions = Counter(
            "zonewise_extender_decisions", "Pods by what became of them at filter.", ["outcome"], registry=self.registry
        )
        self._misses = Counter(
            "zonewise_prediction_misses", "Pods that a kubelet refused though they were foretold to fit.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self._woken = Counter(
            "zonewise_pods_woken", "Waiting pods that were told that a node would take them.", registry=self.registry
        )

    def observe_request(self, verb: str, code: int, seconds: float) -> None:
        """Count a call."""
        self._calls.labels(verb, str(code)).inc()
        self._seconds.labels(verb).observe(seconds)

    def count_decision(self, outcome: str) -> None:
        """Count a decision: "placed", "untouched", "blind", "refused"."""
        self._decisions.labels(outcome).inc()

    def count_requeued(self) -> None:
        """Count a pod that was woken."""
        self._woken.inc()

    def count_misprediction(self, reason: str) -> None:
        """Count a foretelling that did not come true."""
        self._misses.labels(reason).inc()

    def export(self, cache: ExtenderCache) -> None:
        """Export how a cluster stands whenever that is asked for."""
        self.registry.register(_CacheCollector(cache))


class _CacheCollector(Collector):
    """What the ledger counts, and how many nodes there are of each sort."""

    def __init__(self, cluster: ExtenderCache) -> None:
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        counters = self._cluster.counters()
        promises = CounterMetricFamily(
            "zonewise_promises", "Promises by what became of them; made is all of them.", labels=["outcome"]
        )
        for outcome, count in {
            "made": counters.promised, "covered": counters.covered, "withdrawn": counters.withdrawn,
            "expired": counters.expired,
        }.items():  # fmt: skip
            promises.add_metric([outcome], count)
        yield promises
        refused = CounterMetricFamily(
            "zonewise_kubelet_refusals", "Pods refused by kubelets, whoever had placed them.", labels=["reason"]
        )
        for reason, count in counters.refused:
            refused.add_metric([reason], count)
        yield refused
        yield GaugeMetricFamily("zonewise_pods_in_flight", "Pods charged on top of reports.", counters.in_flight)
        nodes = GaugeMetricFamily("zonewise_nodes", "Nodes by what is known of them.", labels=["state"])
        for state, count in {**self._cluster.node_counts(), "blocked": counters.blocked}.items():
            nodes.add_metric([state], count)
        yield nodes
