"""Jobs and Workloads as workloads that are yet to come.

A batch/v1 Job becomes a Workload as Kueue makes one of it (pkg/controller/jobs/job/job_controller.go PodSets): one pod
set, of its parallelism or of as many pods as are to complete, if that is less.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple, cast

from zonewise_scheduler.queue.quota.read.part import Part
from zonewise_scheduler.queue.quota.read.workload import read_workload
from zonewise_scheduler.simulate.inputs.fields import MOST, MOST_PODS, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.simulate.inputs.documents import Document, Json

RUN = "zonewise.dev/simulated-run-seconds"
"""An annotation: how long a job runs once all its pods are ready."""
SUBMIT = "zonewise.dev/simulated-submit-seconds"
"""An annotation: when a job comes, after the simulation's begin."""

_QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
_TOPOLOGY = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
}
_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"


class Submitted(NamedTuple):
    """A job that is yet to come."""

    workload: Workload
    """Its `queue` is the LocalQueue's namespace and name, or ""."""
    run: float
    kind: str
    """Its WorkloadPriorityClass, or ""."""
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
    for one in documents:
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
    metadata = Part(one.given, "", problems).part("metadata")
    notes = metadata.pairs("annotations")
    is_job = one.kind == "Job"
    given = _as_workload(one.given, problems) if is_job else one.given
    priority = metadata.pairs("labels").get(_PRIORITY) if is_job else None
    read = read_workload(given)
    limit = float(read.limit) if read.limit else inf
    run = _run(notes, one.given, limit, problems)
    submit = _seconds(notes, SUBMIT, problems)
    if run is None and not problems:
        problems.append(f"metadata.annotations.{RUN}: there is none, and nothing else tells how long it runs")
    sound = not problems
    problems += read.problems
    if not sound or run is None or read.workload is None:
        return None
    created = read.workload.created - epoch if read.workload.created else 0.0
    namespace, queue = read.workload.namespace or "default", read.workload.queue
    workload = replace(
        read.workload,
        namespace=namespace,
        queue=f"{namespace}/{queue}" if queue else "",
        priority=_priority(priority, read.workload.priority, priorities, problems),
        created=created if submit is None else submit,
        admission=None,
        eviction=None,
        reclaimable={},
        limit=limit,
        kin=(namespace, queue, read.workload.name.rstrip("0123456789-")),
    )
    return Submitted(workload, run, priority or "", told(one))


def _as_workload(job: Json, problems: list[str]) -> Json:
    """Return the Workload of a Job."""
    whole = Part(job, "", problems)
    metadata, spec = whole.part("metadata"), whole.part("spec")
    pods = within(spec, "parallelism", 1, MOST_PODS)
    if spec.has("completions"):
        pods = min(pods, within(spec, "completions", 1, MOST_PODS))
    template = spec.part("template")
    notes = template.part("metadata").pairs("annotations")
    request: Json = {name: notes[key] for name, key in _TOPOLOGY.items() if key in notes}
    if notes.get(_UNCONSTRAINED) == "true":
        request["unconstrained"] = True
    limit = spec.count("activeDeadlineSeconds")
    return {
        "metadata": dict(metadata.given),
        "spec": {
            "podSets": [{"count": pods, "template": dict(template.given), "topologyRequest": request or None}],
            "queueName": metadata.pairs("labels").get(_QUEUE),
            "maximumExecutionTimeSeconds": limit,
        },
    }


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


def _priority(name: str | None, own: int, priorities: Mapping[str, int], problems: list[str]) -> int:
    if name is not None and name not in priorities:
        problems.append(f"metadata.labels.{_PRIORITY}: there is no WorkloadPriorityClass {name!r:.80}")
    return own if name is None else priorities.get(name, own)


def _epoch(documents: Sequence[Document]) -> float:
    """Return when the first was created, in seconds since 1970; 0 where nobody tells."""
    unheard: list[str] = []
    parts = (Part(one.given, "", unheard).part("metadata") for one in documents)
    return min((time for part in parts if (time := part.time("creationTimestamp")) is not None), default=0.0)
