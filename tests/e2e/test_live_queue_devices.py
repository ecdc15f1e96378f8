"""Jobs of the live queue with an extended resource that a DeviceClass provides, beside the real kube-scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.cluster import running_scheduler
from support.live_cluster import JOBS, KUEUE, PODS, RUN_SECONDS, LiveCluster
from support.live_clusters import real_unscheduled_cluster
from support.queue_objects import cluster_queue_spec
from support.waiting import eventually
from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["real_unscheduled_cluster"]

Json = dict[str, Any]

RESOURCE, DRIVER = "example.com/gpu", "gpu.example.com"
DEVICES = "/apis/resource.k8s.io/v1"
KINDS_OF_DEVICES = (
    "deviceclasses", "resourceslices", "namespaces/default/resourceclaims", "namespaces/default/resourceclaimtemplates",
)  # fmt: skip
KIND = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'


@pytest.fixture(scope="module")
def scheduled_cluster(real_unscheduled_cluster: LiveCluster) -> Iterator[LiveCluster]:
    """Yield a cluster with kube-scheduler."""
    with running_scheduler(Path(real_unscheduled_cluster.flags[1]), real_unscheduled_cluster.directory):
        yield real_unscheduled_cluster


@pytest.fixture
def cluster(scheduled_cluster: LiveCluster) -> Iterator[LiveCluster]:
    """Yield the cluster with four nodes and a queue that places pods on nodes."""
    scheduled_cluster.add_nodes(4)
    scheduled_cluster.add_queue(64, topology=True)
    spec = cluster_queue_spec({"cpu": "64", RESOURCE: "100", f"{DEVICE_CLASS}gpus": "100"}, "all")
    scheduled_cluster.api.patch(f"{KUEUE}/clusterqueues/queue", {"spec": spec}).ok()
    yield scheduled_cluster
    scheduled_cluster.clear()
    for kind in KINDS_OF_DEVICES:
        scheduled_cluster.api.delete(f"{DEVICES}/{kind}").ok()
    # the controller of claims removes their finalizer once no pod uses them
    eventually(lambda: not scheduled_cluster.api.get(f"{DEVICES}/resourceclaims").ok()["items"])


def create_class(cluster: LiveCluster) -> None:
    spec = {"extendedResourceName": RESOURCE, "selectors": [{"cel": {"expression": KIND}}]}
    cluster.api.post(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpus"}, "spec": spec}).ok()


def create_slice(cluster: LiveCluster, node: str, kinds: dict[str, int]) -> None:
    devices: list[Json] = [
        {"name": f"{kind}-{i}", "attributes": {"type": {"string": kind}}}
        for kind, count in kinds.items()
        for i in range(count)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    cluster.api.post(f"{DEVICES}/resourceslices", {"metadata": {"name": node}, "spec": spec}).ok()


def submit(cluster: LiveCluster, name: str, pods: int, gpus: int, **fields: Any) -> None:
    """Create a Job whose pods request devices; `fields`: further fields of the pods' spec."""
    amounts = {"cpu": "1", **({RESOURCE: str(gpus)} if gpus else {})}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    annotations = {"zonewise.dev/simulated-run-seconds": "3600"}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **fields}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    cluster.submit(name, pods=pods, template=template)


def nodes_of(cluster: LiveCluster, name: str) -> list[str]:
    """Return the nodes of a Job's running pods."""
    return sorted(pod["spec"]["nodeName"] for pod in cluster.running_pods(name))


def message_of(cluster: LiveCluster) -> str:
    """Return why the only waiting Workload has no quota."""
    conditions = [
        condition
        for workload in cluster.workloads()
        for condition in workload.get("status", {}).get("conditions", ())
        if condition["type"] == "QuotaReserved" and condition["status"] == "False"
    ]
    return conditions[0]["message"] if conditions else ""


def test_a_gang_gets_the_nodes_whose_slices_have_its_devices(cluster: LiveCluster) -> None:
    """Other devices of the driver do not match the class; kube-scheduler allocates claims for all pods."""
    create_class(cluster)
    create_slice(cluster, "node-1", {"gpu": 4, "mig": 8})
    create_slice(cluster, "node-2", {"mig": 8})
    create_slice(cluster, "node-3", {"gpu": 2})
    with cluster.controller():
        submit(cluster, "gang", 3, 2)
        eventually(lambda: nodes_of(cluster, "gang") == ["node-1", "node-1", "node-3"])
        submit(cluster, "next", 1, 1)
        eventually(lambda: f'excluded: resource "{RESOURCE}": 4; DeviceClass gpus provides' in message_of(cluster))
        cluster.api.delete(f"{JOBS}/gang", propagationPolicy="Background").ok()
        eventually(lambda: len(nodes_of(cluster, "next")) == 1)


def test_a_gang_waits_for_slices_and_a_class(cluster: LiveCluster) -> None:
    create_class(cluster)
    with cluster.controller():
        submit(cluster, "gang", 2, 1)
        eventually(lambda: f"DeviceClass gpus provides {RESOURCE}" in message_of(cluster))
        cluster.api.delete(f"{DEVICES}/deviceclasses/gpus").ok()
        create_slice(cluster, "node-2", {"gpu": 1})
        create_slice(cluster, "node-0", {"gpu": 1})
        create_class(cluster)
        eventually(lambda: nodes_of(cluster, "gang") == ["node-0", "node-2"])


def create_template(cluster: LiveCluster, name: str, count: int) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": count}}]
    template = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}
    cluster.api.post(f"{DEVICES}/namespaces/default/resourceclaimtemplates", template).ok()


def run_pod(cluster: LiveCluster, name: str, claim: Json) -> str:
    """Run a pod outside the queue that has a claim; return its node."""
    spec = {"containers": [{"name": "c", "image": "none"}], "resourceClaims": [{"name": "gpu", **claim}]}
    pod = {"metadata": {"name": name, "annotations": {RUN_SECONDS: "3600"}}, "spec": spec}
    cluster.api.post(PODS, pod).ok()
    eventually(lambda: cluster.api.get(f"{PODS}/{name}").ok()["status"].get("phase") == "Running")
    return cluster.api.get(f"{PODS}/{name}").ok()["spec"]["nodeName"]


def run_sharing_pod(cluster: LiveCluster) -> str:
    """Run a pod outside the queue with the claim `shared`, which other pods may use; return its node."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": 1}}
    claim = {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}}
    cluster.api.post(f"{DEVICES}/namespaces/default/resourceclaims", claim).ok()
    return run_pod(cluster, "sharing", {"resourceClaimName": "shared"})


def test_pods_that_share_an_allocated_claim_run_on_its_node(cluster: LiveCluster) -> None:
    create_class(cluster)
    create_slice(cluster, "node-2", {"gpu": 1})
    assert run_sharing_pod(cluster) == "node-2"
    with cluster.controller():
        submit(cluster, "gang", 3, 0, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
        eventually(lambda: nodes_of(cluster, "gang") == ["node-2"] * 3)


def test_devices_that_pods_outside_the_queue_hold_are_not_free(cluster: LiveCluster) -> None:
    """kube-scheduler allocates a claim of a pod, and one that pods share. Gangs get the devices that are left."""
    create_class(cluster)
    create_slice(cluster, "node-1", {"gpu": 4})
    create_slice(cluster, "node-2", {"gpu": 2})
    create_template(cluster, "one", 1)
    create_template(cluster, "three", 3)
    run_pod(cluster, "outside", {"resourceClaimTemplateName": "three"})
    left = {"node-1": 4 - 3, "node-2": 2}
    left[run_sharing_pod(cluster)] -= 1
    with cluster.controller():
        gpu = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        submit(cluster, "gang", 2, 0, resourceClaims=gpu)
        eventually(lambda: nodes_of(cluster, "gang") == sorted(node for node in left for _ in range(left[node])))
        submit(cluster, "next", 1, 1)
        eventually(lambda: f'excluded: resource "{RESOURCE}": 4' in message_of(cluster))
        cluster.api.delete(f"{PODS}/outside").ok()
        eventually(lambda: nodes_of(cluster, "next") == ["node-1"])


def test_a_gang_with_claims_gets_the_nodes_whose_slices_have_its_devices(cluster: LiveCluster) -> None:
    create_class(cluster)
    create_slice(cluster, "node-1", {"mig": 8})
    create_slice(cluster, "node-2", {"gpu": 4})
    create_slice(cluster, "node-3", {"gpu": 2})
    create_template(cluster, "two", 2)
    with cluster.controller():
        claims = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
        submit(cluster, "gang", 3, 0, resourceClaims=claims)
        eventually(lambda: nodes_of(cluster, "gang") == ["node-2", "node-2", "node-3"])
        submit(cluster, "next", 1, 0, resourceClaims=claims)
        eventually(lambda: f'excluded: resource "{DEVICE_CLASS}gpus": 4' in message_of(cluster))
