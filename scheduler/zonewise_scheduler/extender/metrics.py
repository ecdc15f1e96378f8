"""Prometheus metrics of the extender: base units, counters that end in _total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from zonewise_common import __version__
from zonewise_common.service.metrics import WatchAges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from zonewise_scheduler.extender.cache_view import CacheView
    from zonewise_scheduler.extender.failed_nodes import RejectionCause
    from zonewise_scheduler.extender.state.report_problems import ReportProblems

_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 5.0)
"""Bucket bounds in seconds."""
_OLD_RESULTS = {"assumed": "placed", "passed": "untouched", "unreported": "blind", "rejected": "refused"}
"""Label values of zonewise_extender_decisions, by result."""


class ExtenderMetrics:
    """The counters of calls, and the registry. Each metric with a deprecated name is exported under both names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        Info("zonewise_build", "Version of the scheduler.", registry=self.registry).info({"version": __version__})
        self.settings = Info("zonewise_settings", "Hash of the settings in force.", registry=self.registry)
        self._requests = Counter(
            "zonewise_extender_requests",
            "Calls of kube-scheduler, by verb and status code.",
            ["verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "zonewise_extender_request_duration_seconds", "Time from the read of the request to the "
                "complete response.", ["verb"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._results = Counter(
            "zonewise_extender_filter_results",
            "Pods that were filtered, by result.",
            ["result"],
            registry=self.registry,
        )
        self._rejections = Counter(
            "zonewise_extender_rejections", "Pods that every candidate node rejected at filter, by the most frequent "
            "cause. It consists of the reason of the kubelet or the extender, and the decisive resource ('several' if "
            "there are more).",
            ["reason", "resource"], registry=self.registry,
        )  # fmt: skip
        self._mispredictions = Counter(
            "zonewise_mispredictions", "Pods that a kubelet rejected although their "
                "admission was predicted.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self._requeued = Counter(
            "zonewise_pods_requeued", "Unschedulable pods that were requeued because a node changed.",
            registry=self.registry,
        )  # fmt: skip
        self._bindings = Counter(
            "zonewise_direct_bindings", "Pods that a scheduling pass placed, by the result of their binding.",
            ["result"], registry=self.registry,
        )  # fmt: skip
        self._preemptions = Counter(
            "zonewise_preemptions", "Pods for which other pods were preempted, by the scheduler "
                "that evicts them.", ["by"],
            registry=self.registry,
        )  # fmt: skip
        self._victims = Counter(
            "zonewise_preemption_victims",
            "Pods that were preempted, by the scheduler that evicts them.",
            ["by"],
            registry=self.registry,
        )
        self._budgets_forbidden = Gauge(
            "zonewise_disruption_budgets_forbidden",
            "1 while the extender may not read PodDisruptionBudgets and therefore preempts nothing, else 0.",
            registry=self.registry,
        )
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
        """Count a filtered pod.

        "assumed": on a node with a report. "unreported": assumed on a node without one. "passed": no kubelet aligns
        the pod. "rejected": no candidate admits it.
        """
        self._results.labels(result).inc()
        self._old_decisions.labels(_OLD_RESULTS[result]).inc()

    def count_rejection(self, cause: RejectionCause) -> None:
        """Count a pod that every candidate rejects."""
        self._rejections.labels(*cause).inc()

    def count_requeued(self) -> None:
        """Count a requeued pod."""
        self._requeued.inc()
        self._old_woken.inc()

    def count_binding(self, result: str) -> None:
        """Count a pod that a scheduling pass has placed: "bound", "gone" or "failed" (left to kube-scheduler)."""
        self._bindings.labels(result).inc()

    def count_preemption(self, by: str, victims: int) -> None:
        """Count a preemption, with the number of its victims.

        `by` names the component that evicts them: "zonewise", or "kube-scheduler" after the verb `preempt`.
        """
        self._preemptions.labels(by).inc()
        self._victims.labels(by).inc(victims)

    def set_budgets_forbidden(self, *, forbidden: bool) -> None:
        """Export whether the extender is forbidden to read PodDisruptionBudgets."""
        self._budgets_forbidden.set(forbidden)

    def count_misprediction(self, reason: str) -> None:
        """Count a misprediction by the kubelet's reason."""
        self._mispredictions.labels(reason).inc()
        self._old_mispredictions.labels(reason).inc()

    def export(self, view: CacheView) -> None:
        """Export the state of a cache at every scrape."""
        self.registry.register(_CacheCollector(view))

    def export_watch_ages(self, ages: Callable[[], Mapping[str, float]]) -> None:
        """Export the age of each watch, in seconds by resource, at every scrape."""
        self.registry.register(WatchAges(ages))

    def export_report_problems(self, problems: ReportProblems) -> None:
        """Export the problems of reports at every scrape."""
        self.registry.register(_ProblemCollector(problems))


class _ProblemCollector(Collector):
    """Collects the number of damaged reports, by the kind of damage."""

    def __init__(self, problems: ReportProblems) -> None:
        self._problems = problems

    def collect(self) -> Iterator[Metric]:
        nodes = GaugeMetricFamily(
            "zonewise_damaged_reports",
            "Reports that have a problem at present, by the kind of problem.",
            labels=["kind"],
        )
        for kind, count in sorted(self._problems.nodes_by_kind().items()):
            nodes.add_metric([kind], count)
        yield nodes
        yield _counter(
            "zonewise_report_problems", "Problems that appeared in reports.", "kind",
            sorted(self._problems.totals().items()),
        )  # fmt: skip


class _CacheCollector(Collector):
    """Collects the ledger's counters, and the number of nodes by state."""

    def __init__(self, view: CacheView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        counters = self._view.counters()
        covered, forgotten, expired = counters.covered, counters.forgotten, counters.expired
        rejections = counters.rejected
        yield CounterMetricFamily(
            "zonewise_assumptions", "Pods that were assumed on a node with a report.", counters.assumed_total
        )
        yield _counter(
            "zonewise_assumed_pods", "Pods that are no longer assumed, by outcome.", "outcome",
            {"covered": covered, "forgotten": forgotten, "expired": expired}.items(),
        )  # fmt: skip
        yield _counter(
            "zonewise_promises", _deprecated("zonewise_assumed_pods"), "outcome",
            {"covered": covered, "withdrawn": forgotten, "expired": expired}.items(),
        )  # fmt: skip
        yield _counter("zonewise_kubelet_rejections", "Pods that kubelets rejected.", "reason", rejections)
        yield _counter("zonewise_kubelet_refusals", _deprecated("zonewise_kubelet_rejections"), "reason", rejections)
        yield GaugeMetricFamily("zonewise_pods_assumed", "Pods that are assumed at present.", counters.assumed)
        yield GaugeMetricFamily("zonewise_pods_in_flight", _deprecated("zonewise_pods_assumed"), counters.assumed)
        nodes = GaugeMetricFamily("zonewise_nodes", "Nodes, by the state of their report.", labels=["state"])
        for state, count in {**self._view.node_counts(), "blocked": counters.blocked}.items():
            nodes.add_metric([state], count)
        yield nodes
        yield from self._zones()

    def _zones(self) -> Iterator[Metric]:
        largest = GaugeMetricFamily(
            "zonewise_largest_zone_free",
            "Largest free amount in one zone of any node, with assumed pods subtracted: CPUs, bytes, "
            "number of devices.",
            labels=["resource"],
        )
        ratio = GaugeMetricFamily(
            "zonewise_largest_zone_free_ratio",
            "Share of all free resources that is in the largest free zone of each node: 1 is unfragmented, values near "
            "0 are scattered.",
            labels=["resource"],
        )
        for resource, amount in sorted(self._view.free_by_zone().items()):
            largest.add_metric([resource], amount.largest)
            if amount.largest_ratio is not None:
                ratio.add_metric([resource], amount.largest_ratio)
        yield largest
        yield ratio


def _counter(name: str, text: str, label: str, values: Iterable[tuple[str, int]]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in values:
        family.add_metric([value], count)
    return family


def _deprecated(name: str) -> str:
    return f"Deprecated, removed in the next minor version: use {name}."
