"""Pods of the queue that request more than their Workload declares."""

from __future__ import annotations

from typing import Any

import pytest

from support.live_queue import LiveQueue
from support.placed_cluster import PlacedCluster

Json = dict[str, Any]

NOW = 1_800_000_000.0


@pytest.mark.parametrize("restarts", [False, True])
def test_resources_that_a_pod_gained_by_an_in_place_resize_are_in_use(*, restarts: bool) -> None:
    cluster = PlacedCluster(nodes=2)
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    resized = cluster.submit("a", 1)
    queue.settle(cluster.sync_jobs)
    [pod] = cluster.pods(resized)
    four: Json = {"requests": {"cpu": "4"}}
    container = {**cluster.get(pod)["spec"]["containers"][0], "resources": four}
    status = {"name": container["name"], "resources": four, "allocatedResources": four["requests"]}
    cluster.change(
        pod, {"spec": {"containers": [container]}, "status": {"phase": "Running", "containerStatuses": [status]}}
    )
    queue.settle(cluster.sync_jobs)
    if restarts:
        queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    gang = cluster.submit("b", 3, pods=2)
    queue.settle(cluster.sync_jobs)
    assert cluster.get(gang)["spec"]["suspend"], "one node is full"
    cluster.complete(resized)
    queue.settle(cluster.sync_jobs)
    assert sorted(cluster.nodes_of(gang)) == ["n0", "n1"]
