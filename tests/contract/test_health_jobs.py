"""By its podFailurePolicy, a Job is retried after a hardware fault, but not after a failure of its program."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.api import Api, Json
from support.clusters import Cluster, pod
from support.controller_manager import real_job_server
from support.health_stories import FIRST_GPU, Story, xid
from support.waiting import eventually
from zonewise.health.types import PodName
from zonewise.publish.fault_publisher import FaultPublisher
from zonewise_common.cli.terminal import Terminal
from zonewise_common.k8s.hardware_conditions import NODE_CONDITIONS, POD_CONDITION
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_scheduler.client.cluster.read_api import ReadApi
from zonewise_scheduler.client.cluster.session import Session
from zonewise_scheduler.client.describe.description import render_description
from zonewise_scheduler.client.describe.explaining import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.apiserver import RealServer

__all__ = ["real_job_server"]

NODE = "node-7"
POLICY = {"rules": [
    {"action": "Ignore", "onPodConditions": [{"type": POD_CONDITION, "status": "True"}]},
    {"action": "FailJob", "onPodConditions": [{"type": POD_CONDITION, "status": "False"}]},
]}  # fmt: skip


class HealthCluster(Cluster):
    """A cluster with the client of an agent."""

    def __init__(self, api: Api, client: Client, *, real: bool) -> None:
        super().__init__(api, real=real)
        self.client = client


@pytest.fixture(scope="module")
def simulated_jobs() -> Iterator[HealthCluster]:
    with (
        ApiServer() as server,
        JobController(server.client_config()),
        contextlib.closing(Client(server.client_config())) as client,
    ):
        yield HealthCluster(Api(server.url), client, real=False)


@pytest.fixture(scope="module")
def real_jobs(real_job_server: RealServer) -> Iterator[HealthCluster]:
    config = Config.from_url(real_job_server.url, real_job_server.token, ca=real_job_server.ca)
    with contextlib.closing(Client(config)) as client:
        yield HealthCluster(real_job_server.admin, client, real=True)


@pytest.fixture(params=["simulated", "real"])
def cluster(request: pytest.FixtureRequest) -> HealthCluster:
    cluster: HealthCluster = request.getfixturevalue(f"{request.param}_jobs")
    response = cluster.api.post("/api/v1/nodes", {"metadata": {"name": NODE}})
    assert response.status in {201, 409}, response.body
    return cluster


def create_job(cluster: HealthCluster, name: str) -> Json:
    """Create a Job and return its pod, which runs on our node."""
    spec = {**pod("x")["spec"], "restartPolicy": "Never", "nodeName": NODE, "terminationGracePeriodSeconds": 0}
    body = {
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "podFailurePolicy": POLICY, "template": {"spec": spec}},
    }
    cluster.api.post(cluster.jobs, body).ok()
    eventually(lambda: live(cluster, name))
    return live(cluster, name)[0]


def live(cluster: HealthCluster, job: str) -> list[Json]:
    items = cluster.api.get(cluster.pods, labelSelector=f"job-name={job}").ok()["items"]
    return [one for one in items if one["status"].get("phase") not in {"Succeeded", "Failed"}]


def fail(cluster: HealthCluster, one: Json) -> None:
    """End a pod as its kubelet would, without changing other conditions."""
    state = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": state}
    body = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    cluster.api.patch(f"{cluster.pods}/{one['metadata']['name']}/status", body).ok()


def strike(cluster: HealthCluster, one: Json, code: int) -> FaultPublisher:
    """Raise an XID on the GPU of a pod, and publish the consequences."""
    story = Story()
    story.now = time.time()
    story.held = {FIRST_GPU: [PodName(cluster.namespace, one["metadata"]["name"], "main")]}
    story.observe()
    story.observe(events=xid(code, story.now + 1))
    publisher = FaultPublisher(cluster.client, NODE)
    assert publisher.publish(story.state.active).pods == 1
    assert publisher.publish(story.state.active).total == 0
    return publisher


def pod_conditions(cluster: HealthCluster, name: str) -> dict[str, Any]:
    status = cluster.api.get(f"{cluster.pods}/{name}").ok()["status"]
    return {condition["type"]: condition for condition in status["conditions"]}


def explained(cluster: HealthCluster, reference: str) -> str:
    """Return the output of `zonewise explain`."""
    with contextlib.closing(ReadApi.at("http://127.0.0.1:1", "")) as read_api:
        description = explain(Session(cluster.client, read_api, cluster.namespace), reference)
    assert description is not None
    return render_description(description, "table", Terminal())


def test_a_pod_that_hardware_ended_is_replaced_and_not_counted(cluster: HealthCluster) -> None:
    first = create_job(cluster, "hardware")
    name = first["metadata"]["name"]
    publisher = strike(cluster, first, 79)
    condition = pod_conditions(cluster, name)[POD_CONDITION]
    assert (condition["status"], condition["reason"]) == ("True", "XID79")
    assert "verdict hardware" in condition["message"]
    fail(cluster, first)
    eventually(lambda: any(one["metadata"]["uid"] != first["metadata"]["uid"] for one in live(cluster, "hardware")))
    assert "failed" not in cluster.api.get(f"{cluster.jobs}/hardware").ok()["status"]
    node = cluster.api.get(f"/api/v1/nodes/{NODE}").ok()
    statuses = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert statuses == {**dict.fromkeys(NODE_CONDITIONS, "False"), "GPUHardwareFault": "True"}
    events = cluster.api.get(f"/api/v1/namespaces/{cluster.namespace}/events").ok()["items"]
    assert [event["involvedObject"]["name"] for event in events if event["reason"] == "XID79"] == [name]
    text = explained(cluster, "job/hardware")
    assert "fault  the hardware: XID 79: " in text
    assert f"(gpu {FIRST_GPU.name}) on {NODE} at " in text
    assert f" pod {name} ended with exit code 1" in text
    cluster.api.delete(f"{cluster.pods}/{name}", gracePeriodSeconds=0)
    eventually(lambda: cluster.api.get(f"{cluster.pods}/{name}").status == 404)
    assert f"while pod {name} held it" in explained(cluster, "job/hardware")
    assert publisher.publish(()).node == 1
    node = cluster.api.get(f"/api/v1/nodes/{NODE}").ok()
    assert {one["status"] for one in node["status"]["conditions"]} == {"False"}


def test_a_job_whose_program_failed_fails_at_once(cluster: HealthCluster) -> None:
    first = create_job(cluster, "program")
    strike(cluster, first, 31)
    assert pod_conditions(cluster, first["metadata"]["name"])[POD_CONDITION]["status"] == "False"
    fail(cluster, first)

    def failed() -> bool:
        conditions = cluster.api.get(f"{cluster.jobs}/program").ok()["status"].get("conditions", [])
        return any(one["type"] == "Failed" and one["reason"] == "PodFailurePolicy" for one in conditions)

    eventually(failed)
    text = explained(cluster, "job/program")
    assert "failed  PodFailurePolicy: " in text
    assert "fault   the program, not the hardware: XID 31: " in text
    assert "the program, not the hardware: XID 31: " in explained(cluster, f"pod/{first['metadata']['name']}")


def test_a_hardware_fault_outranks_a_failure_of_the_program(cluster: HealthCluster) -> None:
    first = create_job(cluster, "both")
    strike(cluster, first, 31)
    strike(cluster, first, 79)
    assert pod_conditions(cluster, first["metadata"]["name"])[POD_CONDITION]["reason"] == "XID79"
