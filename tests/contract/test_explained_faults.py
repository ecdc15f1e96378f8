"""`zonewise explain JOB` states whether a hardware fault ended a queued job, from the objects at the API server."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.api import Api
from support.health_stories import FIRST_GPU, Story, xid
from support.live_queue import KUEUE_CRDS
from zonewise.cli import main
from zonewise.health.types import PodName
from zonewise.publish.fault_publisher import FaultPublisher
from zonewise_common.kube.client import Client
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
NODE, POD = "node-7", "train-7x2bq"
CORE = "/api/v1/namespaces/default"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(crds=sorted(KUEUE_CRDS.glob("workloads.yaml"))) as server:
        yield server


def add_failed_job(api: Api) -> None:
    """Add the Workload of a Job whose only pod has failed."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}
    container = {"name": "main", "image": "i"}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
    metadata = {"name": "job-train-1", "ownerReferences": [owner]}
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
    api.post(workloads, {**kind, "metadata": metadata, "spec": {"queueName": "gpu", "podSets": [pod_set]}}).ok()
    condition = {"type": "Finished", "status": "True", "reason": "Failed", "message": "Job has failed",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    api.patch(f"{workloads}/job-train-1/status", {"status": {"conditions": [condition]}}).ok()
    spec = {"nodeName": NODE, "restartPolicy": "Never", "containers": [container]}
    pod = {"name": POD, "labels": {"batch.kubernetes.io/job-name": "train"}, "ownerReferences": [owner]}
    api.post(f"{CORE}/pods", {"metadata": pod, "spec": spec}).ok()
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
    status = {"name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": ended}
    api.patch(f"{CORE}/pods/{POD}/status", {"status": {"phase": "Failed", "containerStatuses": [status]}}).ok()


def test_a_job_that_hardware_ended(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(server.url)
    api.post("/api/v1/nodes", {"metadata": {"name": NODE}}).ok()
    add_failed_job(api)

    def explained() -> str:
        assert main(["explain", "train", "--api-server", server.url, "--server", "http://127.0.0.1:1"]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert f"fault unknown on {NODE}: its agent publishes no health (health.mode)" in explained()
    with contextlib.closing(Client(server.client_config())) as client:
        publisher = FaultPublisher(client, NODE)
        publisher.publish(())
        assert f"fault none on a device of its pods, according to the agent of {NODE}" in explained()
        story = Story()
        story.now = time.time()
        story.held = {FIRST_GPU: [PodName("default", POD, "main")]}
        story.observe()
        story.observe(events=xid(79, story.now + 1))
        publisher.publish(story.state.active)
    text = explained()
    sentence = text[text.index("fault the hardware: XID 79: ") :].partition(", ")[0]
    assert f"(gpu {FIRST_GPU.name}) on {NODE} at " in sentence
    assert "why Job has failed" in text
    api.delete(f"{CORE}/pods/{POD}", gracePeriodSeconds=0).ok()
    assert sentence in explained()
