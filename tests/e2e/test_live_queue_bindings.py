"""A queue whose pods the controller binds itself, without any scheduler."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.http_requests import get
from support.live_cluster import KUEUE, LiveCluster
from support.live_clusters import real_unscheduled_cluster, simulated_unscheduled_cluster, unscheduled_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.workloads.queue_annotations import BIND_ANNOTATION

if TYPE_CHECKING:
    from support.live_cluster import ControllerProcess

__all__ = ["real_unscheduled_cluster", "simulated_unscheduled_cluster", "unscheduled_cluster"]

HOST = "kubernetes.io/hostname"
QUEUE = f"{KUEUE}/clusterqueues/queue"
LEFT = "zonewise.dev/left-to-kube-scheduler"


@pytest.fixture
def cluster(unscheduled_cluster: LiveCluster) -> LiveCluster:
    unscheduled_cluster.add_nodes(4)
    unscheduled_cluster.add_queue(1000, topology=True)
    return unscheduled_cluster


def request_bindings(cluster: LiveCluster) -> None:
    cluster.api.patch(QUEUE, {"metadata": {"annotations": {BIND_ANNOTATION: "true"}}}).ok()


def metrics(process: ControllerProcess) -> str:
    port = re.search(r"serving on port (\d+)", process.said)
    assert port is not None, process.said
    return get(int(port[1]), "/metrics").body


def test_jobs_run_without_a_scheduler(cluster: LiveCluster) -> None:
    """The second Job waits until the first has ended, since the nodes fit only one at a time."""
    request_bindings(cluster)
    with cluster.controller():
        for name in ("first", "second"):
            cluster.submit(name, pods=20, run=0.5, topology=HOST)
        eventually(lambda: cluster.is_complete("first") and cluster.is_complete("second"))


def test_waiting_pods_are_bound_once_their_queue_requests_it(cluster: LiveCluster) -> None:
    with cluster.controller():
        cluster.submit("j", pods=4, run=0.5, topology=HOST)
        eventually(lambda: sum(not pod["spec"].get("schedulingGates") for pod in cluster.pods("j")) == 4)
        assert not any(pod["spec"].get("nodeName") for pod in cluster.pods("j"))
        request_bindings(cluster)
        eventually(lambda: cluster.is_complete("j"))


def test_a_pod_that_is_not_evaluated_is_left_with_a_reason(cluster: LiveCluster) -> None:
    request_bindings(cluster)
    with cluster.controller("--metrics-listen", "127.0.0.1:0") as process:
        cluster.submit("ports", topology=HOST, ports=({"containerPort": 80, "hostPort": 8080},))
        cluster.submit("plain", topology=HOST, run=0.5)
        eventually(lambda: cluster.is_complete("plain"))
        eventually(lambda: any(LEFT in pod["metadata"]["annotations"] for pod in cluster.pods("ports")))
        (pod,) = cluster.pods("ports")
        assert pod["metadata"]["annotations"][LEFT] == "host ports"
        assert not pod["spec"].get("nodeName")
        eventually(lambda: 'left_to_kube_scheduler_total{reason="host ports"} 1.0' in metrics(process))
        assert 'zonewise_writes_total{purpose="bind",result="done",verb="create"} 1.0' in metrics(process)
