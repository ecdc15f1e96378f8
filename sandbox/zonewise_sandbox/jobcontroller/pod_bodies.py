"""The pods of a Job at creation (GetPodFromTemplate; addCompletionIndexEnvVariable and its neighbours)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.jobcontroller.policies import judge_failure
from zonewise_sandbox.jobcontroller.types import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX

if TYPE_CHECKING:
    from zonewise_sandbox.jobcontroller.types import Job, JobPod, Object

_MAX_PREFIX = 58
"""Maximum characters of generateName in the name (k8s.io/apiserver/pkg/storage/names, MaxGeneratedNameLength)."""
_VARIABLE = "JOB_COMPLETION_INDEX"


def pod_body(job: Job, index: int | None, replaced: JobPod | None) -> Object:
    """Return a new pod, with an index for an Indexed job; `replaced` is the failed pod of this index, if any."""
    template, name = job.spec.template, job.metadata.name
    declared: Object = template.get("metadata") or {}
    annotations, labels = dict(declared.get("annotations") or {}), dict(declared.get("labels") or {})
    spec, prefix = template["spec"], f"{name}-"
    if index is not None:
        annotations[INDEX] = labels[INDEX] = str(index)
        annotations |= _failure_counts(job, replaced)
        spec = {**spec, "hostname": f"{name}-{index}", **_with_index_variable(spec)}
        suffix = f"-{index}-"
        prefix = f"{name[: _MAX_PREFIX - len(suffix)]}{suffix}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid}
    metadata = {
        "generateName": prefix,
        "namespace": job.metadata.namespace,
        "labels": labels,
        "annotations": annotations,
        "finalizers": [*(declared.get("finalizers") or ()), FINALIZER],
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _failure_counts(job: Job, replaced: JobPod | None) -> dict[str, str]:
    if job.spec.backoff_limit_per_index is None:
        return {}
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counts = judge_failure(job.spec.pod_failure_policy, replaced).counts
    ignored = replaced.annotated_count(IGNORED_FAILURE_COUNT) + (not counts)
    annotations = {FAILURE_COUNT: str(replaced.annotated_count(FAILURE_COUNT) + counts)}
    return annotations | ({IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})


def _with_index_variable(spec: Object) -> Object:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    lists: Object = {}
    for field in ("initContainers", "containers"):
        containers: list[Object] = spec.get(field) or []
        lists[field] = [_with_variable(container, {"name": _VARIABLE, "valueFrom": source}) for container in containers]
    return {field: containers for field, containers in lists.items() if containers}


def _with_variable(container: Object, variable: Object) -> Object:
    variables: list[Object] = container.get("env") or []
    if any(item["name"] == _VARIABLE for item in variables):
        return container
    return {**container, "env": [*variables, variable]}
