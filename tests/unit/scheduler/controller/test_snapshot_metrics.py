"""The metrics of queues, with Kueue's names, labels and values."""

from __future__ import annotations

from math import isnan

import pytest

from support.model_cluster import NAMESPACE, ModelCluster
from support.queue_objects import cluster_queue_spec
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from zonewise_scheduler.controller.types import ObjectKey

KEY = {"name": "l", "namespace": NAMESPACE}
CPU = {**KEY, "flavor": "f", "resource": "cpu"}


def value(queue: ReportedQueue, name: str, labels: dict[str, str]) -> float | None:
    return queue.metrics.registry.get_sample_value(f"kueue_local_queue_{name}", labels)


def test_a_local_queue_shows_its_workloads_and_its_usage() -> None:
    """A workload that waits for its admission check has reserved quota, and does not use it yet."""
    cluster = ModelCluster(admissionChecksStrategy={"admissionChecks": [{"name": "licence"}]})
    cluster.add_check("licence")
    queue = ReportedQueue(cluster, 1.8e9)
    cluster.submit("checked", 3)
    cluster.submit("waiting", 6)
    queue.tick(3.0)
    counts = [value(queue, f"{state}_active_workloads", KEY) for state in ("reserving", "admitted")]
    pending = [value(queue, "pending_workloads", {**KEY, "status": name}) for name in ("active", "inadmissible")]
    assert (counts, sum(filter(None, pending))) == ([1, 0], 1)
    assert (value(queue, "resource_reservation", CPU), value(queue, "resource_usage", CPU)) == (3, 0)


def test_workloads_of_an_inactive_cluster_queue_are_inadmissible() -> None:
    queue = ReportedQueue(ModelCluster(), 1.8e9)
    queue.cluster.delete(ObjectKey(RESOURCE_FLAVORS, "", "f"))
    queue.cluster.submit("waiting", 3)
    queue.tick(3.0)
    assert [value(queue, "pending_workloads", {**KEY, "status": name}) for name in ("active", "inadmissible")] == [0, 1]


@pytest.mark.parametrize("policy", ["None", "Hold"])
def test_a_local_queue_has_one_status(policy: str) -> None:
    queue = ReportedQueue(ModelCluster(), 1.8e9)
    queue.cluster.change(ObjectKey(LOCAL_QUEUES, NAMESPACE, "l"), {"spec": {"stopPolicy": policy}})
    queue.tick(3.0)
    status = {name: value(queue, "status", {**KEY, "active": name}) for name in ("True", "False", "Unknown")}
    assert status == {"True": int(policy == "None"), "False": int(policy == "Hold"), "Unknown": 0}


@pytest.mark.parametrize("weight", ["0", "2"])
def test_the_share_of_a_borrower_with_weight_0_is_nan(weight: str) -> None:
    """Half of the lendable quota is borrowed, which is a share of 250 with weight 2."""
    cluster = ModelCluster(cpus=0, cohortName="c", fairSharing={"weight": weight})
    cluster.create(CLUSTER_QUEUES, "", "lender", spec=cluster_queue_spec({"cpu": "8"}, cohortName="c"))
    queue = ReportedQueue(cluster, 1.8e9)
    cluster.submit("borrows", 4)
    queue.tick(3.0)
    labels = {"cluster_queue": "q", "cohort": "c"}
    share = queue.metrics.registry.get_sample_value("kueue_cluster_queue_weighted_share", labels)
    assert share is not None
    assert isnan(share) if weight == "0" else share == 250
