"""Nodes that are drained while pods of the live queue run on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.live_cluster import PODS
from support.live_clusters import cluster, real_cluster, simulated_cluster
from support.waiting import eventually

if TYPE_CHECKING:
    from support.live_cluster import LiveCluster

__all__ = ["cluster", "real_cluster", "simulated_cluster"]


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
