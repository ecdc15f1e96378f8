"""The live queue's adapter starts and stops batch/v1 Jobs, and the API server accepts each write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.apiserver import real_server
from support.clusters import Cluster, cluster, embedded_server
from support.job_api import JobApi
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.jobs.interface import JobPatch, PodSetInfo
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload

if TYPE_CHECKING:
    from support.apiserver import RealServer

__all__ = ["cluster", "embedded_server", "real_server"]

Json = dict[str, Any]

START_TIME = "2026-01-01T00:00:00Z"
INFO = PodSetInfo(
    "main",
    2,
    {"kueue.x-k8s.io/podset": "main"},
    {"kueue.x-k8s.io/workload": "job-train"},
    {"pool": "a"},
    [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    ["kueue.x-k8s.io/topology"],
)


def job() -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "1024Mi"}}}
    template = {
        "metadata": {"labels": {"mine": "1"}},
        "spec": {"containers": [container], "restartPolicy": "Never", "nodeSelector": {"disk": "ssd"}},
    }
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {
            "suspend": True,
            "parallelism": 4,
            "completions": 8,
            "activeDeadlineSeconds": 60,
            "template": template,
        },
    }


def write(cluster: Cluster, path: str, patch: JobPatch | None) -> Json:
    assert patch is not None
    subresource = f"/{patch.subresource}" if patch.subresource else ""
    return cluster.api.patch(f"{path}{subresource}", patch.body).ok()


def follow(cluster: Cluster, path: str, **status: object) -> Json:
    """Write a status as the Job controller does."""
    return cluster.api.patch(f"{path}/status", {"status": status}).ok()


def suspended(status: str) -> Json:
    return {"type": "Suspended", "status": status, "lastProbeTime": START_TIME, "lastTransitionTime": START_TIME}


@pytest.mark.parametrize("clears_start_time", [True, False])
def test_a_job_starts_stops_and_ends_as_it_was_submitted(cluster: Cluster, clears_start_time: bool) -> None:
    path = f"{cluster.jobs}/train"
    created = cluster.api.post(cluster.jobs, job()).ok()
    original = ADAPTER.pod_sets(created)
    workload = build_workload(created, JOBS, original, ManifestOptions())
    assert matches(workload, ADAPTER, created)
    started = write(cluster, path, ADAPTER.start(created, [INFO]))
    spec = started["spec"]["template"]["spec"]
    assert (started["spec"]["suspend"], started["spec"]["parallelism"]) == (False, 2)
    assert (spec["nodeSelector"], spec["schedulingGates"]) == (
        {"disk": "ssd", "pool": "a"},
        [{"name": INFO.scheduling_gates[0]}],
    )
    running = follow(cluster, path, active=2, ready=0, startTime=START_TIME, conditions=[suspended("False")])
    assert ADAPTER.is_active(running)
    stopping = write(cluster, path, ADAPTER.next_stop(running, original))
    assert not ADAPTER.is_suspended(stopping)
    assert ADAPTER.next_stop(stopping, original) is None
    left = None if clears_start_time else START_TIME
    stopped = follow(cluster, path, active=0, startTime=left, conditions=[suspended("True")])
    if not clears_start_time:
        stopped = write(cluster, path, ADAPTER.next_stop(stopped, original))
    restored = write(cluster, path, ADAPTER.next_stop(stopped, original))
    assert ADAPTER.next_stop(restored, original) is None
    assert ADAPTER.is_suspended(restored)
    assert restored["spec"] == created["spec"]
    assert restored["metadata"]["annotations"] == created["metadata"]["annotations"]
    assert matches(workload, ADAPTER, restored)
    again = write(cluster, path, ADAPTER.start(restored, [INFO]))
    assert again["spec"] == started["spec"]


@pytest.mark.parametrize("active", [0, 2])
@pytest.mark.parametrize("start_time", [None, START_TIME])
@pytest.mark.parametrize("confirmed", [True, False])
def test_the_model_of_the_unit_tests_allows_template_changes_when_the_api_server_does(
    real_server: RealServer, active: int, start_time: str | None, confirmed: bool
) -> None:
    cluster = Cluster(real_server.admin, real=True)
    created = cluster.api.post(cluster.jobs, job()).ok()
    path = f"{cluster.jobs}/train"
    write(cluster, path, ADAPTER.start(created, [INFO]))
    follow(cluster, path, active=active, startTime=START_TIME, conditions=[suspended("False")])
    cluster.api.patch(path, {"spec": {"suspend": True}}).ok()
    held = follow(cluster, path, active=active, startTime=start_time, conditions=[suspended(str(confirmed))])
    change = {"spec": {"template": {"spec": {"nodeSelector": {"pool": None}}}}}
    answer = cluster.api.patch(path, change)
    assert (answer.status == 200) == JobApi(held, clears_start_time=True).is_template_mutable
    if answer.status != 200:
        answer.refused(422, "Invalid")
