"""RayServices: their pod sets, and when they are active."""

from __future__ import annotations

from typing import Any

import pytest

from support.job_kinds import ray_cluster_spec, worker_group
from zonewise_scheduler.controller.jobs import rayservice
from zonewise_scheduler.controller.jobs.interface import PodSetInfo

Json = dict[str, Any]
HEAD: Json = {"spec": {"containers": [{"name": "ray-head", "image": "ray:2"}]}}


def service(status: Json | None = None) -> Json:
    cluster = {"suspend": True, **ray_cluster_spec(HEAD, worker_group("Small", replicas=2))}
    return {"spec": {"rayClusterConfig": cluster}, "status": status or {}}


def cluster_state(state: str, field: str = "activeServiceStatus") -> Json:
    return {field: {"rayClusterName": "c", "rayClusterStatus": {"state": state}}}


READY: Json = {"conditions": [{"type": "Ready", "status": "True", "message": ""}]}


def test_a_start_resumes_the_cluster_of_the_service() -> None:
    assert [(item.name, item.pods) for item in rayservice.ADAPTER.pod_sets(service())] == [("head", 1), ("small", 2)]
    infos = [PodSetInfo("head", 1, node_selector={"zone": "a"}), PodSetInfo("small", 2)]
    changed = rayservice.ADAPTER.start(service(), infos).body["spec"]["rayClusterConfig"]
    assert changed["suspend"] is False
    assert changed["headGroupSpec"]["template"]["spec"]["nodeSelector"] == {"zone": "a"}


@pytest.mark.parametrize(
    ("status", "active", "ready"),
    [
        ({}, False, False),
        (cluster_state(""), False, False),
        (cluster_state("suspended"), False, False),
        (cluster_state("ready"), True, False),
        (cluster_state("failed", "pendingServiceStatus"), True, False),
        ({**cluster_state("ready"), **READY}, True, True),
        ({**cluster_state("suspended"), **READY}, True, True),
    ],
)
def test_a_service_is_active_while_it_or_one_of_its_clusters_is_ready(status: Json, active: bool, ready: bool) -> None:
    adapter, job = rayservice.ADAPTER, service(status)
    assert (adapter.is_active(job), adapter.pods_ready(job)) == (active, ready)
    assert adapter.finished(job) is None
