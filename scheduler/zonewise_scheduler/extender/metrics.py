"""Prometheus metrics of the extender: base units, counters that end in _total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from zonewise_scheduler.extender.cache import ExtenderCache

_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 5.0)
"""Seconds."""
_OLD_RESULTS = {"assumed": "placed", "passed": "untouched", "unreported": "blind", "rejected": "refused"}
"""Label values of zonewise_extender_decisions, by result."""


class ExtenderMetrics:
    """Counters of calls, and the registry. Each metric with a deprecated name is exported under both names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "zonewise_extender_requests", "Calls of kube-scheduler.", ["verb", "code"], registry=self.registry
        )
        self._seconds = Histogram(
            "zonewise_extender_request_duration_seconds", "From the request read to the response built.", ["verb"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._results = Counter(
            "zonewise_extender_filter_results", "Pods by the result of filter.", ["result"], registry=self.registry
        )
        self._mispredictions = Counter(
            "zonewise_mispredictions", "Pods that a kubelet rejected though their admission was predicted.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self._requeued = Counter(
            "zonewise_pods_requeued", "Unschedulable pods that were requeued since a node changed.",
            registry=self.registry,
        )  # fmt: skip
        # deprecated in 0.1.0, dropped in the next minor version
        self._old_decisions = Counter(
            "zonewise_extender_decisions", _deprecated("zonewise_extender_filter_results"), ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self._old_mispredictions = Counter(
            "zonewise_prediction_misses", _deprecated("zonewise_mispredictions"), ["reason"], registry=self.registry
        )
        self._old_woken = Counter("zonewise_pods_woken", _deprecated("zonewise_pods_requeued"), registry=self.registry)

    def observe_request(self, verb: str, code: int, seconds: float) -> None:
        """Count a call."""
        self._requests.labels(verb, str(code)).inc()
        self._seconds.labels(verb).observe(seconds)

    def count_filter_result(self, result: str) -> None:
        """Count a pod at filter.

        "assumed": on a node with a report. "unreported": assumed on a node without one. "passed": no kubelet aligns
        the pod. "rejected": no candidate admits it.
        """
        self._results.labels(result).inc()
        self._old_decisions.labels(_OLD_RESULTS[result]).inc()

    def count_requeued(self) -> None:
        """Count a requeued pod."""
        self._requeued.inc()
        self._old_woken.inc()

    def count_misprediction(self, reason: str) -> None:
        """Count a misprediction by the kubelet's reason."""
        self._mispredictions.labels(reason).inc()
        self._old_mispredictions.labels(reason).inc()

    def export(self, cache: ExtenderCache) -> None:
        """Export the state of a cache at every scrape."""
        self.registry.register(_CacheCollector(cache))


class _CacheCollector(Collector):
    """The ledger's counters, and the number of nodes by state."""

    def __init__(self, cache: ExtenderCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        counters = self._cache.counters()
        assumed, covered, expired = counters.assumed_total, counters.covered, counters.expired
        forgotten, rejections = counters.forgotten, counters.rejected
        yield _counter(
            "zonewise_assumed_pods", "Assumed pods by outcome; assumed: all of them.", "outcome",
            {"assumed": assumed, "covered": covered, "forgotten": forgotten, "expired": expired}.items(),
        )  # fmt: skip
        yield _counter(
            "zonewise_promises", _deprecated("zonewise_assumed_pods"), "outcome",
            {"made": assumed, "covered": covered, "withdrawn": forgotten, "expired": expired}.items(),
        )  # fmt: skip
        yield _counter("zonewise_kubelet_rejections", "Pods that kubelets rejected.", "reason", rejections)
        yield _counter("zonewise_kubelet_refusals", _deprecated("zonewise_kubelet_rejections"), "reason", rejections)
        yield GaugeMetricFamily("zonewise_pods_assumed", "Pods that are assumed at present.", counters.assumed)
        yield GaugeMetricFamily("zonewise_pods_in_flight", _deprecated("zonewise_pods_assumed"), counters.assumed)
        nodes = GaugeMetricFamily("zonewise_nodes", "Nodes by the state of their report.", labels=["state"])
        for state, count in {**self._cache.node_counts(), "blocked": counters.blocked}.items():
            nodes.add_metric([state], count)
        yield nodes


def _counter(name: str, text: str, label: str, values: Iterable[tuple[str, int]]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in values:
        family.add_metric([value], count)
    return family


def _deprecated(name: str) -> str:
    return f"Deprecated, dropped in the next minor version: use {name}."
