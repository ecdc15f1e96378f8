"""Jobs that wait for admission checks: those of a cluster autoscaler, and those of a foreign controller."""

from __future__ import annotations

from typing import Any

from support.autoscaler import Autoscaler
from support.live_cluster import KUEUE, WORKLOADS, LiveCluster
from support.live_clusters import cluster, real_cluster, simulated_cluster
from support.waiting import eventually
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true

__all__ = ["cluster", "real_cluster", "simulated_cluster"]

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"


def workload(cluster: LiveCluster) -> Json:
    """Return the only Workload."""
    (obj,) = cluster.workloads()
    return obj


def check_state(cluster: LiveCluster, name: str = "capacity") -> str:
    """Return the state of a check of the only Workload; "" if it has none yet."""
    checks = [check for obj in cluster.workloads() for check in obj.get("status", {}).get("admissionChecks", ())]
    return next((check["state"] for check in checks if check["name"] == name), "")


def test_a_job_is_placed_on_the_nodes_that_were_provisioned_for_it(cluster: LiveCluster) -> None:
    """No node has enough free CPUs when the Job gets its quota. When it has ended, its requests are deleted."""
    autoscaler = Autoscaler(cluster)
    cluster.add_nodes(1, cpus=1)
    cluster.add_queue(100, topology=True)
    updates = {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "Pool"}]}
    autoscaler.add_check(podSetUpdates=updates, parameters={"size": "large"})
    with cluster.controller():
        cluster.submit("j", 4, pods=2, run=2, topology=HOSTNAME)
        request = autoscaler.request()
        assert request["spec"]["parameters"] == {"size": "large"}
        assert [item["count"] for item in request["spec"]["podSets"]] == [2]
        (template,) = autoscaler.pod_templates()
        assert template["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        autoscaler.answer(request, "Accepted")
        assert is_true(workload(cluster), "QuotaReserved")
        assert cluster.is_held("j")
        cluster.add_nodes(2, cpus=8, first=1)
        for name in ("node-1", "node-2"):
            cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"pool": "new"}}}).ok()
        autoscaler.answer(request, "Accepted", "Provisioned", provisioningClassDetails={"Pool": "new"})
        eventually(lambda: len(cluster.running_pods("j")) == 2)
        pods = cluster.running_pods("j")
        assert {pod["spec"]["nodeName"] for pod in pods} <= {"node-1", "node-2"}
        assert {pod["metadata"]["annotations"][CONSUMES] for pod in pods} == {request["metadata"]["name"]}
        assert cluster.job("j")["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "new"
        eventually(lambda: cluster.is_complete("j"))
        eventually(lambda: not autoscaler.requests() and not autoscaler.pod_templates())


def test_a_failed_request_is_repeated_and_then_abandoned(cluster: LiveCluster) -> None:
    autoscaler = Autoscaler(cluster)
    cluster.add_nodes(1)
    cluster.add_queue(8)
    autoscaler.add_check(retryStrategy={"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1})
    with cluster.controller():
        cluster.submit("j", 4)
        autoscaler.answer(autoscaler.request(), "Failed")
        second = autoscaler.request(attempt=2)
        (check,) = workload(cluster)["status"]["admissionChecks"]
        assert check["retryCount"] == 1
        assert (find_condition(workload(cluster), "Requeued") or {})["reason"] == "BackoffFinished"
        autoscaler.answer(second, "Failed")
        eventually(lambda: workload(cluster)["spec"]["active"] is False and not autoscaler.requests())
        eventually(lambda: not is_true(workload(cluster), "QuotaReserved"))
        evicted = find_condition(workload(cluster), "Evicted") or {}
        assert evicted["reason"] == "DeactivatedDueToAdmissionCheck"
        assert cluster.is_held("j")


def test_a_job_whose_capacity_is_revoked_stops(cluster: LiveCluster) -> None:
    """If the booking expires while the Job runs, nothing changes."""
    autoscaler = Autoscaler(cluster)
    cluster.add_nodes(1)
    cluster.add_queue(8)
    autoscaler.add_check()
    with cluster.controller():
        cluster.submit("j", 4)
        request = autoscaler.request()
        autoscaler.answer(request, "Provisioned")
        eventually(lambda: len(cluster.running_pods("j")) == 1)
        autoscaler.answer(request, "Provisioned", "BookingExpired")
        autoscaler.answer(request, "Provisioned", "BookingExpired", "CapacityRevoked")
        eventually(lambda: cluster.is_held("j") and not cluster.running_pods("j"))
        eventually(lambda: not autoscaler.requests())
        assert workload(cluster)["spec"]["active"] is False
        eventually(lambda: CONSUMES not in str(cluster.job("j")["spec"]["template"]))


def test_requests_are_deleted_with_the_quota(cluster: LiveCluster) -> None:
    autoscaler = Autoscaler(cluster)
    cluster.add_nodes(1)
    cluster.add_queue(8)
    autoscaler.add_check()
    path = f"{KUEUE}/clusterqueues/queue"
    with cluster.controller():
        cluster.submit("j", 4)
        first = autoscaler.request()["metadata"]["uid"]
        cluster.api.patch(path, {"spec": {"stopPolicy": "HoldAndDrain"}}).ok()
        eventually(lambda: not autoscaler.requests() and not autoscaler.pod_templates())
        cluster.api.patch(path, {"spec": {"stopPolicy": "None"}}).ok()
        assert autoscaler.request()["metadata"]["uid"] != first
    with cluster.controller():
        autoscaler.answer(autoscaler.request(), "Provisioned")
        eventually(lambda: len(cluster.running_pods("j")) == 1)


def test_the_queue_waits_for_a_check_of_another_controller(cluster: LiveCluster) -> None:
    """The queue admits nothing until a controller serves the check. It does not wait for a check of another flavor."""
    cluster.add_nodes(1)
    cluster.add_queue(8)
    for name in ("licence", "spot"):
        cluster.create("admissionchecks", "AdmissionCheck", name, {"controllerName": "example.com/licences"})
    rules = [{"name": "licence", "onFlavors": ["all"]}, {"name": "spot", "onFlavors": ["spot"]}]
    spec = {"admissionChecksStrategy": {"admissionChecks": rules}}
    cluster.api.patch(f"{KUEUE}/clusterqueues/queue", {"spec": spec}).ok()

    def activity() -> str:
        status = cluster.api.get(f"{KUEUE}/clusterqueues/queue").ok().get("status", {})
        return (find_condition({"status": status}, "Active") or {}).get("reason", "")

    def decide(state: str, **fields: object) -> None:
        obj = workload(cluster)
        checks = [{**check, "state": state, **fields} for check in obj["status"]["admissionChecks"]]
        path = f"{WORKLOADS}/{obj['metadata']['name']}/status"
        cluster.api.patch(path, {"status": {"admissionChecks": checks}}).ok()

    with cluster.controller():
        cluster.submit("j", 4)
        eventually(lambda: activity() == "AdmissionCheckInactive")
        assert cluster.is_held("j")
        for name in ("licence", "spot"):
            active = {"type": "Active", "status": "True", "reason": "Active", "message": "",
                      "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
            path = f"{KUEUE}/admissionchecks/{name}/status"
            cluster.api.patch(path, {"status": {"conditions": [active]}}).ok()
        eventually(lambda: check_state(cluster, "licence") == "Pending")
        assert check_state(cluster, "spot") == ""
        decide("Retry", requeueAfterSeconds=1, message="all in use")
        eventually(lambda: bool(find_condition(workload(cluster), "Requeued")))
        eventually(lambda: is_true(workload(cluster), "QuotaReserved"))
        assert workload(cluster)["status"]["admissionChecks"][0]["retryCount"] == 1
        decide("Ready", podSetUpdates=[{"name": "main", "labels": {"licence": "7"}}])
        eventually(lambda: len(cluster.running_pods("j")) == 1)
        assert cluster.running_pods("j")[0]["metadata"]["labels"]["licence"] == "7"
        decide("Rejected", message="expired")
        eventually(lambda: cluster.is_held("j") and not cluster.running_pods("j"))
        eventually(lambda: (find_condition(workload(cluster), "Evicted") or {}).get("status") == "True")
        assert workload(cluster)["spec"]["active"] is False
