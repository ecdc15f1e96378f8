"""Nodes that fail while pods of the live queue are placed on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.live_cluster import PODS, LiveCluster, real_live_cluster, simulated_live_cluster
from support.live_clusters import IN_MEMORY, cluster, real_cluster, simulated_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
from zonewise_scheduler.controller.pods.node_pin import pinned_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["cluster", "real_cluster", "simulated_cluster"]


def nodes_of_active_pods(cluster: LiveCluster, job: str) -> list[str]:
    """Return the nodes to which the active pods of a Job are pinned; "": a pod is held."""
    pods = filter(None, map(read_managed_pod, cluster.pods(job)))
    return sorted(pinned_node(pod) for pod in pods if not pod.is_terminated)


@pytest.mark.parametrize(
    "start",
    [pytest.param(simulated_live_cluster, marks=IN_MEMORY, id="simulated"), pytest.param(real_live_cluster, id="real")],
)
def test_pods_that_wait_for_a_failed_node_are_replaced(
    start: Callable[..., AbstractContextManager[LiveCluster]],
) -> None:
    """No scheduler has bound them yet. Their replacements are placed on another node."""
    with start(scheduled=False) as cluster, cluster.controller():
        cluster.add_nodes(2)
        cluster.add_queue(16, topology=True)
        cluster.submit("job", 2, pods=2, backoffLimit=6)
        eventually(lambda: nodes_of_active_pods(cluster, "job") == ["node-0", "node-0"])
        cluster.api.delete("/api/v1/nodes/node-0").ok()
        eventually(lambda: nodes_of_active_pods(cluster, "job") == ["node-1", "node-1"])


def test_the_pods_of_a_drained_node_are_replaced(cluster: LiveCluster) -> None:
    """A drain cordons the node, and then evicts its pods one after the other."""
    cluster.add_nodes(2, cpus=4)
    cluster.add_queue(16, topology=True)
    with cluster.controller():
        cluster.submit("job", 2, pods=2, backoffLimit=6)
        eventually(lambda: len(cluster.running_pods("job")) == 2)
        cluster.api.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": True}}).ok()
        for pod in cluster.running_pods("job"):
            cluster.api.delete(f"{PODS}/{pod['metadata']['name']}").ok()
        eventually(lambda: [pod["spec"]["nodeName"] for pod in cluster.running_pods("job")] == ["node-1", "node-1"])
