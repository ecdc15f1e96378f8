"""The Workload of a started job, reconstructed from the annotations of its start."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from support.controller_stories import ControllerStory
from support.model_cluster import ModelCluster
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.planning.lost_workload import noted_workload_name, workload_of_job, workload_of_pods
from zonewise_scheduler.controller.pods.managed_pod import ManagedPod, read_managed_pod
from zonewise_scheduler.controller.pods.pod_names import ADMISSION_ANNOTATION
from zonewise_scheduler.nodes.node.pod_requests import pod_requests
from zonewise_scheduler.quota.api.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.resource_settings import parse_resource_settings
from zonewise_scheduler.quota.api.workload_reader import read_workload

Json = dict[str, Any]


def started_job() -> tuple[Json, Json]:
    """Return a Job of three pods that the live queue has started, and its Workload."""
    story = ControllerStory(ModelCluster())
    key = story.cluster.submit("j", 2, pods=3)
    story.settle()
    (workload,) = story.cluster.workloads()
    return story.cluster.get(key), workload


def test_the_lost_workload_has_its_name_pods_and_quota() -> None:
    job, workload = started_job()
    lost = workload_of_job(job, JOBS, ADAPTER.pod_sets(job), NO_POD_DEFAULTS)
    assert lost is not None
    for part in ("name", "namespace", "ownerReferences"):
        assert lost["metadata"][part] == workload["metadata"][part]
    assert noted_workload_name(job) == workload["metadata"]["name"]
    read, original = read_workload(lost).workload, read_workload(workload).workload
    assert read is not None
    assert original is not None
    assert read.uid == job["metadata"]["uid"] != original.uid
    assert (read.usage, read.queue_name) == (original.usage, original.queue_name)
    assert [(each.name, each.pods, each.requests) for each in read.pod_sets] == [
        (each.name, each.pods, each.requests) for each in original.pod_sets
    ]
    assert dict(read.usage)
    assert read.admission is not None
    assert original.admission is not None
    assert read.admission.cluster_queue == original.admission.cluster_queue


def test_the_lost_workload_has_run_since_the_start_of_its_job_or_oldest_pod() -> None:
    """The walltime counts from that time; otherwise it would be exceeded by years."""
    job, _ = started_job()
    job["status"]["startTime"] = "2026-01-01T00:01:00Z"
    pods = [pod_of(job, name, f"2026-01-01T00:0{minute}:00Z") for name, minute in (("a", 3), ("b", 2))]
    flavors = {"f": ResourceFlavor("f")}
    by_job, by_pods = (
        workload_of_job(job, JOBS, ADAPTER.pod_sets(job), NO_POD_DEFAULTS),
        workload_of_pods("ns/w", pods, flavors, NO_POD_DEFAULTS),
    )
    starts: list[float] = []
    for lost in (by_job, by_pods):
        assert lost is not None
        workload = read_workload(lost).workload
        assert workload is not None
        assert workload.admission is not None
        starts.append(workload.admission.started_at)
    assert starts == [1767225660.0, 1767225720.0]


def pod_of(job: Json, name: str, created: str) -> ManagedPod:
    """Return a pod of a job on a node."""
    pod = copy.deepcopy(job["spec"]["template"])
    pod["metadata"] |= {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": created}
    managed = read_managed_pod(pod, pod_requests(pod))
    assert managed is not None
    return managed


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"main":{"annotations":{"kueue.x-k8s.io/workload":"w"}}}'])
def test_no_workload_is_reconstructed_without_a_noted_admission(text: str) -> None:
    job, _ = started_job()
    job["metadata"]["annotations"] = {INJECTED_ANNOTATION: text}
    assert workload_of_job(job, JOBS, ADAPTER.pod_sets(job), NO_POD_DEFAULTS) is None


def test_neither_amounts_nor_the_placement_are_noted() -> None:
    """Amounts follow from the pods. A pod without a placement in the planner counts as usage of its node."""
    job, _ = started_job()
    noted = json.loads(job["metadata"]["annotations"][INJECTED_ANNOTATION])["main"]["annotations"][ADMISSION_ANNOTATION]
    assert json.loads(noted) == {"clusterQueue": "q", "count": 3, "flavors": {"cpu": "f"}}
    assert job["spec"]["template"]["metadata"]["annotations"][ADMISSION_ANNOTATION] == noted


def test_a_job_uses_no_more_than_its_pods_request_whatever_its_annotation() -> None:
    job, _ = started_job()
    injected = json.loads(job["metadata"]["annotations"][INJECTED_ANNOTATION])
    noted = {"clusterQueue": "q", "count": 1_000_000, "flavors": {"cpu": "f", "memory": "f"}}
    injected["main"] |= {"annotations": injected["main"]["annotations"] | {ADMISSION_ANNOTATION: json.dumps(noted)}}
    job["metadata"]["annotations"][INJECTED_ANNOTATION] = json.dumps(injected)
    lost = workload_of_job(job, JOBS, ADAPTER.pod_sets(job), NO_POD_DEFAULTS)
    assert lost is not None
    (assignment,) = lost["status"]["admission"]["podSetAssignments"]
    assert assignment["resourceUsage"] == {"cpu": "6", "memory": "0"}


def test_the_settings_and_the_devices_of_claims_count_as_at_the_start() -> None:
    """Otherwise, other jobs would get the same quota while the pods are active."""
    job, _ = started_job()
    injected = json.loads(job["metadata"]["annotations"][INJECTED_ANNOTATION])
    noted = json.dumps({"clusterQueue": "q", "count": 3, "flavors": {"credits": "f", "gpus": "f"}})
    injected["main"]["annotations"][ADMISSION_ANNOTATION] = noted
    job["metadata"]["annotations"][INJECTED_ANNOTATION] = json.dumps(injected)
    template = job["spec"]["template"]
    template["metadata"]["annotations"][ADMISSION_ANNOTATION] = noted
    template["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "two"}]
    template["spec"]["containers"][0]["resources"]["requests"]["deviceclass.resource.kubernetes.io/gpu.example.com"] = 1
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    defaults = PodDefaults(claim_templates={"ns": {"two": {"spec": {"devices": {"requests": [request]}}}}})
    resources = parse_resource_settings(
        {
            "transformations": [{"input": "cpu", "strategy": "Replace", "outputs": {"credits": "1500m"}}],
            "deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["gpu.example.com"]}],
        }
    )
    pods = [pod_of(job, name, "2026-01-01T00:00:00Z") for name in "abc"]
    for lost in (
        workload_of_job(job, JOBS, ADAPTER.pod_sets(job), defaults, resources),
        workload_of_pods("ns/w", pods, {"f": ResourceFlavor("f")}, defaults, resources),
    ):
        assert lost is not None
        (assignment,) = lost["status"]["admission"]["podSetAssignments"]
        assert assignment["resourceUsage"] == {"credits": "9", "gpus": "9"}
        assert [assignment["name"], *(each["name"] for each in lost["spec"]["podSets"])] == ["main", "main"]
