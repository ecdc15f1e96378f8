"""RayJobs and their RayClusters: head, worker groups and submitter."""

from __future__ import annotations

from typing import Any

import pytest

from support.job_kinds import ray_cluster_spec, worker_group
from support.json_edits import with_field
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs import raycluster, rayjob
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo

Json = dict[str, Any]

HEAD: Json = {"spec": {"containers": [{"name": "ray-head", "image": "ray:2"}]}}


def cluster(status: Json | None = None) -> Json:
    groups = [worker_group("Small", replicas=2), worker_group("slices", replicas=3, numOfHosts=4), worker_group("one")]
    return {"spec": ray_cluster_spec(HEAD, *groups), "status": status or {}}


def ray_job(status: Json | None = None, **spec: object) -> Json:
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster()["spec"], **spec}
    return {"spec": spec, "status": status or {}}


def pods(adapter: Any, job: Json) -> list[tuple[str, int]]:
    return [(pod_set.name, pod_set.pods) for pod_set in adapter.pod_sets(job)]


CLUSTER_PODS = [("head", 1), ("small", 2), ("slices", 12), ("one", 1)]


def test_a_worker_group_has_pods_for_each_host_of_each_replica() -> None:
    assert pods(raycluster.ADAPTER, cluster()) == CLUSTER_PODS


@pytest.mark.parametrize(
    ("status", "active", "ready"),
    [
        ({}, False, False),
        ({"state": "ready"}, True, True),
        ({"desiredWorkerReplicas": 2}, True, False),
        ({"state": "failed"}, True, False),
        ({"state": "suspended"}, False, False),
    ],
)
def test_a_cluster_is_active_until_it_is_reported_as_suspended(status: Json, active: bool, ready: bool) -> None:
    job = cluster(status)
    assert (raycluster.ADAPTER.is_active(job), raycluster.ADAPTER.pods_ready(job)) == (active, ready)
    assert raycluster.ADAPTER.finished(job) is None


@pytest.mark.parametrize(("mode", "submitter"), [(None, True), ("K8sJobMode", True), ("HTTPMode", False)])
def test_a_ray_job_with_a_submitter_job_has_a_pod_set_for_it(mode: str | None, submitter: bool) -> None:
    job = ray_job(submissionMode=mode)
    assert pods(rayjob.ADAPTER, job) == CLUSTER_PODS + ([("submitter", 1)] if submitter else [])


def test_the_default_submitter_has_the_image_of_the_head() -> None:
    [container] = rayjob.ADAPTER.pod_sets(ray_job())[-1].template["spec"]["containers"]
    assert (container["name"], container["image"]) == ("ray-job-submitter", "ray:2")
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}


def test_a_start_adds_the_node_selector_to_the_default_submitter() -> None:
    infos = [PodSetInfo(name, count) for name, count in CLUSTER_PODS]
    patch = rayjob.ADAPTER.start(ray_job(), [*infos, PodSetInfo("submitter", 1, node_selector={"zone": "a"})])
    template = patch.body["spec"]["submitterPodTemplate"]
    assert template["spec"]["nodeSelector"] == {"zone": "a"}
    assert template["spec"]["restartPolicy"] == "Never"
    assert set(patch.body["spec"]) == {"suspend", "submitterPodTemplate"}


def test_a_sidecar_submitter_counts_as_part_of_the_head_pod() -> None:
    head = rayjob.ADAPTER.pod_sets(ray_job(submissionMode="SidecarMode"))[0]
    assert [container["name"] for container in head.template["spec"]["containers"]] == ["ray-head", "ray-job-submitter"]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (ray_job() | {"metadata": {"annotations": {"ray.io/ft-enabled": "True"}}}, {"cpu": "1", "memory": "256Mi"}),
        (with_field(ray_job(), "spec.rayClusterSpec.gcsFaultToleranceOptions", {}), {"cpu": "1", "memory": "256Mi"}),
        (ray_job() | {"metadata": {"annotations": {"ray.io/ft-enabled": "no"}}}, {"cpu": "1", "memory": "1Mi"}),
    ],
)
def test_the_head_of_a_fault_tolerant_cluster_accounts_for_the_cleanup_of_redis(job: Json, expected: Json) -> None:
    head = {"containers": [{"name": "ray-head", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]}
    made = with_field(job, "spec.rayClusterSpec.headGroupSpec.template.spec", head)
    [container] = rayjob.ADAPTER.pod_sets(made)[0].template["spec"]["containers"]
    assert container["resources"]["requests"] == expected
    patch = rayjob.ADAPTER.start(made, [PodSetInfo(item.name, item.pods) for item in rayjob.ADAPTER.pod_sets(made)])
    assert "headGroupSpec" not in patch.body["spec"].get("rayClusterSpec", {})


@pytest.mark.parametrize(
    ("status", "active", "ready"),
    [
        ({}, False, False),
        ({"jobDeploymentStatus": "Initializing"}, True, False),
        ({"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}}, True, True),
        ({"jobDeploymentStatus": "Suspending"}, True, False),
        ({"jobDeploymentStatus": "Suspended"}, False, False),
    ],
)
def test_a_job_is_active_from_its_start_until_it_is_suspended(status: Json, active: bool, ready: bool) -> None:
    job = ray_job(status)
    assert (rayjob.ADAPTER.is_active(job), rayjob.ADAPTER.pods_ready(job)) == (active, ready)


@pytest.mark.parametrize(
    ("deployment", "job_status", "end"),
    [
        ("Complete", "SUCCEEDED", FinishedJob(succeeded=True, message="m")),
        ("Complete", "STOPPED", FinishedJob(succeeded=False, message="m")),
        ("Failed", "", FinishedJob(succeeded=False, message="m")),
        ("ValidationFailed", "", FinishedJob(succeeded=False, message="m")),
        ("Running", "SUCCEEDED", None),
    ],
)
def test_a_job_ends_with_its_deployment(deployment: str, job_status: str, end: FinishedJob | None) -> None:
    status = {"jobDeploymentStatus": deployment, "jobStatus": job_status, "message": "m"}
    assert rayjob.ADAPTER.finished(ray_job(status)) == end


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("spec.clusterSelector", {"a": "b"}, "spec.clusterSelector: a queued job has a cluster of its own"),
        ("spec.rayClusterSpec", None, "spec.rayClusterSpec: a queued job must declare its cluster: None"),
        ("spec.shutdownAfterJobFinishes", False, "the cluster of a queued job must end with it: False"),
        ("spec.rayClusterSpec.enableInTreeAutoscaling", True, "a queued job has a fixed number of pods: True"),
        ("spec.rayClusterSpec.workerGroupSpecs.0.groupName", "head", "is the name of the head group: 'head'"),
        ("spec.rayClusterSpec.workerGroupSpecs.1.replicas", "x", "workerGroupSpecs[1].replicas: not a whole number"),
    ],
)
def test_a_job_that_cannot_be_queued_is_an_error_that_names_the_field(path: str, value: object, message: str) -> None:
    with pytest.raises(FieldError) as error:
        rayjob.ADAPTER.pod_sets(with_field(ray_job(), path, value))
    assert message in str(error.value)
