"""Nodes that are closed to further pods of a gang for a while."""

from __future__ import annotations

from support.controller_stories import ControllerStory
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import JOBS, NODES
from zonewise_scheduler.controller.types import ObjectKey


def test_a_drained_node_takes_the_pods_back_once_it_is_open_again() -> None:
    """The nodes have a taint that the pods tolerate, as nodes with GPUs often have."""
    cluster = PlacedCluster(nodes=2)
    nodes = [ObjectKey(NODES, "", name) for name in ("n0", "n1")]
    for node in nodes:
        cluster.change(node, {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    story = ControllerStory(cluster)
    job = cluster.submit("j", 1, pods=2)
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    cluster.change(ObjectKey(JOBS, "ns", "j"), {"spec": {"template": {"spec": {"tolerations": tolerations}}}})
    story.settle()
    assert cluster.nodes_of(job) == ["n0", "n0"]
    for drained, other in (nodes, nodes[::-1]):
        cluster.change(drained, {"spec": {"unschedulable": True}})
        for pod in cluster.pods(job):
            cluster.delete(pod)
        story.settle_until(lambda node=other.name: cluster.nodes_of(job) == [node, node])
        cluster.change(drained, {"spec": {"unschedulable": False}})
        story.settle()
    assert cluster.starts == {"j": 1}, "it is not evicted"
