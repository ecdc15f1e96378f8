"""Devices of DeviceClasses in the placements of the live queue. No scheduler runs, so no pod is bound."""

from __future__ import annotations

from typing import Any

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings

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

    def submit_with(self, name: str, pods: int, *, claim: bool, resource: str = GPU) -> ObjectKey:
        """Create a held Job each of whose pods requests a device."""
        job = self.submit(name, 1, pods=pods)
        resources = {"requests": {"cpu": "1", **({} if claim else {resource: "1"})}}
        self.change(job, {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": resources}]}}}})
        if claim:
            self.change(job, {"spec": {"template": {"spec": CLAIM}}})
        return job

    def add_pod(self, name: str, node: str, **requests: str) -> ObjectKey:
        """Create a running pod outside the queue."""
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
        return self.create(PODS, NAMESPACE, name, spec=spec, status={"phase": "Running"})

    def allocate(self, name: str, node: str, *devices: int, pod: str = "", extended: bool = False) -> ObjectKey:
        """Create a claim that holds devices of a node."""
        results = [{"request": "gpu", "driver": "a.io", "pool": node, "device": f"d{i}"} for i in devices]
        uid = self.get(ObjectKey(PODS, NAMESPACE, pod))["metadata"]["uid"] if pod else ""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"} if extended else {}
        return self.create(
            RESOURCE_CLAIMS,
            NAMESPACE,
            name,
            metadata={"annotations": annotations, "ownerReferences": [owner] if pod else []},
            spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}},
            status={"allocation": {"devices": {"results": results}}},
        )

    def share(self, name: str, node: str) -> ObjectKey:
        """Create a claim that can be used on one node."""
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        allocation = {"devices": {}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        return self.create(RESOURCE_CLAIMS, NAMESPACE, name, status={"allocation": allocation})

    def allocate_for_pods(self, job: ObjectKey, *, extended: bool) -> None:
        """Create the claims of the bound pods of a Job, each with one device."""
        used: dict[str, int] = {}
        for key in self.pods(job):
            node = self.get(key)["spec"]["nodeName"]
            self.allocate(f"{key.name}-gpu", node, used.get(node, 0), pod=key.name, extended=extended)
            used[node] = used.get(node, 0) + 1

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


@pytest.mark.parametrize("claim", [True, False])
def test_devices_that_pods_outside_the_queue_hold_are_not_free(*, claim: bool) -> None:
    """A pod holds them through a claim, and others through a claim that they share."""
    cluster = DeviceCluster()
    for node in ("n0", "n1", "n2"):
        cluster.add_slice(node, 2)
    cluster.add_pod("outside", "n0", cpu="1")
    cluster.allocate("outside-gpu", "n0", 0, 1, pod="outside")
    shared = cluster.allocate("shared", "n1", 1)
    queue = live_queue(cluster)
    job, other = cluster.submit_with("job", 3, claim=claim), cluster.submit_with("other", 1, claim=claim)
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(job) == ["n1", "n2", "n2"]
    assert cluster.pinned(other) == []
    cluster.delete(shared)
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(other) == ["n1"]


@pytest.mark.parametrize(("claim", "resource"), [(True, ""), (False, GPU), (False, CLASS)])
def test_the_devices_of_placed_pods_count_once(*, claim: bool, resource: str) -> None:
    """The planner counts them before and after kube-scheduler allocates them, until the pods have ended."""
    cluster = DeviceCluster()
    cluster.add_slice("n1", 3)
    queue = live_queue(cluster)
    job = cluster.submit_with("job", 2, claim=claim, resource=resource)
    queue.settle(cluster.sync_jobs)
    for pod in cluster.pods(job):
        cluster.change(pod, {"spec": {"nodeName": "n1"}})
    cluster.allocate_for_pods(job, extended=not claim)
    second, third = (cluster.submit_with(name, 1, claim=claim, resource=resource) for name in ("second", "third"))
    queue.settle(cluster.sync_jobs)
    assert (cluster.pinned(second), cluster.pinned(third)) == (["n1"], [])
    cluster.complete(job)
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(third) == ["n1"]


def test_an_extended_resource_of_a_pod_outside_the_queue_counts_once() -> None:
    cluster = DeviceCluster()
    cluster.add_slice("n1", 2)
    cluster.add_pod("outside", "n1", **{"cpu": "1", GPU: "1"})
    cluster.allocate("outside-extended-resources-x", "n1", 0, pod="outside", extended=True)
    queue = live_queue(cluster)
    jobs = [cluster.submit_with(f"job-{i}", 1, claim=False) for i in range(2)]
    queue.settle(cluster.sync_jobs)
    assert sorted(map(cluster.pinned, jobs)) == [[], ["n1"]]


def test_a_request_that_names_a_class_gets_a_node_with_its_devices() -> None:
    cluster = DeviceCluster()
    cluster.add_slice("n2", 1)
    queue = live_queue(cluster)
    jobs = [cluster.submit_with(f"job-{i}", 1, claim=False, resource=CLASS) for i in range(2)]
    queue.settle(cluster.sync_jobs)
    assert sorted(map(cluster.pinned, jobs)) == [[], ["n2"]]


def test_pods_that_share_an_allocated_claim_get_its_node() -> None:
    cluster = DeviceCluster()
    queue = live_queue(cluster)
    cluster.share("c", "n2")
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    jobs = [cluster.submit(f"job-{i}", 1, pods=2) for i in range(3)]
    for job in jobs:
        cluster.change(job, {"spec": {"template": {"spec": {"resourceClaims": claims}}}})
    queue.settle(cluster.sync_jobs)
    assert list(map(cluster.pinned, jobs)) == [["n2", "n2"], ["n2", "n2"], []]


def test_a_claim_that_is_allocated_again_has_other_nodes() -> None:
    cluster = DeviceCluster()
    queue = live_queue(cluster)
    key = cluster.share("c", "gone")
    job = cluster.submit("job", 1, pods=2)
    cluster.change(job, {"spec": {"template": {"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}}}})
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(job) == []
    cluster.delete(key)
    cluster.share("c", "n1")
    queue.settle(cluster.sync_jobs)
    assert cluster.pinned(job) == ["n1", "n1"]
