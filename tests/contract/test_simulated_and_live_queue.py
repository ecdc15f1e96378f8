"""The simulator admits the same jobs as the live queue, from the objects that `kubectl get` prints.

The controller runs on a model of a cluster. RuntimeClasses, LimitRanges and ResourceClaimTemplates add requests;
DeviceClasses and ResourceSlices add devices to nodes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE
from support.placed_cluster import PlacedCluster
from support.queue_objects import cluster_queue_spec
from support.scenarios import start_times
from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
)
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.inputs.cluster_objects import read_objects
from zonewise_scheduler.simulator.inputs.documents import Document
from zonewise_scheduler.simulator.inputs.job_objects import RUN_SECONDS_ANNOTATION, SUBMIT_SECONDS_ANNOTATION
from zonewise_scheduler.simulator.inputs.source_files import InputError

Json = dict[str, Any]

NOW = 1_800_000_000.0
GPU = "example.com/gpu"
CLASS = "deviceclass.resource.kubernetes.io/gpus"
NODE_COUNT = 2
READ_KINDS = (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
)


def cluster_of(objects: Json) -> PlacedCluster:
    """Return a cluster with two nodes of four CPUs each, and drawn objects."""
    cluster = PlacedCluster(nodes=NODE_COUNT)
    for i in range(NODE_COUNT):
        cluster.change(ObjectKey(NODES, "", f"n{i}"), {"metadata": {"labels": {"flavor": "f"}}})
    spec = cluster_queue_spec({"cpu": "8", GPU: "9", CLASS: "9"})
    cluster.change(ObjectKey(CLUSTER_QUEUES, "", "q"), {"spec": spec})
    selectors = [{"cel": {"expression": 'device.driver == "a.io" && device.attributes["a.io"].type == "gpu"'}}]
    cluster.create(DEVICE_CLASSES, "", "gpus", spec={"extendedResourceName": GPU, "selectors": selectors})
    for i, devices in enumerate(objects["devices"]):
        pool = {"name": f"n{i}", "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": f"d{k}", "attributes": {"type": {"string": kind}}} for k, kind in enumerate(devices)]
        spec = {"driver": "a.io", "nodeName": f"n{i}", "pool": pool, "devices": listed}
        cluster.create(RESOURCE_SLICES, "", f"n{i}", spec=spec)
    for count in (1, 2):
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": count}}]
        name = f"of-{count}"
        cluster.create(RESOURCE_CLAIM_TEMPLATES, NAMESPACE, name, spec={"spec": {"devices": {"requests": requests}}})
    cluster.create(RUNTIME_CLASSES, "", "kata", overhead={"podFixed": {"cpu": "500m"}})
    cluster.create(RUNTIME_CLASSES, "", "first", scheduling={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    if objects["limit"]:
        limit = {"type": "Container", "defaultRequest": {"cpu": objects["limit"]}, "max": {"cpu": "3"}}
        cluster.create(LIMIT_RANGES, NAMESPACE, "r", spec={"limits": [limit]})
    for i, job in enumerate(objects["jobs"]):
        key = cluster.submit(f"job-{i}", 1, pods=job["pods"], at=i)
        annotations = {RUN_SECONDS_ANNOTATION: "1000000", SUBMIT_SECONDS_ANNOTATION: "0"}
        spec = {"containers": [{"name": "c", "resources": {"requests": job["requests"]}}], **job["spec"]}
        cluster.change(key, {"metadata": {"annotations": annotations}, "spec": {"template": {"spec": spec}}})
    return cluster


def admitted_live(cluster: PlacedCluster) -> set[str]:
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, nodes=cluster.node_feed())
    queue.settle(cluster.sync_jobs)
    admitted = (each for each in cluster.workloads() if is_true(each, "QuotaReserved"))
    return {each["metadata"]["ownerReferences"][0]["name"] for each in admitted}


def admitted_simulated(cluster: PlacedCluster) -> set[str]:
    documents = [
        Document("cluster.yaml", {"apiVersion": key.resource.api_version, "kind": key.resource.kind, **obj})
        for key, obj in cluster.listed().items()
        if key.resource in READ_KINDS
    ]
    try:
        scenario = read_objects(documents, "cluster.yaml", None)
    except InputError:  # the API server would reject the pods of all jobs
        return set()
    starts = start_times(simulate_cluster(scenario, BackfillPolicy()))
    return {name for name, start in starts.items() if start == 0}


CLAIMS = [[{"name": "a", "resourceClaimTemplateName": f"of-{count}"}] for count in (1, 2)]


@st.composite
def drawn_jobs(draw: st.DrawFn) -> Json:
    """Return the number of pods of a job, the requests of their container, and other fields of the pods."""
    amounts = {"cpu": ["500m", "1", "2", "3500m"], GPU: ["1", "2"], CLASS: ["1", "2"]}
    fields: dict[str, list[Any]] = {"runtimeClassName": ["kata", "first"], "resourceClaims": CLAIMS}
    requests = {name: draw(st.sampled_from(values)) for name, values in amounts.items() if draw(st.booleans())}
    spec = {name: draw(st.sampled_from(values)) for name, values in fields.items() if draw(st.booleans())}
    return {"pods": draw(st.integers(1, 3)), "requests": requests, "spec": spec}


@st.composite
def drawn_objects(draw: st.DrawFn) -> Json:
    """Return the devices of each node by kind, the default request of a LimitRange, and jobs."""
    devices = st.lists(st.sampled_from(["gpu", "gpu", "mig"]), max_size=4)
    return {
        "devices": draw(st.lists(devices, min_size=1, max_size=NODE_COUNT)),
        "limit": draw(st.sampled_from(["", "1500m"])),
        "jobs": draw(st.lists(drawn_jobs(), min_size=1, max_size=4)),
    }


@given(drawn_objects())
def test_the_same_jobs_are_admitted(objects: Json) -> None:
    simulated = admitted_simulated(cluster_of(objects))
    assert admitted_live(cluster_of(objects)) == simulated
