"""The Workload of a started job whose object was deleted or has lost its quota, by what its start has noted.

While pods of the job are active, its quota is held (active_jobs.py). A controller that starts meanwhile finds
nothing of it but the job. So the annotation of a start (jobs/injected.py) has the admission by pod set. The topology
assignment is left out: pods that the planner has no placement of count as usage of their nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.jobs.injected import NOTED_ADMISSION, read_injected, without_injected
from zonewise_scheduler.controller.pods.pod_names import WORKLOAD_ANNOTATION
from zonewise_scheduler.controller.workloads.manifest import owner_reference
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]


def noted_workload_name(job: Json) -> str:
    """Return the name of the Workload by which a job was started; "": the job notes none."""
    return _workload_name(_noted(job))


def lost_workload(job: Json, resource: Resource, pod_sets: Sequence[PodSetManifest]) -> Json | None:
    """Return the admitted Workload by which a job was started; None: the job does not note its admission.

    `pod_sets`: of the job as it is. The UID is that of the job, so no Workload object has it.
    """
    noted = _noted(job)
    name = _workload_name(noted)
    admissions = {pod_set: item.child(NOTED_ADMISSION) for pod_set, item in noted.items() if item.has(NOTED_ADMISSION)}
    if not name or not admissions:
        return None
    metadata = FieldReader(job, "", []).child("metadata")
    uid = metadata.text("uid")
    assignments = [{"name": pod_set, **item.obj} for pod_set, item in admissions.items()]
    queues = {str(assignment.pop("clusterQueue", "")) for assignment in assignments}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": metadata.text("namespace"),
            "uid": uid,
            "creationTimestamp": metadata.text("creationTimestamp"),
            "ownerReferences": [owner_reference(resource, metadata.text("name"), uid)],
        },
        "spec": {
            "podSets": [item.as_object() for item in without_injected(job, pod_sets) if item.name in admissions],
            "queueName": metadata.pairs("labels").get(QUEUE_LABEL, ""),
            "active": True,
        },
        "status": {
            "admission": {"clusterQueue": min(queues), "podSetAssignments": assignments},
            "conditions": [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")],
        },
    }


def _workload_name(noted: Mapping[str, FieldReader]) -> str:
    names = (pod_set.child("annotations").text(WORKLOAD_ANNOTATION) for pod_set in noted.values())
    return next(filter(None, names), "")


def _noted(job: Json) -> dict[str, FieldReader]:
    """Return by pod set what the annotation of a start tells."""
    reader = read_injected(job)
    return {name: reader.child(name) for name in reader.obj}
