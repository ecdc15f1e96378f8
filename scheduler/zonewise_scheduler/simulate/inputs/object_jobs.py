"""Jobs and Workloads as workloads that are yet to come.

A batch/v1 Job becomes a Workload as Kueue makes one of it (pkg/controller/jobs/job/job_controller.go PodSets): one pod
set, of its parallelism or of as many pods as are to complete, if that is less. Where both are there, as `kubectl get
jobs,workloads` prints them, the Job counts: only it tells how long it ran.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple, cast

from zonewise_scheduler.queue.quota.read.declared import read_limit
from zonewise_scheduler.queue.quota.read.part import Part
from zonewise_scheduler.queue.quota.read.workload import read_workload
from zonewise_scheduler.simulate.inputs.fields import MOST, MOST_PODS, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.simulate.inputs.documents import Document, Json

RUN = "zonewise.dev/simulated-run-seconds"
"""An annotation: how long a job runs once all its pods are ready."""
SUBMIT = "zonewise.dev/simulated-submit-seconds"
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


class Submitted(NamedTuple):
    """A job that is yet to come."""

    workload: Workload
    run: float
    kind: str
    """Its priority class, or ""."""
    told: str
    """How it is called in problems."""


def told(one: Document) -> str:
    """Return how an object is called in problems."""
    metadata: object = one.given.get("metadata")
    name = cast("Json", metadata).get("name") if isinstance(metadata, dict) else None
    return f"{one.where}: {one.kind} {name}"


def read_submitted(
    documents: Sequence[Document], priorities: Mapping[str, int], problems: list[str]
) -> list[Submitted]:
    """Return Jobs and Workloads in their order; those whose pods or run time are damaged are told and left out."""
    found: dict[str, Submitted] = {}
    epoch = _epoch(documents)
    there = {_identity(one.given) for one in documents if one.kind == "Job"}
    for one in documents:
        if one.kind == "Workload" and there.intersection(_owners(one.given)):
            continue
        own: list[str] = []
        submitted = _submitted(one, priorities, epoch, own)
        if submitted is not None and submitted.workload.key in found:
            own.append("there is one of that name already")
        elif submitted is not None:
            uid = f"{len(found):08d}"
            found[submitted.workload.key] = submitted._replace(workload=replace(submitted.workload, uid=uid))
        problems += [f"{told(one)}: {problem}" for problem in own]
    return list(found.values())


def _submitted(one: Document, priorities: Mapping[str, int], epoch: float, problems: list[str]) -> Submitted | None:
    notes = Part(one.given, "", problems).part("metadata").pairs("annotations")
    is_job = one.kind == "Job"
    read = read_workload(_as_workload(one.given, problems) if is_job else one.given)
    if read.workload is None:
        problems += read.problems
        return None
    limit = _limit(one.given, problems) if is_job else read.workload.limit
    run = _run(notes, one.given, limit, problems)
    submit = _seconds(notes, SUBMIT, problems)
    if run is None and not problems:
        problems.append(f"metadata.annotations.{RUN}: there is none, and nothing else tells how long it runs")
    sound = not problems
    problems += read.problems
    if not sound or run is None:
        return None
    created = read.workload.created - epoch if read.workload.created else 0.0
    kind, priority = _priority(one.given, priorities, problems) if is_job else ("", read.workload.priority)
    workload = replace(
        read.workload,
        namespace=read.workload.namespace or "default",
        priority=priority,
        created=created if submit is None else submit,
        admission=None,
        eviction=None,
        reclaimable={},
        limit=limit,
        failed_checks=(),
    )
    return Submitted(workload, run, kind, told(one))


def _limit(job: Json, problems: list[str]) -> float:
    limit, wrong = read_limit(job)
    problems += wrong
    return limit


def _as_workload(job: Json, problems: list[str]) -> Json:
    """Return the Workload of a Job."""
    whole = Part(job, "", problems)
    metadata, spec = whole.part("metadata"), whole.part("spec")
    pods = within(spec, "parallelism", 1, MOST_PODS)
    if spec.has("completions"):
        pods = min(pods, within(spec, "completions", 1, MOST_PODS))
    template = spec.part("template")
    least = _number(metadata.pairs("annotations"), _LEAST_PODS, problems)
    pod_set = {"count": pods, "minCount": least, "template": dict(template.given), "topologyRequest": None}
    request = _topology(template.part("metadata").pairs("annotations"), problems)
    return {
        "metadata": dict(metadata.given),
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
    noted = _seconds(notes, RUN, problems)
    if noted is not None:
        return noted
    status = Part(given, "", problems).part("status")
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
    if isfinite(found) and 0 <= found <= MOST:
        return found
    problems.append(f"metadata.annotations.{name}: not a number of seconds: {text!r:.80}")
    return None


def _number(notes: Mapping[str, str], name: str, problems: list[str]) -> int | None:
    text = notes.get(name)
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and 1 <= int(text[:12]) <= MOST_PODS:
        return int(text)
    problems.append(f"metadata.annotations.{name}: not a number from 1 to {MOST_PODS}: {text!r:.80}")
    return None


def _priority(job: Json, priorities: Mapping[str, int], problems: list[str]) -> tuple[str, int]:
    """Return the class of a Job and its value: the WorkloadPriorityClass, or else the PriorityClass of its pods."""
    whole = Part(job, "", problems)
    label = whole.part("metadata").pairs("labels").get(_PRIORITY, "")
    pods = whole.part("spec").part("template").part("spec").text("priorityClassName")
    name = label or pods
    if name and name not in priorities:
        field = f"metadata.labels.{_PRIORITY}" if label else "spec.template.spec.priorityClassName"
        problems.append(f"{field}: no such class is there: {name!r:.80}; it counts as 0")
    return name, priorities.get(name, 0)


def _identity(given: Json) -> tuple[str, str]:
    """Return the namespace and the name of an object; what is wrong with them is told where it is read."""
    metadata = Part(given, "", []).part("metadata")
    return metadata.text("namespace"), metadata.text("name")


def _owners(workload: Json) -> Iterator[tuple[str, str]]:
    """Yield the namespace and the name of each Job that a Workload is made for."""
    namespace, _ = _identity(workload)
    for one in Part(workload, "", []).part("metadata").parts("ownerReferences"):
        if one.text("kind") == "Job":
            yield namespace, one.text("name")


def _epoch(documents: Sequence[Document]) -> float:
    """Return when the first was created, in seconds since 1970; 0 where nobody tells."""
    unheard: list[str] = []
    parts = (Part(one.given, "", unheard).part("metadata") for one in documents)
    return min((time for part in parts if (time := part.time("creationTimestamp")) is not None), default=0.0)
