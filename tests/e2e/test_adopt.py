"""The queues of an installed Kueue are handed over and back while its Jobs keep running."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.kueue_beside import FINALIZER, LEASE_NAME, LEASES, lease, leave_admitted_job, renew, start_kueue
from support.live_cluster import KUEUE, NAMESPACE, LiveCluster
from support.live_clusters import CLUSTERS, real_cluster, simulated_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.kueue.managed_condition import MANAGED_BY_KUEUE
from zonewise_scheduler.controller.planning.checkpoint_object import NAME as CHECKPOINT
from zonewise_scheduler.controller.workloads.conditions import is_true

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["real_cluster", "simulated_cluster"]

QUEUE = f"{KUEUE}/clusterqueues/queue"
CONFIGURATION = "kueue-validating-webhook-configuration"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
RENEWAL_PERIOD = 0.5
"""Seconds between two renewals of Kueue's Lease; Kueue renews it every 2 s."""
CONFIG_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CHECKPOINT}"
Json = dict[str, Any]


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """Yield a cluster with a queue of 8 CPUs, a stopped Kueue, and its Job, which runs on 6 of the CPUs."""
    running: LiveCluster = request.getfixturevalue(f"{request.param}_cluster")
    running.add_nodes(2)
    running.add_queue(8)
    flavor = {"metadata": {"finalizers": [FINALIZER]}, "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}}}
    running.api.patch(f"{KUEUE}/resourceflavors/all", flavor).ok()
    running.api.patch(QUEUE, {"metadata": {"finalizers": [FINALIZER]}}).ok()
    start_kueue(running.api)
    leave_admitted_job(running.api, "kueues", 6, deadline=7200)
    if running.real:
        running.api.post(WEBHOOKS, kueue_webhooks()).ok()
    yield running
    for path in (f"{WEBHOOKS}/{CONFIGURATION}", f"{LEASES}/{LEASE_NAME.name}", CONFIG_MAP):
        running.api.delete(path)
    for path in (f"{KUEUE}/resourceflavors/all", QUEUE, *(workload_path(obj) for obj in running.workloads())):
        running.api.patch(path, {"metadata": {"finalizers": None}})
    running.clear()


def kueue_webhooks() -> Json:
    """Return the webhook for Workloads; no pod of its Service runs, so it rejects them."""
    service = {"namespace": LEASE_NAME.namespace, "name": "kueue-webhook-service", "path": "/validate"}
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta2"], "operations": ["CREATE", "UPDATE"],
            "resources": ["workloads", "workloads/status"]}  # fmt: skip
    webhook = {"name": "vworkload.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
               "failurePolicy": "Fail", "clientConfig": {"service": service}, "rules": [rule]}  # fmt: skip
    return {"metadata": {"name": CONFIGURATION}, "webhooks": [webhook]}


def workload_path(obj: Json) -> str:
    return f"{KUEUE}/namespaces/{NAMESPACE}/workloads/{obj['metadata']['name']}"


def adopt(cluster: LiveCluster, *flags: str) -> tuple[int, str]:
    """Run `zonewise adopt`; return its status and its output."""
    command = [sys.executable, "-m", "zonewise", "adopt", *cluster.flags, "--namespace", NAMESPACE, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def is_on_standby(cluster: LiveCluster) -> bool:
    return is_true(cluster.api.get(QUEUE).ok(), MANAGED_BY_KUEUE)


def queue_status(cluster: LiveCluster) -> Json:
    return cluster.api.get(QUEUE).ok().get("status", {})


def test_queues_are_handed_over_and_back_while_jobs_run(cluster: LiveCluster) -> None:
    eventually(lambda: len(cluster.running_pods("kueues")) == 1)
    [pod] = cluster.running_pods("kueues")
    generation = cluster.job("kueues")["metadata"]["generation"]
    with cluster.controller("--namespace", NAMESPACE):
        cluster.submit("waits", 4)
        eventually(lambda: is_on_standby(cluster))

        before = [obj["metadata"]["resourceVersion"] for obj in cluster.workloads()]
        status, printed = adopt(cluster, "--dry-run")
        assert (status, "remove the finalizer and declare the walltime  Workload" in printed) == (0, True), printed
        assert [obj["metadata"]["resourceVersion"] for obj in cluster.workloads()] == before
        assert len(before) == 1

        status, printed = adopt(cluster)
        assert (status, "The queues are adopted" in printed) == (0, True), printed
        eventually(lambda: len(cluster.workloads()) == 2)
        eventually(lambda: (queue_status(cluster).get("reservingWorkloads"), queue_status(cluster).get(
            "pendingWorkloads")) == (1, 1))  # fmt: skip
        [usage] = queue_status(cluster)["flavorsReservation"][0]["resources"]
        assert usage["total"] == "6"
        assert not is_on_standby(cluster)
        [kueues] = [obj for obj in cluster.workloads() if is_true(obj, "QuotaReserved")]
        assert kueues["metadata"]["annotations"] == {"zonewise.dev/max-run-seconds": "7200"}
        for obj in (kueues, cluster.api.get(QUEUE).ok(), cluster.api.get(f"{KUEUE}/resourceflavors/all").ok()):
            assert not obj["metadata"].get("finalizers")
        assert adopt(cluster) == (0, "There is nothing to change.\nThe queues are adopted.\n")

        status, printed = adopt(cluster, "--back")
        assert (status, "start it now" in printed) == (0, True), printed
        eventually(lambda: is_on_standby(cluster))
        assert not [obj for obj in cluster.workloads() if "zonewise" in str(obj["metadata"].get("annotations"))]
        assert cluster.api.get(CONFIG_MAP).status == 404
        renew(cluster.api, 9)
    assert [obj["metadata"]["uid"] for obj in cluster.running_pods("kueues")] == [pod["metadata"]["uid"]]
    assert cluster.job("kueues")["metadata"]["generation"] == generation
    assert cluster.is_held("waits")
    if cluster.real:
        [webhook] = cluster.api.get(f"{WEBHOOKS}/{CONFIGURATION}").ok()["webhooks"]
        assert "matchConditions" not in webhook


def test_a_running_kueue_is_not_adopted(cluster: LiveCluster) -> None:
    """Kueue renews its Lease while the command observes it."""
    cluster.api.patch(f"{LEASES}/{LEASE_NAME.name}", {"spec": {"leaseDurationSeconds": 10}}).ok()
    command = [sys.executable, "-m", "zonewise", "adopt", *cluster.flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        second = 1
        while process.poll() is None:
            renew(cluster.api, second)
            second += 1
            time.sleep(RENEWAL_PERIOD)
        assert process.stderr is not None
        assert "Kueue is running" in process.stderr.read()
    assert process.returncode == 1
    assert not lease(cluster.api)["metadata"].get("annotations")


def test_a_job_that_would_be_stopped_is_an_obstacle(cluster: LiveCluster) -> None:
    if cluster.real:
        cluster.api.delete(f"{WEBHOOKS}/{CONFIGURATION}").ok()
    [workload] = cluster.workloads()
    cluster.api.patch(workload_path(workload), {"metadata": {"ownerReferences": None}}).ok()
    status, printed = adopt(cluster)
    assert (status, "obstacle: Job default/kueues: it runs without a Workload" in printed) == (1, True), printed
    assert not lease(cluster.api)["metadata"].get("annotations")
