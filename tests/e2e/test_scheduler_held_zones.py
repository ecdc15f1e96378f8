"""Zones that pods hold although kube-scheduler or the API server does not show it, with real servers and kubelets."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.api import STRATEGIC
from support.e2e.cluster import PODS, Cluster, Extender, extending, running_cluster, scheduling, skip_reason
from support.e2e.pods import container, pod
from support.e2e.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = [pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason())), pytest.mark.timeout(300)]

Object = dict[str, Any]

KUBELETS = {"n1": Settings(topology="single-numa-node", memory="None", reconcile="1s")}
"""A node with 14 CPUs for pods in one zone, and 16 in the other."""
ASSUME_TIMEOUT = 2.0
GPU = "example.com/gpu"
CLASSES, CLAIMS = "/apis/resource.k8s.io/v1", "/api/v1/namespaces/lab/persistentvolumeclaims"


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    with running_cluster(KUBELETS) as made:
        yield made


@pytest.fixture
def extender(cluster: Cluster) -> Generator[Extender]:
    """Yield the extender, which kube-scheduler calls; delete all pods of a test at its end."""
    with extending(cluster, "--assume-timeout", f"{ASSUME_TIMEOUT:.0f}s") as made, scheduling(cluster, extender=made):
        yield made
        cluster.clear()


def pod_of(name: str, cpus: int, **fields: Any) -> Object:
    obj = pod(name, container(cpu=str(cpus), memory="64Mi"))
    obj["spec"] |= fields
    return obj


def runs(obj: Object) -> bool:
    assert obj["status"]["phase"] != "Failed", obj["status"]
    return obj["status"]["phase"] == "Running"


def run(cluster: Cluster, *pods: Object) -> None:
    """Create running pods one after another."""
    for each in pods:
        cluster.create([each])
        cluster.settled([each["metadata"]["name"]], runs)


def waits_for_zone(obj: Object) -> bool:
    """Return whether a pod waits because of the extender."""
    messages = [each.get("message", "") for each in obj["status"].get("conditions", ())]
    assert not obj["spec"].get("nodeName"), obj["status"]
    return any("would reject it" in message for message in messages)


def test_a_device_of_a_device_class(cluster: Cluster, extender: Extender) -> None:
    """No device plugin provides the resource. kube-scheduler passes the node and allocates the device by a claim."""
    admin = cluster.server.admin
    selector = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
    spec: Object = {"extendedResourceName": GPU, "selectors": [selector]}
    admin.post(f"{CLASSES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec}).ok()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    admin.post(f"{CLASSES}/resourceslices", {"metadata": {"name": "n1"}, "spec": spec}).ok()
    obj = pod_of("gpu", 2)
    for amounts in obj["spec"]["containers"][0]["resources"].values():
        amounts[GPU] = "1"
    cluster.create([obj])
    cluster.settled(["gpu"], lambda each: each["spec"].get("nodeName") == "n1")  # no driver runs to start it
    assert "pod=lab/gpu node=n1 predicted=c cpus=" in extender.said


def test_a_static_pod_whose_mirror_pod_is_deleted(cluster: Cluster, extender: Extender) -> None:
    """The static pod still runs in one zone, so a pod that needs more than the other one has left waits."""
    static = pod_of("static", 10)
    file = cluster.nodes["n1"].kubelet.manifests / "static.json"
    file.write_text(json.dumps(static))
    cluster.settled(["static-n1"], runs)
    run(cluster, pod_of("a", 10))
    cluster.server.admin.delete(f"{PODS}/static-n1", gracePeriodSeconds=0).ok()
    cluster.create([pod_of("b", 8)])
    cluster.settled(["b"], waits_for_zone)
    file.unlink()
    cluster.settled(["b"], runs)
    assert "mispredicted" not in extender.said


def test_a_pod_whose_resize_is_infeasible(cluster: Cluster, extender: Extender) -> None:
    """It keeps its CPUs, so the kubelet gives the next pod the other zone, also while the agent is down."""
    cluster.agents["n1"].kill()
    run(cluster, pod_of("a", 12))
    resources = {kind: {"cpu": "2", "memory": "64Mi"} for kind in ("requests", "limits")}
    resized = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    cluster.server.admin.patch(f"{PODS}/a/resize", resized, STRATEGIC).ok()
    cluster.settled(["a"], lambda obj: any(each.get("reason") == "Infeasible" for each in obj["status"]["conditions"]))
    run(cluster, pod_of("b", 10))
    cluster.create([pod_of("c", 8)])
    cluster.settled(["c"], waits_for_zone)
    cluster.agents["n1"].start()
    assert "mispredicted" not in extender.said


def test_a_pod_whose_volume_is_provisioned_slowly(cluster: Cluster, extender: Extender) -> None:
    """It keeps its zone for longer than the assume timeout, until kube-scheduler binds it."""
    admin = cluster.server.admin
    slow = {
        "metadata": {"name": "slow"},
        "provisioner": "example.com/slow",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    admin.post("/apis/storage.k8s.io/v1/storageclasses", slow).ok()
    spec: Object = {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"]}
    claimed = spec | {"resources": {"requests": {"storage": "1Gi"}}}
    claim = admin.post(CLAIMS, {"metadata": {"name": "v"}, "spec": claimed}).ok()
    run(cluster, pod_of("a", 10))
    cluster.create([pod_of("p", 14, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}])])
    cluster.until(lambda: "pod=lab/p node=n1" in extender.said, lambda: extender.said)
    assumed = time.monotonic()
    cluster.until(lambda: time.monotonic() > assumed + 2 * ASSUME_TIMEOUT, lambda: "")
    cluster.create([pod_of("b", 6)])
    cluster.settled(["b"], waits_for_zone)
    reference = {"namespace": "lab", "name": "v", "uid": claim["metadata"]["uid"]}
    volume = spec | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"}, "claimRef": reference}
    admin.post("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume}).ok()
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}}
    admin.patch(f"{CLAIMS}/v", bound).ok()
    for path in (f"{CLAIMS}/v", "/api/v1/persistentvolumes/v"):
        admin.patch(f"{path}/status", {"status": {"phase": "Bound"}}).ok()
    cluster.settled(["p"], runs)
    assert "mispredicted" not in extender.said
