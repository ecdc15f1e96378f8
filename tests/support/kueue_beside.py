"""Objects that a Kueue leader, current or former, leaves in a cluster: Lease, finalizers, webhooks, an admitted Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.controller.kueue.kueue_configuration import CONFIG_MAP, CONFIG_MAP_KEY
from zonewise_scheduler.controller.kueue.kueue_lease import DEFAULT_LEASE, parse_lease_name

if TYPE_CHECKING:
    from support.api import Api

Json = dict[str, Any]

_name = parse_lease_name(DEFAULT_LEASE)
assert _name is not None
LEASE_NAME = _name
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAME.namespace}/leases"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
NAMESPACE = "default"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
HOLDER = "kueue-controller-manager-7d4_8a1"


def kueue_lease(second: int = 0, *, seconds: int = 15, annotations: Json | None = None) -> Json:
    """Return Kueue's Lease, renewed at a given second of a day."""
    renewed = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"
    metadata = {"name": LEASE_NAME.name, "namespace": LEASE_NAME.namespace, "annotations": annotations or {}}
    spec = {"holderIdentity": HOLDER, "leaseDurationSeconds": seconds, "renewTime": renewed}
    return {"metadata": metadata, "spec": spec}


def start_kueue(api: Api, *, seconds: int = 1) -> None:
    """Create the Lease, which expires after some seconds, and unless they exist the namespace and configuration."""
    api.post("/api/v1/namespaces", {"metadata": {"name": LEASE_NAME.namespace}})
    config_map = {"metadata": {"name": CONFIG_MAP}, "data": {CONFIG_MAP_KEY: "kind: Configuration"}}
    api.post(f"/api/v1/namespaces/{LEASE_NAME.namespace}/configmaps", config_map)
    api.post(LEASES, kueue_lease(seconds=seconds)).ok()


def renew(api: Api, second: int) -> None:
    """Renew the Lease as Kueue does; annotations are unchanged."""
    api.patch(f"{LEASES}/{LEASE_NAME.name}", {"spec": kueue_lease(second)["spec"]}).ok()


def lease(api: Api) -> Json:
    return api.get(f"{LEASES}/{LEASE_NAME.name}").ok()


def leave_admitted_job(api: Api, name: str, cpus: int, *, deadline: int | None = None) -> Json:
    """Create a Job of LocalQueue `queue` that Kueue has admitted to flavor `all` and started; return its Workload.

    The objects are as Kueue's pkg/controller/jobframework and pkg/workload write them.
    """
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(cpus)}}}
    pod_spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"annotations": {"zonewise.dev/simulated-run-seconds": "3600"}}, "spec": pod_spec}
    spec: Json = {"suspend": True, "parallelism": 1, "completions": 1, "template": template}
    if deadline is not None:
        spec["activeDeadlineSeconds"] = deadline
    jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    job = api.post(jobs, {"metadata": {"name": name, "labels": {QUEUE_LABEL: "queue"}}, "spec": spec}).ok()
    workload = _kueue_workload(job, cpus)
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
    status = workload.pop("status")
    api.post(path, workload).ok()
    made = api.patch(f"{path}/{workload['metadata']['name']}/status", {"status": status}).ok()
    started = {"suspend": False, "template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}
    api.patch(f"{jobs}/{name}", {"spec": started}).ok()
    return made


def _kueue_workload(job: Json, cpus: int) -> Json:
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    template = job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True,
             "blockOwnerDeletion": True}  # fmt: skip
    metadata = {
        "name": f"job-{name}-a1b2c",
        "namespace": NAMESPACE,
        "labels": {"kueue.x-k8s.io/job-uid": uid},
        "finalizers": [FINALIZER],
        "ownerReferences": [owner],
    }
    pods = {"metadata": {"annotations": template["metadata"].get("annotations", {})}, "spec": template["spec"]}
    pod_sets = [{"name": "main", "count": 1, "template": pods}]
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "all"}, "resourceUsage": {"cpu": str(cpus)}}
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "by Kueue", "observedGeneration": 1,
         "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("QuotaReserved", "Admitted")
    ]  # fmt: skip
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"active": True, "queueName": "queue", "priority": 0, "podSets": pod_sets},
        "status": {
            "conditions": conditions,
            "admission": {"clusterQueue": "queue", "podSetAssignments": [assignment]},
        },
    }
