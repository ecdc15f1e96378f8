"""Failures that fall due while a new placement of a running gang is written count once the write has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.controller_stories import ControllerStory
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import NODES
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write

MINUTES = 30


def fail(story: ControllerStory, node: str) -> None:
    """Delete a node; the controller observes the deletion at once."""
    del story.cluster.objects[ObjectKey(NODES, "", node)]
    story.queue.controller.observe_node(node, None)


def pass_minutes(story: ControllerStory) -> None:
    for _ in range(MINUTES):
        story.now += 60
        story.queue.step()


def placed_nodes(story: ControllerStory) -> set[str]:
    [workload] = story.cluster.workloads()
    [pod_set] = workload["status"]["admission"]["podSetAssignments"]
    return {domain.values[-1] for domain in read_topology_assignment(pod_set["topologyAssignment"]).domains}


@pytest.mark.parametrize("during_the_write", [False, True])
def test_a_second_node_fails(during_the_write: bool) -> None:
    failing: list[str] = []

    def before_write(story: ControllerStory, write: Write, _number: int) -> None:
        if write.purpose == "admit" and failing and during_the_write:
            fail(story, failing.pop())

    cluster = PlacedCluster(nodes=4)
    story = ControllerStory(cluster, before_write=before_write)
    job = story.cluster.submit("j", 3, pods=2)
    story.settle()
    first, second = cluster.nodes_of(job)
    failing.append(second)
    fail(story, first)
    pass_minutes(story)
    if not during_the_write:
        assert first not in placed_nodes(story)
        fail(story, failing.pop())
        pass_minutes(story)
    assert failing == []
    assert placed_nodes(story).isdisjoint({first, second})
    [workload] = story.cluster.workloads()
    assert not workload["status"].get("unhealthyNodes"), "they are replaced"
