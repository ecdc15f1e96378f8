"""The messages of evictions: Kueue's guides find the preemptor with them."""

from __future__ import annotations

from typing import get_args

import pytest

from support.model_cluster import ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_scheduler.backfill.types import StopOrder, StopReason
from zonewise_scheduler.controller.planning.eviction_messages import stop_message
from zonewise_scheduler.controller.workloads.conditions import find_condition
from zonewise_scheduler.quota.api.workload_types import Workload

NOW = 1.8e9


def test_a_preemption_names_the_preemptor_and_the_paths_of_both_queues() -> None:
    queue = ReportedQueue(ModelCluster(preemption={"withinClusterQueue": "LowerPriority"}), NOW)
    queue.cluster.submit("low", 6, priority="low")
    queue.tick(3.0)
    high = queue.cluster.submit("high", 6, priority="high")
    queue.tick(2.0)
    uids = {obj["metadata"]["ownerReferences"][0]["name"]: obj["metadata"]["uid"] for obj in queue.cluster.workloads()}
    [low] = [obj for obj in queue.cluster.workloads() if obj["metadata"]["uid"] == uids["low"]]
    job_uid = queue.cluster.get(high)["metadata"]["uid"]
    assert (find_condition(low, "Preempted") or {})["message"] == (
        f"Preempted to accommodate a workload (UID: {uids['high']}, JobUID: {job_uid}) due to prioritization in the "
        "ClusterQueue; preemptor path: /q; preemptee path: /q"
    )


@pytest.mark.parametrize("reason", get_args(StopReason))
def test_a_stop_has_a_message(reason: StopReason) -> None:
    message = stop_message(StopOrder(Workload("ns", "w", (), unhealthy_nodes=("n1", "n2")), reason))
    assert message
    assert reason not in message
    assert ("n1, n2" in message) == (reason == "NodeFailures")
