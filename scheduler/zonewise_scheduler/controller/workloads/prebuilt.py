"""Workloads that exist before their job, which names its Workload in an annotation or a label.

Source: pkg/controller/jobframework/utils.go PrebuiltWorkloadNameFor, reconciler.go EnsurePrebuiltWorkloadOwnership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.cluster_cache import owner_uid, uid_of
from zonewise_scheduler.controller.workloads.manifest import job_uid_label, owner_reference

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json

PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
"""Key of the annotation or label of a job that names its Workload. The annotation takes precedence."""


def prebuilt_workload_name(job: Json) -> str:
    """Return the name of the Workload that a job names; "": it names none."""
    metadata = FieldReader(job, "", []).child("metadata")
    return metadata.pairs("annotations").get(PREBUILT_WORKLOAD) or metadata.pairs("labels").get(PREBUILT_WORKLOAD, "")


def prebuilt_workload_key(job: Json) -> str:
    """Return the namespace and name of the Workload that a job names; "": it names none."""
    name = prebuilt_workload_name(job)
    return f"{job['metadata']['namespace']}/{name}" if name else ""


def is_of_another_job(workload: Json, job: Json) -> bool:
    """Return whether another job controls a Workload. A Workload without a controller is free."""
    return owner_uid(workload) not in {"", uid_of(job)}


def take_ownership(workload: Json, job: Json, resource: Resource) -> Json:
    """Return the merge patch that makes a job the controller of a Workload."""
    metadata: Json = job["metadata"]
    owners = [*(workload["metadata"].get("ownerReferences") or ())]
    owners.append(owner_reference(resource, metadata["name"], metadata["uid"]))
    return {"metadata": {"labels": job_uid_label(metadata["uid"]), "ownerReferences": owners}}
