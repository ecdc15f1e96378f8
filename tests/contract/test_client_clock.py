"""Commands measure durations with the clock of the cluster, which may run faster than that of this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.api import Api
from support.clock import Clock
from support.live_queue import KUEUE_CRDS
from zonewise.cli import main
from zonewise_common.service.handlers import GetHandler, Request, Response, json_response
from zonewise_common.service.http_server import HttpServer
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 1_000_000_000.0
"""2001-09-09T01:46:40Z."""
STARTED = "2001-09-09T01:46:40Z"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def server(clock: Clock) -> Iterator[ApiServer]:
    """Return a cluster with a job that has been running since START."""
    with ApiServer(crds=sorted(KUEUE_CRDS.glob("*s.yaml")), clock=clock) as running:
        api = Api(running.url)
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
        metadata = {"name": "job-train", "ownerReferences": [owner]}
        spec = {"queueName": "queue", "maximumExecutionTimeSeconds": 4 * 3600,
                "podSets": [{"name": "main", "count": 1, "template": template}]}  # fmt: skip
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
        api.post(WORKLOADS, {**kind, "metadata": metadata, "spec": spec}).ok()
        admitted = [
            {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": STARTED}
            for kind in ("QuotaReserved", "Admitted")
        ]
        admission = {"clusterQueue": "queue", "podSetAssignments": [{"name": "main", "count": 1}]}
        api.patch(f"{WORKLOADS}/job-train/status", {"status": {"admission": admission, "conditions": admitted}}).ok()
        yield running


def forecast(_request: Request) -> Response:
    """Return a controller's forecast of a start in three hours."""
    times = dict.fromkeys(("earliest", "likely", "latest"), "2001-09-09T04:46:40Z")
    return json_response({"at": STARTED, "clusterQueue": "queue", "localQueue": "queue", "forecast": times})


def run(capsys: pytest.CaptureFixture[str], server: ApiServer, *arguments: str) -> str:
    assert main([*arguments, "--api-server", server.url, "-n", "default"]) == 0
    return capsys.readouterr().out


def test_durations_follow_the_clock_of_the_api_server(
    server: ApiServer, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZONEWISE_SERVER", raising=False)
    for hours in (1, 3):
        clock.now = START + hours * 3600
        [row] = [line.split() for line in run(capsys, server, "queue", "--jobs").splitlines() if "train" in line]
        assert f"{hours}h" in row
        shown = run(capsys, server, "explain", "train")
        assert f"runs for {hours}h, ends in {4 - hours}h at the latest" in shown


def test_a_forecast_follows_the_clock_of_the_controller(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    controller = HttpServer("127.0.0.1:0", GetHandler({"/api/v1/forecast": forecast}))
    controller.start()
    url = f"http://127.0.0.1:{controller.port}"
    try:
        assert "04:46 UTC (in 3h)" in run(capsys, server, "forecast", "--server", url)
        assert json.loads(run(capsys, server, "forecast", "--server", url, "-o", "json"))["at"] == STARTED
    finally:
        controller.close()
