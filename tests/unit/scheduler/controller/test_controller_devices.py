"""Devices of DeviceClasses in the placements of the live queue. No scheduler runs, so no pod is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Resource
from zonewise_scheduler.backfill.explain import explain
from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

NOW = 1_800_000_000.0
GPU = "example.com/gpu"
CLASS = "deviceclass.resource.kubernetes.io/gpus"
CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}


class DeviceCluster(PlacedCluster):
    """A cluster with three nodes and a class of devices."""

    def __init__(self) -> None:
        super().__init__(nodes=3)
        self.create(DEVICE_CLASSES, "", "gpus", spec={"extendedResourceName": GPU})
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]
        self.create(RESOURCE_CLAIM_TEMPLATES, NAMESPACE, "one", spec={"spec": {"devices": {"requests": requests}}})

    def add_slice(self, node: str, devices: int, **device: Any) -> ObjectKey:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": f"d{i}", **device} for i in range(devices)]
        spec = {"driver": "a.io", "nodeName": node, "pool": pool, "devices": listed}
        return self.create(RESOURCE_SLICES, "", node, spec=spec)

    def submit_with(self, name: str, pods: int, *, claim: bool) -> ObjectKey:
        """Create a held Job each of whose pods requests a device."""
        job = self.submit(name, 1, pods=pods)
        resources = {"requests": {"cpu": "1", **({} if claim else {GPU: "1"})}}
        self.change(job, {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": resources}]}}}})
        if claim:
            self.change(job, {"spec": {"template": {"spec": CLAIM}}})
        return job

    def pinned(self, job: ObjectKey) -> list[str]:
        """Return the nodes to which the pods of a Job are pinned."""
        pods = filter(None, (read_managed_pod(self.get(key)) for key in self.pods(job)))
        return sorted(pinned_node(pod) for pod in pods)


def live_queue(cluster: DeviceCluster, *unreadable: Resource) -> LiveQueue:
    """Return a queue whose quotas do not count devices."""
    nodes = cluster.node_feed()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=nodes, unreadable=frozenset(unreadable))
    state = queue.controller.feed.state
    state.settings = state.settings._replace(resources=ResourceSettings(exclude_resource_prefixes=(GPU, CLASS)))
    return queue


@pytest.mark.parametrize("claim", [True, False])
def test_a_gang_gets_the_nodes_with_devices(*, claim: bool) -> None:
    cluster = DeviceCluster()
    for node, devices in (("n0", 1), ("n2", 2)):
        cluster.add_slice(node, devices)
    queue = live_queue(cluster)
    job, other = cluster.submit_with("job", 3, claim=claim), cluster.submit_with("other", 1, claim=claim)
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(job) == ["n0", "n2", "n2"]
    assert cluster.pinned(other) == []
    state = queue.controller.feed.state
    [key] = state.pending
    explanation = explain(state, key, NOW)
    assert explanation.placement_failure is not None
    assert explanation.placement_failure.resources == (CLASS if claim else GPU,)
    assert explanation.device_classes == (() if claim else ((GPU, "gpus"),))
    cluster.add_slice("n1", 1)
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(other) == ["n1"]


def test_only_claims_can_tolerate_tainted_devices() -> None:
    cluster = DeviceCluster()
    cluster.add_slice("n1", 2, taints=[{"key": "k", "effect": "NoSchedule"}])
    queue = live_queue(cluster)
    resource, claim = (cluster.submit_with(f"claim-{claim}".lower(), 2, claim=claim) for claim in (False, True))
    queue.settle(cluster.sync_jobs)
    assert (cluster.pinned(resource), cluster.pinned(claim)) == ([], ["n1", "n1"])


@pytest.mark.parametrize("unreadable", [DEVICE_CLASSES, RESOURCE_SLICES])
def test_placements_count_no_claims_if_the_devices_of_nodes_cannot_be_read(unreadable: Resource) -> None:
    """An upgraded controller with the role of an earlier version places such pods as before."""
    cluster = DeviceCluster()
    cluster.add_slice("n2", 2)
    queue = live_queue(cluster, unreadable)
    job = cluster.submit_with("job", 2, claim=True)
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(job) == ["n0", "n0"]
