"""Jobs and Workloads as submitted workloads.

A batch/v1 Job becomes a Workload as in Kueue (pkg/controller/jobs/job/job_controller.go PodSets): one pod set, of its
parallelism, or of its completions if they are fewer. Where both objects exist, as `kubectl get jobs,workloads` prints
them, the Job counts: only it has the run time.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple, cast

from zonewise_common.k8s.fields import MAX_NUMBER, FieldReader
from zonewise_scheduler.quota.api.declared_walltime import read_walltime
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.simulator.inputs.fields import MAX_PODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.simulator.inputs.documents import Document, Json

RUN_SECONDS_ANNOTATION = "zonewise.dev/simulated-run-seconds"
"""An annotation: run time of a job once all its pods are ready."""
SUBMIT_SECONDS_ANNOTATION = "zonewise.dev/simulated-submit-seconds"
"""An annotation: submission of a job after the start of the simulation."""

_QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
_TOPOLOGY = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "podSetSliceRequiredTopology": "kueue.x-k8s.io/podset-slice-required-topology",
}
_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
_SLICE = "kueue.x-k8s.io/podset-slice-size"


class SubmittedJob(NamedTuple):
    """A job with its submission and run time."""

    workload: Workload
    run_time: float
    kind: str
    """Its priority class, or ""."""
    label: str
    """Its name in problems."""


def object_label(document: Document) -> str:
    """Return the name of an object in problems."""
    metadata: object = document.content.get("metadata")
    name = cast("Json", metadata).get("name") if isinstance(metadata, dict) else None
    return f"{document.where}: {document.kind} {name}"


def read_submitted(
    documents: Sequence[Document], priorities: Mapping[str, int], problems: list[str]
) -> list[SubmittedJob]:
    """Return Jobs and Workloads in their order. One with an invalid pod or run time is left out, as a problem."""
    jobs: dict[str, SubmittedJob] = {}
    epoch = _epoch(documents)
    job_identities = {_identity(document.content) for document in documents if document.kind == "Job"}
    for document in documents:
        if document.kind == "Workload" and job_identities.intersection(_owners(document.content)):
            continue
        document_problems: list[str] = []
        submitted = _submitted(document, priorities, epoch, document_problems)
        if submitted is not None and submitted.workload.key in jobs:
            document_problems.append("duplicate name")
        elif submitted is not None:
            uid = f"{len(jobs):08d}"
            jobs[submitted.workload.key] = submitted._replace(workload=replace(submitted.workload, uid=uid))
        problems += [f"{object_label(document)}: {problem}" for problem in document_problems]
    return list(jobs.values())


def _submitted(
    document: Document, priorities: Mapping[str, int], epoch: float, problems: list[str]
) -> SubmittedJob | None:
    annotations = FieldReader(document.content, "", problems).child("metadata").pairs("annotations")
    is_job = document.kind == "Job"
    result = read_workload(_as_workload(document.content, problems) if is_job else document.content)
    if result.workload is None:
        problems += result.problems
        return None
    limit = _walltime(document.content, problems) if is_job else result.workload.walltime
    run = _run_time(annotations, document.content, limit, problems)
    submit = _seconds(annotations, SUBMIT_SECONDS_ANNOTATION, problems)
    if run is None and not problems:
        problems.append(f"metadata.annotations.{RUN_SECONDS_ANNOTATION}: there is none, and the run time is unknown")
    valid = not problems
    problems += result.problems
    if not valid or run is None:
        return None
    created = result.workload.created_at - epoch if result.workload.created_at else 0.0
    kind, priority = _priority(document.content, priorities, problems) if is_job else ("", result.workload.priority)
    workload = replace(
        result.workload,
        namespace=result.workload.namespace or "default",
        priority=priority,
        created_at=created if submit is None else submit,
        admission=None,
        eviction=None,
        reclaimable_pods={},
        walltime=limit,
        failed_checks=(),
    )
    return SubmittedJob(workload, run, kind, object_label(document))


def _walltime(job: Json, problems: list[str]) -> float:
    limit, limit_problems = read_walltime(job)
    problems += limit_problems
    return limit


def _as_workload(job: Json, problems: list[str]) -> Json:
    """Return the Workload of a Job."""
    reader = FieldReader(job, "", problems)
    metadata, spec = reader.child("metadata"), reader.child("spec")
    pods = spec.int_in_range("parallelism", 1, MAX_PODS)
    if spec.has("completions"):
        pods = min(pods, spec.int_in_range("completions", 1, MAX_PODS))
    template = spec.child("template")
    min_count = _number(metadata.pairs("annotations"), _MIN_PARALLELISM, problems)
    pod_set = {"count": pods, "minCount": min_count, "template": dict(template.obj), "topologyRequest": None}
    request = _topology(template.child("metadata").pairs("annotations"), problems)
    return {
        "metadata": dict(metadata.obj),
        "spec": {
            "podSets": [pod_set | {"topologyRequest": request or None}],
            "queueName": metadata.pairs("labels").get(_QUEUE),
        },
    }


def _topology(annotations: Mapping[str, str], problems: list[str]) -> Json:
    request: Json = {name: annotations[key] for name, key in _TOPOLOGY.items() if key in annotations}
    if annotations.get(_UNCONSTRAINED) == "true":
        request["unconstrained"] = True
    size = _number(annotations, _SLICE, problems)
    return request if size is None else request | {"podSetSliceSize": size}


def _run_time(annotations: Mapping[str, str], content: Json, limit: float, problems: list[str]) -> float | None:
    """Return the run time of a job; None where it is unknown."""
    annotated = _seconds(annotations, RUN_SECONDS_ANNOTATION, problems)
    if annotated is not None:
        return annotated
    status = FieldReader(content, "", problems).child("status")
    start, end = status.time("startTime"), status.time("completionTime")
    if start is not None and end is not None and end >= start:
        return end - start
    return limit if limit < inf else None


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


def _number(annotations: Mapping[str, str], name: str, problems: list[str]) -> int | None:
    text = annotations.get(name)
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and 1 <= int(text[:12]) <= MAX_PODS:
        return int(text)
    problems.append(f"metadata.annotations.{name}: not a number from 1 to {MAX_PODS}: {text!r:.80}")
    return None


def _priority(job: Json, priorities: Mapping[str, int], problems: list[str]) -> tuple[str, int]:
    """Return the class of a Job and its value: the WorkloadPriorityClass, or else the PriorityClass of its pods."""
    reader = FieldReader(job, "", problems)
    label = reader.child("metadata").pairs("labels").get(_PRIORITY, "")
    pod_class = reader.child("spec").child("template").child("spec").text("priorityClassName")
    name = label or pod_class
    if name and name not in priorities:
        field = f"metadata.labels.{_PRIORITY}" if label else "spec.template.spec.priorityClassName"
        problems.append(f"{field}: no such class is there: {name!r:.80}; it counts as 0")
    return name, priorities.get(name, 0)


def _identity(content: Json) -> tuple[str, str]:
    """Return the namespace and name of an object; their problems are reported where the object is read."""
    metadata = FieldReader(content, "", []).child("metadata")
    return metadata.text("namespace"), metadata.text("name")


def _owners(workload: Json) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each Job that owns a Workload."""
    namespace, _ = _identity(workload)
    for reference in FieldReader(workload, "", []).child("metadata").children("ownerReferences"):
        if reference.text("kind") == "Job":
            yield namespace, reference.text("name")


def _epoch(documents: Sequence[Document]) -> float:
    """Return the first creation in seconds since 1970; 0 where none is known."""
    ignored: list[str] = []
    readers = (FieldReader(document.content, "", ignored).child("metadata") for document in documents)
    return min((time for reader in readers if (time := reader.time("creationTimestamp")) is not None), default=0.0)
