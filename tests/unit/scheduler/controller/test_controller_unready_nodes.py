"""Nodes of a running gang that are not Ready: its pods may still run there, until they are evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.controller_stories import ControllerStory
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import NODES
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import api_time, is_true

if TYPE_CHECKING:
    from collections.abc import Iterable

DELAYS = 4
"""Minutes for which nodes are not Ready: much longer than the delay after which they are closed."""


def set_ready(story: ControllerStory, nodes: Iterable[str], status: str) -> None:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": api_time(story.now)}
    for node in nodes:
        story.cluster.change(ObjectKey(NODES, "", node), {"status": {"conditions": [condition]}})


def pass_minutes(story: ControllerStory) -> None:
    for _ in range(DELAYS):
        story.now += 60
        story.settle()


@pytest.mark.parametrize(("nodes", "failing"), [(3, 1), (3, 2), (2, 1), (2, 2)])
def test_pods_that_still_run_there_keep_their_nodes(nodes: int, failing: int) -> None:
    """The gang is neither evicted nor moved, and nothing changes when the nodes recover."""
    cluster = PlacedCluster(nodes=nodes)
    story = ControllerStory(cluster)
    job = cluster.submit("j", 3, pods=2)
    story.settle()
    pods, placed = cluster.pods(job), cluster.nodes_of(job)
    [before] = cluster.workloads()
    set_ready(story, placed[:failing], "Unknown")
    pass_minutes(story)
    set_ready(story, placed[:failing], "True")
    pass_minutes(story)
    [workload] = cluster.workloads()
    assert cluster.starts == {"j": 1}
    assert workload["status"]["admission"] == before["status"]["admission"]
    assert (cluster.pods(job), cluster.nodes_of(job)) == (pods, placed)
    cluster.submit("next", 3, pods=nodes - 2)
    story.settle()
    assert sorted(cluster.used_cpus().values()) == [3] * nodes, "no node is held for a pod that runs elsewhere"


def test_the_replacements_of_evicted_pods_go_to_another_node() -> None:
    cluster = PlacedCluster(nodes=3)
    story = ControllerStory(cluster)
    job = cluster.submit("j", 3, pods=2)
    story.settle()
    unready = cluster.nodes_of(job)[:1]
    set_ready(story, unready, "Unknown")
    pass_minutes(story)
    for pod in cluster.pods(job):
        cluster.delete(pod)
    story.settle_until(lambda: len(cluster.nodes_of(job)) == 2 and all(cluster.nodes_of(job)))
    assert set(cluster.nodes_of(job)).isdisjoint(unready)
    [workload] = cluster.workloads()
    assert is_true(workload, "Admitted")
