"""Whether a job has active pods, according to the pods or to the job's own status."""

from __future__ import annotations

from typing import Any

import msgspec

from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
from zonewise_scheduler.controller.planning.active_jobs import ActiveJobs
from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

JOB = ObjectKey(JOBS, "ns", "j")
WORKLOAD: Json = {"metadata": {"name": "w", "ownerReferences": [{"uid": "u", "controller": True}]}}


def job(**status: Any) -> Json:
    return {"metadata": {"namespace": "ns", "name": "j", "uid": "u"}, "spec": {"suspend": False}, "status": status}


def test_a_job_is_active_according_to_its_status_until_it_has_ended() -> None:
    objects: dict[ObjectKey, Json] = {JOB: job(active=1)}
    jobs = ActiveJobs(objects.get, {"u": JOB}, adapters_by_kind(), NodeTracker(), lambda _key: ())
    assert not jobs.is_active("ns/w"), "its Workload is unknown"
    jobs.set_owner("ns/w", WORKLOAD)
    jobs.set_owner("ns/w", None)
    assert jobs.is_active("ns/w")
    objects[JOB] = job(terminating=1)
    assert jobs.is_active("ns/w")
    objects[JOB] = job(active=1, conditions=[{"type": "Complete", "status": "True"}])
    assert not jobs.is_active("ns/w")
    objects[JOB] = job(active="invalid")
    assert not jobs.is_active("ns/w"), "what cannot be read"
    objects[JOB] = job(active=1)
    jobs.forget("ns/w")
    assert not jobs.is_active("ns/w")


def test_a_workload_with_an_active_pod_is_active_whatever_the_status_of_its_job() -> None:
    """A pod that its gate holds cannot run."""
    pods: list[ManagedPod] = []
    jobs = ActiveJobs({JOB: job()}.get, {"u": JOB}, adapters_by_kind(), NodeTracker(), lambda _key: pods)
    jobs.set_owner("ns/w", WORKLOAD)
    pod = ManagedPod("u-p", "ns", "p", "w", "main")
    for observed, is_active in (
        (pod, True),
        (msgspec.structs.replace(pod, gates=("kueue.x-k8s.io/topology",)), False),
        (msgspec.structs.replace(pod, gates=("example.com/other",)), True),
        (msgspec.structs.replace(pod, phase="Succeeded"), False),
    ):
        pods[:] = [observed]
        assert jobs.is_active("ns/w") is is_active
    pods.clear()
    assert not jobs.is_active("ns/w")
