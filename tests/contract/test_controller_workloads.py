"""The life of a Workload as the live queue writes it: the API server, with our definition of the kind, stores it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from support.admissions import pending_workload
from support.apiserver import real_server
from support.clusters import DEFINITIONS, Cluster, cluster, embedded_server
from support.manifests import MANIFESTS
from support.waiting import eventually
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.jobs.interface import FinishedJob
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload
from zonewise_scheduler.controller.workloads.status import (
    EvictionCause,
    RequeueState,
    admit,
    evict,
    explain_pending,
    finish,
    reactivate,
    release_quota,
    requeue,
    reserve_quota,
    set_admission_check,
    set_pods_ready,
    set_reclaimable_pods,
)
from zonewise_scheduler.quota.api.job_priority import PriorityClasses
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment

__all__ = ["cluster", "embedded_server", "real_server"]

Json = dict[str, Any]

NOW = 1_700_000_000.0
DEFINITION = MANIFESTS / "scheduler" / "components" / "kueue-crds" / "workloads.yaml"


@pytest.fixture
def workloads(cluster: Cluster) -> Cluster:
    """Yield each server in turn; both serve Workloads."""
    answer = cluster.api.post(DEFINITIONS, yaml.safe_load(DEFINITION.read_text()))
    assert answer.status in {201, 409}, answer.body
    eventually(lambda: cluster.api.serves(WORKLOADS.group, WORKLOADS.version, WORKLOADS.plural))
    return cluster


def create(cluster: Cluster, workload: Json) -> Json:
    metadata = {**workload["metadata"], "namespace": cluster.namespace}
    path = WORKLOADS.path(namespace=cluster.namespace)
    body = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", **workload, "metadata": metadata}
    return cluster.api.post(path, body, fieldValidation="Strict").ok()


def patch(cluster: Cluster, workload: Json, body: Json | None) -> Json:
    """Patch the status of a Workload and return the result; the server must know each field."""
    assert body is not None
    path = WORKLOADS.path(workload["metadata"]["name"], cluster.namespace, "status")
    return cluster.api.patch(path, body, fieldValidation="Strict").ok()


def job() -> Json:
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        "ports": [{"containerPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "1024Mi", "nvidia.com/gpu": "1"}},
    }
    annotations = {
        "kueue.x-k8s.io/podset-required-topology": "rack",
        "kueue.x-k8s.io/podset-slice-required-topology": HOSTNAME,
        "kueue.x-k8s.io/podset-slice-size": "2",
    }
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"},
            "annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"},
        },
        "spec": {
            "suspend": True, "parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": template,
            "activeDeadlineSeconds": 600,
        },
    }  # fmt: skip


def test_the_workload_of_a_job_is_stored_as_it_was_built(workloads: Cluster) -> None:
    created_job = workloads.api.post(workloads.jobs, job()).ok()
    options = ManifestOptions(PriorityClasses({"high": 5}))
    built = build_workload(created_job, JOBS, ADAPTER.pod_sets(created_job), options)
    created = create(workloads, built)
    assert created["spec"] == built["spec"]
    assert matches(created, ADAPTER, created_job)
    result = read_workload(created)
    assert result.problems == ()
    assert result.workload is not None
    assert (result.workload.priority, result.workload.walltime) == (5, 600)


def test_each_status_of_a_life_is_accepted_and_stored(workloads: Cluster) -> None:
    names = ("leader", "workers")
    domains = tuple(TopologyDomainAssignment((f"node-{i}",), 1 + i % 2) for i in range(6))
    pod_sets = (
        PodSetAdmission("leader", {"cpu": "f"}, {"cpu": 1500}, 9),
        PodSetAdmission(
            "workers", {"cpu": "f", "memory": "f"}, {"cpu": 9000, "memory": 3 << 30}, 9,
            TopologyAssignment((HOSTNAME,), domains), "Ready",
        ),
    )  # fmt: skip
    admission = Admission("cq", pod_sets, NOW, ("provision",))
    workload = create(workloads, pending_workload(names))
    workload = patch(workloads, workload, explain_pending(workload, "WaitingForQuota", "needs 4 CPUs", NOW))
    workload = patch(workloads, workload, reserve_quota(workload, admission))
    result = read_workload(workload)
    assert result.problems == ()
    assert result.workload is not None
    assert result.workload.admission == admission
    check = {"name": "provision", "state": "Ready", "message": "done"}
    workload = patch(workloads, workload, set_admission_check(workload, check, NOW + 1))
    workload = patch(workloads, workload, admit(workload, NOW + 2))
    workload = patch(workloads, workload, set_pods_ready(workload, NOW + 3, ready=True))
    workload = patch(workloads, workload, set_reclaimable_pods(workload, {"workers": 3}))
    cause = EvictionCause("Preempted", "for another workload", "", "InClusterQueue")
    workload = patch(workloads, workload, evict(workload, cause, NOW + 9, RequeueState(1, NOW + 60)))
    workload = patch(workloads, workload, release_quota(workload, NOW + 10))
    assert not is_true(workload, "QuotaReserved")
    workload = patch(workloads, workload, requeue(workload, "BackoffFinished", "", NOW + 60))
    workload = patch(workloads, workload, reactivate(workload, NOW + 60))
    again = admission._replace(cluster_queue="other", pod_sets=pod_sets[::-1], reserved_at=NOW + 61)
    workload = patch(workloads, workload, reserve_quota(workload, again))
    workload = patch(workloads, workload, finish(workload, FinishedJob(succeeded=True, message=""), NOW + 70))
    assert read_workload(workload).finished
    assert workload["status"]["accumulatedPastExecutionTimeSeconds"] == 8
    assert workload["status"]["schedulingStats"]["evictions"][0]["count"] == 1
