"""The counters and histograms of the live queue."""

from __future__ import annotations

from support.elastic_cluster import ElasticCluster
from support.model_cluster import ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import CLUSTER_QUEUES
from zonewise_scheduler.controller.types import ObjectKey

QUEUE = {"cluster_queue": "q"}


def values(queue: ReportedQueue) -> list[float | None]:
    registry = queue.metrics.registry
    names = ("admitted_workloads_total", "admission_wait_time_seconds_count", "finished_workloads_total")
    return [registry.get_sample_value(f"kueue_{name}", QUEUE) for name in names]


def test_a_deleted_cluster_queue_loses_its_series_once_its_last_workload_has_ended() -> None:
    queue = ReportedQueue(ModelCluster(), 1.8e9)
    job = queue.cluster.submit("job", 3)
    queue.tick(3.0)
    assert values(queue) == [1, 1, None]
    queue.cluster.delete(ObjectKey(CLUSTER_QUEUES, "", "q"))
    queue.tick(3.0)
    assert values(queue) == [1, 1, None]
    queue.cluster.complete(job)
    queue.tick(3.0)
    queue.tick(3.0)
    assert queue.cluster.is_finished(job)
    assert values(queue) == [None, None, None]


def test_a_slice_counts_as_replaced_once_another_one_has_its_quota() -> None:
    queue = ReportedQueue(cluster := ElasticCluster(), 1.8e9)
    job = cluster.submit_elastic("grows", 2)
    queue.tick(3.0)
    cluster.resize(job, 4)
    queue.tick(3.0)
    queue.tick(3.0)
    assert cluster.slices(job) == [(4, "Admitted")]
    assert queue.metrics.registry.get_sample_value("kueue_replaced_workload_slices_total", QUEUE) == 1
    cluster.complete(job)
    queue.tick(3.0)
    queue.tick(3.0)
    assert cluster.is_finished(job)
    assert queue.metrics.registry.get_sample_value("kueue_replaced_workload_slices_total", QUEUE) == 1
