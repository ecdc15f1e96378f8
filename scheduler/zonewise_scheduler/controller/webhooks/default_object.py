"""The mutating webhook. It suspends new jobs of a queue, gates new pods of a queue, and notes who submits them.

Source: pkg/controller/jobframework/defaults.go, pkg/controller/jobs/pod/pod_webhook.go Default.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in, objects_in, strings_in
from zonewise_scheduler.controller.jobs.job_fields import annotations_of, labels_of, queue_name
from zonewise_scheduler.controller.jobs.rayjob import ADAPTER as RAY_JOBS
from zonewise_scheduler.controller.jobs.rayjob import uses_existing_cluster
from zonewise_scheduler.controller.jobs.registry import group_kind
from zonewise_scheduler.controller.planning.configuration import DEFAULT_QUEUE
from zonewise_scheduler.controller.pods.pod_group import is_pod_of_set
from zonewise_scheduler.controller.pods.pod_names import (
    ADMISSION_GATE,
    GROUP_POD_INDEX_ANNOTATION,
    GROUP_POD_INDEX_LABEL,
    MANAGED_LABEL,
    POD_FINALIZER,
    POD_INDEX_OFFSET_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    TOPOLOGY_GATE,
)
from zonewise_scheduler.controller.pods.role_hash import role_hash
from zonewise_scheduler.controller.webhooks.admission_review import patch_between
from zonewise_scheduler.controller.webhooks.leader_worker_set import queued_leader_worker_set
from zonewise_scheduler.controller.webhooks.replicated_pods import REPLICATED, with_queued_pods
from zonewise_scheduler.controller.webhooks.rules import (
    BATCH_JOB,
    LEADER_WORKER_SET,
    POD,
    belongs_to_job,
)
from zonewise_scheduler.controller.webhooks.submitter import with_submitter
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.job_priority import DEFAULT_PRIORITY_CLASS, PRIORITY_CLASS_LABEL
from zonewise_scheduler.quota.api.workload_slices import ELASTIC_ANNOTATION, ELASTIC_GATE

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest
    from zonewise_scheduler.controller.webhooks.rules import AdmissionRules

_RAY_JOB = group_kind(RAY_JOBS.resource)
_MPI_JOB = ("kubeflow.org", "MPIJob")


def default_object(request: AdmissionRequest, rules: AdmissionRules) -> list[Json]:
    """Return the JSON patch of a new or updated object; empty if it remains unchanged. Raises FieldError."""
    if request.operation not in {"CREATE", "UPDATE"} or not rules.manages(request.namespace):
        return []
    if belongs_to_job(request.obj, request.namespace, rules):
        return []
    return patch_between(request.obj, with_submitter(request, _defaulted(request, rules), rules))


def _defaulted(request: AdmissionRequest, rules: AdmissionRules) -> Json:
    is_new = request.operation == "CREATE"
    if request.group_kind == LEADER_WORKER_SET:
        job = _with_defaults(request, rules) if is_new else request.obj
        return queued_leader_worker_set(job) if queue_name(job) else request.obj
    if request.group_kind in REPLICATED:
        return with_queued_pods(request.obj, request.group_kind) if queue_name(request.obj) else request.obj
    if not is_new or request.group_kind not in rules.suspend_paths:
        return request.obj
    return _held_pod(request, rules) if request.group_kind == POD else _held_job(request, rules)


def _with_defaults(request: AdmissionRequest, rules: AdmissionRules) -> Json:
    """Return a job with the default queue of its namespace and the default priority class.

    It gets a queue if it specifies none, and a class if it specifies none and is held.
    """
    job, labels = copy.deepcopy(request.obj), labels_of(request.obj)
    if not labels.get(QUEUE_LABEL) and rules.has_default_queue(request.namespace):
        labels = {**labels, QUEUE_LABEL: DEFAULT_QUEUE}
    is_held = labels.get(QUEUE_LABEL) or rules.manages_without_queue_name
    if is_held and not labels.get(PRIORITY_CLASS_LABEL) and rules.has_default_priority_class():
        labels = {**labels, PRIORITY_CLASS_LABEL: DEFAULT_PRIORITY_CLASS}
    if labels != labels_of(job):
        job["metadata"] = {**(job.get("metadata") or {}), "labels": labels}
    return job


def _held_job(request: AdmissionRequest, rules: AdmissionRules) -> Json:
    """Return a job that is suspended if it has a queue, which may be the default queue.

    A RayJob on an existing cluster is not queued unless it names a queue, since the cluster has its quota already.
    """
    if request.group_kind == _RAY_JOB and uses_existing_cluster(request.obj) and not queue_name(request.obj):
        return request.obj
    job = _with_defaults(request, rules)
    if queue_name(job) or rules.manages_without_queue_name:
        *parents, field = map(str, rules.suspend_paths[request.group_kind])
        holder, path = job, ""
        for parent in parents:
            object_in(holder, parent, path)
            holder[parent] = holder.get(parent) or {}
            holder, path = holder[parent], f"{path}{parent}."
        holder[field] = True
        if request.group_kind == _MPI_JOB:
            _number_workers(job)
        if request.group_kind == BATCH_JOB and annotations_of(job).get(ELASTIC_ANNOTATION) == "true":
            _gate_template(job)
    return job


def _number_workers(job: Json) -> None:
    """Note in the template of an MPIJob's workers that their indexes start at 1, if the launcher has index 0.

    Source: mpijob_webhook.go Default; mpi-operator pkg/controller/mpi_job_controller.go workerReplicaIndexLabel.
    """
    spec = object_in(job, "spec", "")
    replicas = object_in(spec, "mpiReplicaSpecs", "spec.")
    if spec.get("runLauncherAsWorker") is not True or not {"Launcher", "Worker"} <= replicas.keys():
        return
    holder, path = replicas, "spec.mpiReplicaSpecs."
    for field in ("Worker", "template", "metadata", "annotations"):
        holder[field] = object_in(holder, field, path)
        holder, path = holder[field], f"{path}{field}."
    holder[POD_INDEX_OFFSET_ANNOTATION] = "1"


def _gate_template(job: Json) -> None:
    """Add the gate that holds the pods with which an elastic Job grows (applyWorkloadSliceSchedulingGate).

    A start adds it too. In the template as submitted, it also applies once Kueue manages the queues.
    """
    template = object_in(object_in(job, "spec", ""), "template", "spec.")
    spec = object_in(template, "spec", "spec.template.")
    gates = objects_in(spec, "schedulingGates", "spec.template.spec.")
    if spec and ELASTIC_GATE not in {gate.get("name") for gate in gates}:
        spec["schedulingGates"] = [*gates, {"name": ELASTIC_GATE}]


def _held_pod(request: AdmissionRequest, rules: AdmissionRules) -> Json:
    """Return a pod that is gated if it has a queue, which may be the default queue or that of its set.

    A finalizer makes sure that the end of a pod is accounted for. A pod without a queue has nothing to account for.
    """
    is_of_set = is_pod_of_set(request.obj)
    pod = request.obj if is_of_set else _with_defaults(request, rules)
    if queue_name(pod) or is_of_set:
        gated = _gated_pod(pod)
        finalizers = strings_in(gated["metadata"], "finalizers", "metadata.")
        if POD_FINALIZER not in finalizers:
            gated["metadata"]["finalizers"] = [*finalizers, POD_FINALIZER]
        return gated
    return _gated_pod(pod) if rules.manages_without_queue_name else pod


def _gated_pod(pod: Json) -> Json:
    """Return a pod with gates for its admission and its placement.

    The role is computed from the requirements at creation, since the start adds others.
    """
    gated = copy.deepcopy(pod)
    gated["spec"] = {**object_in(gated, "spec", "")}
    metadata, spec = gated["metadata"], gated["spec"]
    metadata["labels"] = {**labels_of(gated), **_rank(gated), MANAGED_LABEL: "true"}
    metadata["annotations"] = {ROLE_HASH_ANNOTATION: role_hash(spec), **annotations_of(gated)}
    gates = objects_in(spec, "schedulingGates", "spec.")
    present = {gate.get("name") for gate in gates}
    missing = [{"name": name} for name in (ADMISSION_GATE, TOPOLOGY_GATE) if name not in present]
    if missing:
        spec["schedulingGates"] = [*gates, *missing]
    return gated


def _rank(pod: Json) -> Json:
    """Return the label with the rank of a pod in its group, if an annotation names another label that has it."""
    labels, source = labels_of(pod), annotations_of(pod).get(GROUP_POD_INDEX_ANNOTATION)
    return {GROUP_POD_INDEX_LABEL: labels[source]} if source in labels else {}
