"""A model of the trainer: a TrainJob's JobSet follows from a runtime and the TrainJob's runtime patches.

kubeflow/trainer pkg/runtime/framework/plugins/jobset/jobset.go Build: a running JobSet is left unchanged.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from zonewise_common.kube.resources import JOB_SETS
from zonewise_scheduler.controller.jobs.trainjob import ADAPTER

if TYPE_CHECKING:
    from support.model_cluster import ModelCluster
    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]


def train_job(*, patches: list[Json] | None = None, **fields: Any) -> Json:
    """Return a held TrainJob."""
    spec: Json = {"runtimeRef": {"name": "torch"}, "suspend": True} | fields
    if patches is not None:
        spec["runtimePatches"] = patches
    return {"metadata": {"name": "t", "namespace": "ns", "uid": "u-1"}, "spec": spec}


def replicated_job(name: str, template: Json, pods: int = 1) -> Json:
    """Return a replicated job of a runtime, with one Job of this many pods."""
    job = {"parallelism": pods, "completions": pods, "template": template}
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def job_set_of(job: Json, runtime: list[Json], current: Json | None = None) -> Json:
    """Return the JobSet of a TrainJob; `runtime`: the runtime's replicated jobs; `current`: the existing JobSet."""
    is_held = job["spec"]["suspend"]
    if current is not None and not is_held and not current["spec"]["suspend"]:
        return current
    jobs = {item["name"]: copy.deepcopy(item) for item in runtime}
    for patch in job["spec"].get("runtimePatches", ()):
        for item in patch["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs", ()):
            _apply(jobs[item["name"]]["template"]["spec"]["template"], item["template"]["spec"]["template"])
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "controller": True}
    owner |= {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    metadata = {name: job["metadata"][name] for name in ("name", "namespace")} | {"ownerReferences": [owner]}
    spec = {"suspend": is_held, "replicatedJobs": list(jobs.values())}
    return {"metadata": metadata, "spec": spec, "status": (current or {}).get("status", {})}


class ModelTrainer:
    """Creates the JobSet of a TrainJob in a model cluster, and suspends and resumes it."""

    def __init__(self, cluster: ModelCluster, runtime: list[Json]) -> None:
        self._cluster = cluster
        self._runtime = runtime

    def submit(self, name: str) -> ObjectKey:
        """Create a held TrainJob in the cluster's queue."""
        labels = {"kueue.x-k8s.io/queue-name": "l"}
        return self._cluster.create(ADAPTER.resource, "ns", name, metadata={"labels": labels}, spec=train_job()["spec"])

    def sync(self) -> bool:
        """Create or update the JobSets; return whether any changed."""
        changed = False
        for key in [key for key in self._cluster.objects if key.resource == ADAPTER.resource]:
            child = key._replace(resource=JOB_SETS)
            current = self._cluster.objects.get(child)
            wanted = job_set_of(self._cluster.get(key), self._runtime, current)
            if current is None:
                self._cluster.create(child.resource, child.namespace, child.name, **wanted)
            elif current["spec"] != wanted["spec"]:
                self._cluster.change(child, {"spec": wanted["spec"]})
            else:
                continue
            changed = True
        return changed


def _apply(template: Json, patch: Json) -> None:
    """Apply a strategic merge patch: maps and gates are merged, and tolerations are replaced."""
    for part, fields in patch.items():
        owner = template.setdefault(part, {})
        for field, value in fields.items():
            if field == "tolerations":
                owner[field] = value
            elif isinstance(value, dict):
                owner[field] = {**(owner.get(field) or {}), **value}
            else:
                present: list[Json] = owner.get(field) or []
                owner[field] = [*present, *(item for item in value if item not in present)]
