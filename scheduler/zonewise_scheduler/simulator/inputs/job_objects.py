"""Reads Jobs and Workloads as submitted workloads.

A batch/v1 Job becomes a Workload as in the live queue (quota/api/job_pod_sets.py). If both objects exist, as `kubectl
get jobs,workloads` prints them, only the Job counts, since only it has the run time.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple, cast

from zonewise_common.k8s.fields import MAX_NUMBER, FieldError, FieldReader, object_in
from zonewise_common.k8s.jobspec import JOB_SPEC_FIELDS
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import read_walltime
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL, read_job_pod_set
from zonewise_scheduler.quota.api.job_priority import JobPriority, read_job_priority
from zonewise_scheduler.quota.api.pod_defaults import check_pods, with_pod_defaults
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_scheduler.quota.api.job_priority import PriorityClasses
    from zonewise_scheduler.quota.api.pod_defaults import PodDefaults
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.simulator.inputs.documents import Document, Json

RUN_SECONDS_ANNOTATION = "zonewise.dev/simulated-run-seconds"
"""Annotation with the run time of a job once all its pods are ready."""
DEFAULT_NAMESPACE = "default"
"""Namespace of an object that names none."""
SUBMIT_SECONDS_ANNOTATION = "zonewise.dev/simulated-submit-seconds"
"""Annotation with the submission of a job, relative to the start of the simulation."""


class SubmittedJob(NamedTuple):
    """A job with its submission and run time."""

    workload: Workload
    run_time: float
    kind: str
    """Its priority class, or "" if it has none."""
    label: str
    """Its label in problems."""


def object_label(document: Document) -> str:
    """Return the label of an object in problems."""
    metadata: object = document.content.get("metadata")
    name = cast("Json", metadata).get("name") if isinstance(metadata, dict) else None
    return f"{document.where}: {document.kind} {name}"


def read_submitted(
    documents: Sequence[Document], classes: PriorityClasses, defaults: PodDefaults, problems: list[str]
) -> list[SubmittedJob]:
    """Return Jobs and Workloads in order, with the requests that their pods will have.

    Those with an invalid pod or run time, or with pods that the API server would reject, are left out as problems.
    """
    jobs: dict[str, SubmittedJob] = {}
    epoch = _epoch(documents)
    job_identities = {_identity(document.content) for document in documents if document.kind == "Job"}
    for document in documents:
        if document.kind == "Workload" and job_identities.intersection(_owners(document.content)):
            continue
        document_problems: list[str] = []
        submitted = _submitted(document, classes, defaults, epoch, document_problems)
        if submitted is not None and submitted.workload.key in jobs:
            document_problems.append("duplicate name")
        elif submitted is not None:
            uid = f"{len(jobs):08d}"
            jobs[submitted.workload.key] = submitted._replace(workload=replace(submitted.workload, uid=uid))
        problems += [f"{object_label(document)}: {problem}" for problem in dict.fromkeys(document_problems)]
    return list(jobs.values())


def _submitted(
    document: Document, classes: PriorityClasses, defaults: PodDefaults, epoch: float, problems: list[str]
) -> SubmittedJob | None:
    annotations = FieldReader(document.content, "", problems).child("metadata").pairs("annotations")
    is_job = document.kind == "Job"
    content, pod_sets = _as_workload(document.content, problems) if is_job else (document.content, ())
    try:
        content = _with_defaults(content, defaults)
    except FieldError as error:
        problems.append(str(error))
        return None
    result = read_workload(content)
    if result.workload is None:
        problems += result.problems
        return None
    limit = _walltime(document.content, problems) if is_job else result.workload.walltime
    run = _run_time(annotations, document.content, limit, problems)
    submit = _seconds(annotations, SUBMIT_SECONDS_ANNOTATION, problems)
    if run is None and not problems:
        problems.append(f"metadata.annotations.{RUN_SECONDS_ANNOTATION}: is missing, so the run time is unknown")
    valid = not problems
    problems += (
        *result.problems,
        *_uncounted_fields(content, defaults),
        *(_unknown_fields(document.content) if is_job else ()),
    )
    if not valid or run is None:
        return None
    read = result.workload
    created = read.created_at - epoch if read.created_at else 0.0
    submitted = created if submit is None else submit
    delay = max(0.0, read.begin_at - read.created_at) if read.created_at else 0.0
    if read.begin_at and not read.created_at:
        field = f"metadata.annotations.{BEGIN_ANNOTATION}"
        problems.append(f"{field}: ignored, since the object has no metadata.creationTimestamp")
    unknown: list[str] = []
    job = FieldReader(document.content, "", unknown)
    priority = read_job_priority(job, pod_sets, classes) if is_job else JobPriority(value=result.workload.priority)
    problems += [f"{problem}; it counts as 0" for problem in unknown]
    workload = replace(
        result.workload,
        namespace=result.workload.namespace or DEFAULT_NAMESPACE,
        priority=priority.value,
        created_at=submitted,
        begin_at=submitted + delay if delay else 0.0,
        admission=None,
        eviction=None,
        reclaimable_pods={},
        walltime=limit,
        failed_checks=(),
    )
    return SubmittedJob(workload, run, priority.name, object_label(document))


def _walltime(job: Json, problems: list[str]) -> float:
    limit, limit_problems = read_walltime(job)
    problems += limit_problems
    return limit


def _as_workload(job: Json, problems: list[str]) -> tuple[Json, tuple[PodSetManifest, ...]]:
    """Return the Workload of a Job and its pod sets."""
    reader = FieldReader(job, "", problems)
    metadata = reader.child("metadata")
    pod_set = read_job_pod_set(reader)
    if not pod_set.pods:
        problems.append("spec: it has no pods: parallelism or completions is 0")
    spec = {"podSets": [pod_set.as_object()], "queueName": metadata.pairs("labels").get(QUEUE_LABEL)}
    return {"metadata": dict(metadata.obj), "spec": spec}, (pod_set,)


def _with_defaults(workload: Json, defaults: PodDefaults) -> Json:
    """Return a Workload as its pods will be. Raise FieldError if the API server would reject them."""
    metadata = object_in(workload, "metadata", "")
    named = {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE}
    completed = with_pod_defaults({**workload, "metadata": named}, defaults)
    check_pods(completed, defaults)
    return completed


def _uncounted_fields(workload: Json, defaults: PodDefaults) -> list[str]:
    """Return a problem for each named object that adds requests to those of the containers, and is not an input."""
    problems: list[str] = []
    for pod_set in FieldReader(workload, "", []).child("spec").children("podSets"):
        spec = FieldReader(pod_set.child("template").child("spec").obj, "template.spec.", problems)
        for claim in spec.children("resourceClaims") if defaults.claim_templates is None else ():
            if claim.has("resourceClaimTemplateName"):
                claim.report("resourceClaimTemplateName", "its devices do not count")
        if spec.has("runtimeClassName") and spec.text("runtimeClassName") not in defaults.runtime_classes:
            spec.report("runtimeClassName", "its overhead does not count")
    return problems


def _unknown_fields(job: Json) -> list[str]:
    """Return a problem for each field of a Job's spec that the API server would reject: no Job is left out for it."""
    problems: list[str] = []
    spec = FieldReader(job, "", []).child("spec")
    reader = FieldReader(spec.obj, spec.path, problems)
    reader.ignore(*JOB_SPEC_FIELDS)
    reader.report_unknown()
    return problems


def _run_time(annotations: Mapping[str, str], content: Json, limit: float, problems: list[str]) -> float | None:
    """Return the run time of a job; None if it is unknown."""
    annotated = _seconds(annotations, RUN_SECONDS_ANNOTATION, problems)
    if annotated is not None:
        return annotated
    status = FieldReader(content, "", problems).child("status")
    start = status.time("startTime")
    end = None if start is None else _finished_at(status)
    if start is not None and end is not None and end >= start:
        return end - start
    return limit if limit < inf else None


def _finished_at(status: FieldReader) -> float | None:
    """Return when a Job ended; None: it has not. One that failed has no completionTime (batch/v1 JobStatus)."""
    completed = status.time("completionTime")
    if completed is not None:
        return completed
    failures = (entry for entry in status.children("conditions") if entry.text("type") == "Failed")
    return next((entry.time("lastTransitionTime") for entry in failures if entry.text("status") == "True"), None)


def _seconds(annotations: Mapping[str, str], name: str, problems: list[str]) -> float | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = inf
    if isfinite(seconds) and 0 <= seconds <= MAX_NUMBER:
        return seconds
    problems.append(f"metadata.annotations.{name}: not a number of seconds: {text!r:.80}")
    return None


def _identity(content: Json) -> tuple[str, str]:
    """Return the namespace and name of an object; their problems are reported when the object is read."""
    metadata = FieldReader(content, "", []).child("metadata")
    return metadata.text("namespace"), metadata.text("name")


def _owners(workload: Json) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each Job that owns a Workload."""
    namespace, _ = _identity(workload)
    for reference in FieldReader(workload, "", []).child("metadata").children("ownerReferences"):
        if reference.text("kind") == "Job":
            yield namespace, reference.text("name")


def _epoch(documents: Sequence[Document]) -> float:
    """Return the earliest creation, in seconds since 1970; 0 if none is known."""
    ignored: list[str] = []
    readers = (FieldReader(document.content, "", ignored).child("metadata") for document in documents)
    return min((time for reader in readers if (time := reader.time("creationTimestamp")) is not None), default=0.0)
