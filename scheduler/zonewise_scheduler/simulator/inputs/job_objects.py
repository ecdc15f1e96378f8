"""Jobs and Workloads as workloads that are yet to come.

A batch/v1 Job becomes a Workload as Kueue makes one of it (pkg/controller/jobs/job/job_controller.go PodSets): one pod
set, of its parallelism or of as many pods as are to complete, if that is less. Where both are there, as `kubectl get
jobs,workloads` prints them, the Job counts: only it tells how long it ran.
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
"""An annotation: how long a job runs once all its pods are ready."""
SUBMIT_SECONDS_ANNOTATION = "zonewise.dev/simulated-submit-seconds"
"""An annotation: when a job comes, after the simulation's begin."""

_QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
_LEAST_PODS = "kueue.x-k8s.io/job-min-parallelism"
_TOPOLOGY = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "podSetSliceRequiredTopology": "kueue.x-k8s.io/podset-slice-required-topology",
}
_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
_SLICE = "kueue.x-k8s.io/podset-slice-size"


class SubmittedJob(NamedTuple):
    """A job that is yet to come."""

    workload: Workload
    run_time: float
    kind: str
    """Its priority class, or ""."""
    label: str
    """How it is called in problems."""


def object_label(document: Document) -> str:
    """Return how an object is called in problems."""
    metadata: object = document.content.get("metadata")
    name = cast("Json", metadata).get("name") if isinstance(metadata, dict) else None
    return f"{document.where}: {document.kind} {name}"


def read_submitted(
    documents: Sequence[Document], priorities: Mapping[str, int], problems: list[str]
) -> list[SubmittedJob]:
    """Return Jobs and Workloads in their order; those whose pods or run time are damaged are told and left out."""
    found: dict[str, SubmittedJob] = {}
    epoch = _epoch(documents)
    there = {_identity(one.content) for one in documents if one.kind == "Job"}
    for one in documents:
        if one.kind == "Workload" and there.intersection(_owners(one.content)):
            continue
        own: list[str] = []
        submitted = _submitted(one, priorities, epoch, own)
        if submitted is not None and submitted.workload.key in found:
            own.append("there is one of that name already")
        elif submitted is not None:
            uid = f"{len(found):08d}"
            found[submitted.workload.key] = submitted._replace(workload=replace(submitted.workload, uid=uid))
        problems += [f"{object_label(one)}: {problem}" for problem in own]
    return list(found.values())


def _submitted(one: Document, priorities: Mapping[str, int], epoch: float, problems: list[str]) -> SubmittedJob | None:
    notes = FieldReader(one.content, "", problems).child("metadata").pairs("annotations")
    is_job = one.kind == "Job"
    read = read_workload(_as_workload(one.content, problems) if is_job else one.content)
    if read.workload is None:
        problems += read.problems
        return None
    limit = _limit(one.content, problems) if is_job else read.workload.walltime
    run = _run(notes, one.content, limit, problems)
    submit = _seconds(notes, SUBMIT_SECONDS_ANNOTATION, problems)
    if run is None and not problems:
        problems.append(
            f"metadata.annotations.{RUN_SECONDS_ANNOTATION}: there is none, and nothing else tells how long it runs"
        )
    sound = not problems
    problems += read.problems
    if not sound or run is None:
        return None
    created = read.workload.created_at - epoch if read.workload.created_at else 0.0
    kind, priority = _priority(one.content, priorities, problems) if is_job else ("", read.workload.priority)
    workload = replace(
        read.workload,
        namespace=read.workload.namespace or "default",
        priority=priority,
        created_at=created if submit is None else submit,
        admission=None,
        eviction=None,
        reclaimable_pods={},
        walltime=limit,
        failed_checks=(),
    )
    return SubmittedJob(workload, run, kind, object_label(one))


def _limit(job: Json, problems: list[str]) -> float:
    limit, wrong = read_walltime(job)
    problems += wrong
    return limit


def _as_workload(job: Json, problems: list[str]) -> Json:
    """Return the Workload of a Job."""
    whole = FieldReader(job, "", problems)
    metadata, spec = whole.child("metadata"), whole.child("spec")
    pods = spec.int_in_range("parallelism", 1, MAX_PODS)
    if spec.has("completions"):
        pods = min(pods, spec.int_in_range("completions", 1, MAX_PODS))
    template = spec.child("template")
    least = _number(metadata.pairs("annotations"), _LEAST_PODS, problems)
    pod_set = {"count": pods, "minCount": least, "template": dict(template.obj), "topologyRequest": None}
    request = _topology(template.child("metadata").pairs("annotations"), problems)
    return {
        "metadata": dict(metadata.obj),
        "spec": {
            "podSets": [pod_set | {"topologyRequest": request or None}],
            "queueName": metadata.pairs("labels").get(_QUEUE),
        },
    }


def _topology(notes: Mapping[str, str], problems: list[str]) -> Json:
    found: Json = {name: notes[key] for name, key in _TOPOLOGY.items() if key in notes}
    if notes.get(_UNCONSTRAINED) == "true":
        found["unconstrained"] = True
    size = _number(notes, _SLICE, problems)
    return found if size is None else found | {"podSetSliceSize": size}


def _run(notes: Mapping[str, str], given: Json, limit: float, problems: list[str]) -> float | None:
    """Return how long a job runs; None where nothing tells."""
    noted = _seconds(notes, RUN_SECONDS_ANNOTATION, problems)
    if noted is not None:
        return noted
    status = FieldReader(given, "", problems).child("status")
    began, ended = status.time("startTime"), status.time("completionTime")
    if began is not None and ended is not None and ended >= began:
        return ended - began
    return limit if limit < inf else None


def _seconds(notes: Mapping[str, str], name: str, problems: list[str]) -> float | None:
    text = notes.get(name)
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = inf
    if isfinite(found) and 0 <= found <= MAX_NUMBER:
        return found
    problems.append(f"metadata.annotations.{name}: not a number of seconds: {text!r:.80}")
    return None


def _number(notes: Mapping[str, str], name: str, problems: list[str]) -> int | None:
    text = notes.get(name)
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and 1 <= int(text[:12]) <= MAX_PODS:
        return int(text)
    problems.append(f"metadata.annotations.{name}: not a number from 1 to {MAX_PODS}: {text!r:.80}")
    return None


def _priority(job: Json, priorities: Mapping[str, int], problems: list[str]) -> tuple[str, int]:
    """Return the class of a Job and its value: the WorkloadPriorityClass, or else the PriorityClass of its pods."""
    whole = FieldReader(job, "", problems)
    label = whole.child("metadata").pairs("labels").get(_PRIORITY, "")
    pods = whole.child("spec").child("template").child("spec").text("priorityClassName")
    name = label or pods
    if name and name not in priorities:
        field = f"metadata.labels.{_PRIORITY}" if label else "spec.template.spec.priorityClassName"
        problems.append(f"{field}: no such class is there: {name!r:.80}; it counts as 0")
    return name, priorities.get(name, 0)


def _identity(given: Json) -> tuple[str, str]:
    """Return the namespace and the name of an object; what is wrong with them is told where it is read."""
    metadata = FieldReader(given, "", []).child("metadata")
    return metadata.text("namespace"), metadata.text("name")


def _owners(workload: Json) -> Iterator[tuple[str, str]]:
    """Yield the namespace and the name of each Job that a Workload is made for."""
    namespace, _ = _identity(workload)
    for one in FieldReader(workload, "", []).child("metadata").children("ownerReferences"):
        if one.text("kind") == "Job":
            yield namespace, one.text("name")


def _epoch(documents: Sequence[Document]) -> float:
    """Return when the first was created, in seconds since 1970; 0 where nobody tells."""
    unheard: list[str] = []
    parts = (FieldReader(one.content, "", unheard).child("metadata") for one in documents)
    return min((time for part in parts if (time := part.time("creationTimestamp")) is not None), default=0.0)
