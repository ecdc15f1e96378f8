"""Pods of the live queue that wait for a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.live_clusters import real_unscheduled_cluster, simulated_unscheduled_cluster, unscheduled_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
from zonewise_scheduler.controller.pods.node_pin import pinned_node

if TYPE_CHECKING:
    from support.live_cluster import LiveCluster

__all__ = ["real_unscheduled_cluster", "simulated_unscheduled_cluster", "unscheduled_cluster"]


def nodes_of_active_pods(cluster: LiveCluster, job: str) -> list[str]:
    """Return the nodes to which the active pods of a Job are pinned; "": a pod is held."""
    pods = filter(None, map(read_managed_pod, cluster.pods(job)))
    return sorted(pinned_node(pod) for pod in pods if not pod.is_terminated)


def test_pods_that_wait_for_a_failed_node_are_replaced(unscheduled_cluster: LiveCluster) -> None:
    """No scheduler has bound them yet. Their replacements are placed on another node."""
    unscheduled_cluster.add_nodes(2)
    unscheduled_cluster.add_queue(16, topology=True)
    with unscheduled_cluster.controller():
        unscheduled_cluster.submit("job", 2, pods=2, backoffLimit=6)
        eventually(lambda: nodes_of_active_pods(unscheduled_cluster, "job") == ["node-0", "node-0"])
        unscheduled_cluster.api.delete("/api/v1/nodes/node-0").ok()
        eventually(lambda: nodes_of_active_pods(unscheduled_cluster, "job") == ["node-1", "node-1"])
