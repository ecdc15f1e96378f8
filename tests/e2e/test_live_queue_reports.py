"""What users see of the live queue: statuses, Events, metrics and the read API; and what survives a restart."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from support.http_requests import get
from support.live_cluster import KUEUE, NAMESPACE, LiveCluster
from support.live_clusters import cluster, real_cluster, simulated_cluster
from support.waiting import PATIENCE, eventually
from zonewise_scheduler.controller.planning.checkpoint_object import NAME as CHECKPOINT
from zonewise_scheduler.controller.workloads.conditions import find_condition

if TYPE_CHECKING:
    from support.live_cluster import ControllerProcess

__all__ = ["cluster", "real_cluster", "simulated_cluster"]

Json = dict[str, Any]


def port(process: ControllerProcess) -> int:
    found = re.search(r"serving on port (\d+)", process.said)
    assert found is not None, process.said
    return int(found[1])


def read(process: ControllerProcess, path: str) -> Json:
    response = get(port(process), path)
    assert response.status == 200, response.body
    return json.loads(response.body)


def queue_status(cluster: LiveCluster) -> Json:
    return cluster.api.get(f"{KUEUE}/clusterqueues/queue").ok().get("status", {})


def waiting_reason(cluster: LiveCluster, job: str) -> str:
    for workload in cluster.workloads():
        if workload["metadata"]["ownerReferences"][0]["name"] == job:
            condition = find_condition(workload, "QuotaReserved") or {}
            return condition.get("message", "") if condition.get("status") == "False" else ""
    return ""


def events(cluster: LiveCluster, job: str) -> list[str]:
    items = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/events").ok()["items"]
    return [
        each["reason"] for each in items
        if each["involvedObject"].get("name") == job and each["source"].get("component") == "zonewise-controller"
    ]  # fmt: skip


def test_users_are_informed_and_a_restart_restores_reservations(cluster: LiveCluster) -> None:
    cluster.add_nodes(1)
    cluster.add_queue(8)
    flags = ("--metrics-listen", "127.0.0.1:0", "--namespace", NAMESPACE, "--policy", "easy")
    with cluster.controller(*flags) as process:
        cluster.submit("runs", 6)
        eventually(lambda: len(cluster.running_pods("runs")) == 1)
        cluster.submit("waits", 6)
        eventually(lambda: queue_status(cluster).get("pendingWorkloads") == 1)
        status = queue_status(cluster)
        assert (status["admittedWorkloads"], status["flavorsUsage"][0]["resources"][0]["total"]) == (1, "6")
        assert (find_condition({"status": status}, "Active") or {})["reason"] == "Ready"

        eventually(lambda: "needs 6 CPUs" in waiting_reason(cluster, "waits"))
        eventually(lambda: events(cluster, "runs") == ["Admitted"] and events(cluster, "waits") == ["Pending"])

        assert get(port(process), "/readyz").body == "leads\n"
        (waiting,) = [each for each in read(process, "/api/v1/workloads")["items"] if each["state"] == "Pending"]
        assert waiting["position"] == 1
        explained = read(process, f"/api/v1/workloads/{NAMESPACE}/{waiting['name']}")
        assert explained["explanation"]["shortages"][0]["available"] == "2"
        (reservation,) = read(process, "/api/v1/plan")["reservations"]
        assert reservation["name"] == waiting["name"]
        metrics = get(port(process), "/metrics").body
        assert 'kueue_admitted_workloads_total{cluster_queue="queue"} 1.0' in metrics
        assert 'zonewise_writes_total{purpose="admit",result="done",verb="merge-patch"} 1.0' in metrics

        process.process.terminate()
        assert process.process.wait(PATIENCE) == 0
        process.is_killed = True
    checkpoint = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CHECKPOINT}").ok()
    assert checkpoint["metadata"]["annotations"]["zonewise.dev/checkpoint-reservations"] == "1 of 1"
    recording = cluster.directory / "recording.jsonl"
    with cluster.controller(*flags, "--recording", str(recording)) as process:
        eventually(lambda: read(process, "/api/v1/plan")["reservations"])
        entries = [json.loads(line) for line in recording.read_text().splitlines()]
        (restored,) = [entry["checkpoint"] for entry in entries if entry.get("entry") == "restore"]
        assert [each["workload"] for each in restored["reservations"]] == [f"{NAMESPACE}/{waiting['name']}"]
