"""Nodes that are closed to further pods of a gang for a while."""

from __future__ import annotations

from typing import Any

from support.controller_stories import ControllerStory
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import NODES
from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

MAINTENANCE = {"key": "maintenance", "effect": "NoExecute"}
FOR_A_MINUTE = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}


def submit(cluster: PlacedCluster, name: str, toleration: Json) -> ObjectKey:
    """Create a Job of two pods with a toleration."""
    job = cluster.submit(name, 1, pods=2)
    cluster.change(job, {"spec": {"template": {"spec": {"tolerations": [toleration]}}}})
    return job


def test_pods_evicted_after_their_toleration_has_expired_go_to_another_node() -> None:
    """They run until then. Further pods are placed elsewhere from the beginning."""
    cluster = PlacedCluster(nodes=2)
    story = ControllerStory(cluster)
    job = submit(cluster, "j", FOR_A_MINUTE)
    story.settle()
    cluster.change(ObjectKey(NODES, "", "n0"), {"spec": {"taints": [MAINTENANCE]}})
    story.settle()
    assert cluster.nodes_of(job) == ["n0", "n0"]
    other = submit(cluster, "other", FOR_A_MINUTE)
    story.settle()
    assert cluster.nodes_of(other) == ["n1", "n1"]
    for pod in cluster.pods(job):
        cluster.delete(pod)
    story.settle_until(lambda: cluster.nodes_of(job) == ["n1", "n1"])
    assert cluster.starts == {"j": 1, "other": 1}, "none is evicted"


def test_a_drained_node_takes_the_pods_back_once_it_is_open_again() -> None:
    """The nodes have a taint that the pods tolerate, as nodes with GPUs often have."""
    cluster = PlacedCluster(nodes=2)
    nodes = [ObjectKey(NODES, "", name) for name in ("n0", "n1")]
    for node in nodes:
        cluster.change(node, {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    story = ControllerStory(cluster)
    job = submit(cluster, "j", {"key": "gpu", "operator": "Exists"})
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


def test_a_gang_survives_the_removal_of_a_node_on_which_its_pods_have_succeeded() -> None:
    """An autoscaler removes idle nodes. There is no other node for these pods, and none is needed."""
    cluster = PlacedCluster(nodes=3)
    story = ControllerStory(cluster)
    job = cluster.submit("j", 2, pods=6)
    cluster.change(job, {"spec": {"completionMode": "Indexed"}})
    story.settle()
    assert cluster.nodes_of(job) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    for pod in cluster.pods(job)[:2]:
        cluster.change(pod, {"status": {"phase": "Succeeded"}})
    cluster.change(job, {"status": {"active": 4, "ready": 4, "succeeded": 2, "completedIndexes": "0,1"}})
    story.settle()
    cluster.delete(ObjectKey(NODES, "", "n0"))
    story.settle()
    failed = cluster.pods(job)[-1]
    cluster.delete(failed)
    story.settle()
    assert cluster.starts == {"j": 1}
    assert not cluster.get(job)["spec"]["suspend"]
    [workload] = cluster.workloads()
    assert "unhealthyNodes" not in workload["status"]
