"""The metrics of the queues, from the snapshot that the controller has published last.

Source of the metrics with the prefix `kueue_`: pkg/metrics/metrics.go.
"""

from __future__ import annotations

from math import inf, isinf, nan
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from zonewise_scheduler.quota.api.amount import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

    from zonewise_scheduler.controller.status.queue_summaries import ClusterQueueSummary, LocalQueueSummary
    from zonewise_scheduler.controller.status.reporter import ControllerSnapshot
    from zonewise_scheduler.quota.hierarchy.drs import DRS


class SnapshotCollector(Collector):
    """The metrics of a snapshot's queues."""

    def __init__(self, snapshot: Callable[[], ControllerSnapshot]) -> None:
        """Create a collector; `snapshot` returns the newest snapshot."""
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the newest snapshot."""
        snapshot = self._snapshot()
        yield GaugeMetricFamily("zonewise_leader", "1 if this replica leads, else 0.", int(snapshot.leads))
        yield GaugeMetricFamily("zonewise_reservations", "Workloads with a reserved start.", snapshot.reservations)
        yield GaugeMetricFamily(
            "zonewise_assumed_admissions",
            "Admissions that were decided, but are not visible in any object yet.",
            snapshot.assumed,
        )
        yield GaugeMetricFamily(
            "zonewise_inadmissible_workloads",
            "Workloads that no queue accepts: they are deactivated, or their LocalQueue or ClusterQueue is missing or "
            "on hold.",
            snapshot.inadmissible,
        )
        yield GaugeMetricFamily("zonewise_invalid_objects", "Jobs and Workloads that cannot be read.",
                                len(snapshot.invalid))  # fmt: skip
        left = CounterMetricFamily("zonewise_pods_left_to_kube_scheduler", "Pods that the controller did not bind "
                                   "although their queue requests it, by reason.", labels=["reason"])  # fmt: skip
        for reason, pods in snapshot.pods_left.items():
            left.add_metric([reason], pods)
        yield left
        queues = snapshot.queues.cluster_queues.values()
        yield from _workload_gauges(queues)
        yield from _resource_gauges(queues)
        share = _gauge(
            "kueue_cluster_queue_weighted_share",
            "Largest ratio of borrowed to lendable quota of the ClusterQueue, in thousandths, divided by its weight; "
            "NaN if it borrows with weight 0.",
            "cluster_queue",
            "cohort",
        )
        for queue in queues:
            share.add_metric([queue.name, queue.cohort], _weighted_share(queue.share))
        yield share
        cohorts = _gauge(
            "kueue_cohort_weighted_share",
            "Largest ratio of borrowed to lendable quota of the Cohort, in thousandths, divided by its weight; "
            "NaN if it borrows with weight 0.",
            "cohort",
        )
        for name, drs in snapshot.queues.cohorts.items():
            cohorts.add_metric([name], _weighted_share(drs))
        yield cohorts
        yield from _local_queue_gauges(snapshot.queues.local_queues.values())


def _weighted_share(drs: DRS) -> float:
    """Return the value of a share as a metric: NaN if it is infinite (clusterqueue_controller.go)."""
    share = drs.precise_weighted_share
    return nan if isinf(share) else share


def _workload_gauges(queues: Iterable[ClusterQueueSummary]) -> Iterator[Metric]:
    pending = _gauge("kueue_pending_workloads", "Pending workloads, by status: active, or inadmissible until the "
        "cluster changes.",
                     "cluster_queue", "status")  # fmt: skip
    reserving = _gauge("kueue_reserving_active_workloads", "Workloads that hold quota.", "cluster_queue")
    admitted = _gauge("kueue_admitted_active_workloads", "Admitted workloads that have not ended.", "cluster_queue")
    status = _gauge("kueue_cluster_queue_status", "1 for the current status of the ClusterQueue (pending, active or "
        "terminating), else 0.",
                    "cluster_queue", "status")  # fmt: skip
    for queue in queues:
        pending.add_metric([queue.name, "active"], queue.counts.active)
        pending.add_metric([queue.name, "inadmissible"], queue.counts.inadmissible)
        reserving.add_metric([queue.name], queue.counts.reserving)
        admitted.add_metric([queue.name], queue.counts.admitted)
        current = "active" if queue.activity.is_active else "pending"
        current = "terminating" if queue.activity.reason == "Terminating" else current
        for name in ("pending", "active", "terminating"):
            status.add_metric([queue.name, name], int(name == current))
    yield from (pending, reserving, admitted, status)


def _resource_gauges(queues: Iterable[ClusterQueueSummary]) -> Iterator[Metric]:
    labels = ("cohort", "cluster_queue", "flavor", "resource")
    used = _gauge("kueue_cluster_queue_resource_usage", "Quota that admitted workloads use.", *labels)
    reserved = _gauge("kueue_cluster_queue_resource_reservation", "Quota that workloads have reserved.", *labels)
    nominal = _gauge("kueue_cluster_queue_nominal_quota", "Nominal quota.", *labels)
    borrowing = _gauge("kueue_cluster_queue_borrowing_limit", "Borrowing limit; +Inf if there is none.", *labels)
    lending = _gauge("kueue_cluster_queue_lending_limit", "Lending limit; +Inf if there is none.", *labels)
    for queue in queues:
        for key, summary in queue.resources.items():
            values = [queue.cohort, queue.name, key.flavor, key.resource]
            limits = summary.quota.borrowing_limit, summary.quota.lending_limit
            for family, amount in (
                (used, summary.used), (reserved, summary.reserved), (nominal, summary.quota.nominal),
                (borrowing, limits[0]), (lending, limits[1]),
            ):  # fmt: skip
                family.add_metric(values, _in_units(key.resource, amount))
    yield from (used, reserved, nominal, borrowing, lending)


def _local_queue_gauges(queues: Iterable[LocalQueueSummary]) -> Iterator[Metric]:
    labels = ("name", "namespace")
    pending = _gauge("kueue_local_queue_pending_workloads", "Pending workloads of the LocalQueue, by status.",
                     *labels, "status")  # fmt: skip
    reserving = _gauge("kueue_local_queue_reserving_active_workloads", "Workloads of the LocalQueue that hold quota.",
                       *labels)  # fmt: skip
    admitted = _gauge("kueue_local_queue_admitted_active_workloads",
                      "Admitted workloads of the LocalQueue that have not ended.", *labels)  # fmt: skip
    status = _gauge("kueue_local_queue_status", "1 for the status of the condition Active of the LocalQueue, else 0.",
                    *labels, "active")  # fmt: skip
    used = _gauge("kueue_local_queue_resource_usage", "Quota that admitted workloads of the LocalQueue use.",
                  *labels, "flavor", "resource")  # fmt: skip
    reserved = _gauge("kueue_local_queue_resource_reservation", "Quota that workloads of the LocalQueue have reserved.",
                      *labels, "flavor", "resource")  # fmt: skip
    for queue in queues:
        key = [queue.name, queue.namespace]
        pending.add_metric([*key, "active"], queue.counts.active)
        pending.add_metric([*key, "inadmissible"], queue.counts.inadmissible)
        reserving.add_metric(key, queue.counts.reserving)
        admitted.add_metric(key, queue.counts.admitted)
        for name in ("True", "False", "Unknown"):
            status.add_metric([*key, name], int(name == str(queue.activity.is_active)))
        for resource, summary in queue.resources.items():
            values = [*key, resource.flavor, resource.resource]
            used.add_metric(values, _in_units(resource.resource, summary.used))
            reserved.add_metric(values, _in_units(resource.resource, summary.reserved))
    yield from (pending, reserving, admitted, status, used, reserved)


def _in_units(resource: str, amount: int | None) -> float:
    """Return an amount in CPUs, bytes or counts; None and unlimited are infinite."""
    if amount is None or amount == UNLIMITED:
        return inf
    return amount / 1000 if resource == "cpu" else float(amount)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)
