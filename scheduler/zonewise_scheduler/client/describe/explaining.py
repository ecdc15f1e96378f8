"""Resolves a name to an object, and reads everything that `zonewise explain` shows about it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zonewise_common.cli.details import Detail
from zonewise_common.k8s.labels import is_label_value
from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import JOBS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, WORKLOADS
from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable
from zonewise_scheduler.client.cluster.session import metadata_pairs
from zonewise_scheduler.client.describe.describe_job import JobContextFacts, describe_job
from zonewise_scheduler.client.describe.describe_node import describe_node
from zonewise_scheduler.client.describe.describe_pod import describe_pod
from zonewise_scheduler.client.describe.description import Description
from zonewise_scheduler.client.jobs.dependent_jobs import read_dependent_job
from zonewise_scheduler.client.jobs.explanation_facts import read_explanation
from zonewise_scheduler.client.jobs.job_events import event_time, involved_name, is_about_an_earlier_job
from zonewise_scheduler.client.jobs.job_facts import FINISHED, PENDING, has_ended, job_failure, read_job, with_row
from zonewise_scheduler.client.jobs.job_labels import JOB_NAME_LABEL
from zonewise_scheduler.client.jobs.job_reading import MISSING, NamedJobs, find_active_job, find_job_object, read_events
from zonewise_scheduler.client.jobs.pod_facts import WORKLOAD_ANNOTATION, read_pod_facts
from zonewise_scheduler.client.jobs.pod_fault import (
    fault_lines,
    job_faults,
    pod_name_pattern,
    read_pod_fault,
    without_fault,
)
from zonewise_scheduler.client.jobs.unqueued_jobs import unqueued_job, with_reason
from zonewise_scheduler.client.nodes.node_facts import read_node_facts
from zonewise_scheduler.client.nodes.node_reading import read_nodes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from zonewise_scheduler.client.cluster.session import Json, Session
    from zonewise_scheduler.client.jobs.job_facts import JobFacts
    from zonewise_scheduler.client.jobs.pod_facts import PodFacts
    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability

_POD_KINDS = frozenset({"pod", "pods", "po"})
_NODE_KINDS = frozenset({"node", "nodes", "no"})
_MAX_POD_REQUESTS = 20
"""Number of pods beyond which one list of the namespace replaces a request for each pod."""


def explain(session: Session, reference: str) -> Description | None:
    """Return the description of a job, pod or node; None if nothing has this name. Raises KubeError."""
    kind, _, name = reference.rpartition("/")
    if kind.lower() in _POD_KINDS:
        return _pod(session, name)
    if kind.lower() in _NODE_KINDS:
        return _node(session, name)
    job = find_active_job(session, reference) or NamedJobs(session).find(reference)
    if job is not None:
        return _job(session, job)
    return _without_workload(session, reference)


def unknown_name(reference: str, namespace: str) -> str:
    """Return the message that nothing has a name; a kind in the name limits what was looked up."""
    kind, _, name = reference.rpartition("/")
    if kind.lower() in _POD_KINDS:
        return f"there is no pod {name} in namespace {namespace}"
    if kind.lower() in _NODE_KINDS:
        return f"there is no node {name}; `zonewise top` lists all nodes"
    kinds = "job" if kind else "job, pod or node"
    return f"there is no {kinds} {reference} in namespace {namespace}; `zonewise queue --jobs -A` lists all jobs"


def _without_workload(session: Session, reference: str) -> Description | None:
    if (obj := find_job_object(session, reference)) is not None:
        facts = read_dependent_job(obj, lambda other: session.find(JOBS, other, namespace=session.namespace))
        if facts is not None:
            return describe_job(facts, JobContextFacts(events=_events(session, facts, [])), session.now())
        return _unqueued_job(session, obj)
    kind, _, name = reference.rpartition("/")
    return None if kind else _pod(session, name) or _node(session, name)


def _job(session: Session, job: JobFacts) -> Description:
    notes: list[str] = []
    row: Json | None = None
    if job.state != FINISHED:
        try:
            row = session.read_api.workload(job.namespace, job.workload)
        except ReadApiUnavailable as error:
            notes.append(MISSING.format(reason=error))
    job = with_row(job, row)
    explanation = read_explanation(row)
    others = dict(_others(session, explanation.shown_blockers))
    named = _named_pods(session, job)
    objects = [pod for pod in named if _is_pod_of(pod, job)]
    pods = [] if job.state == PENDING else [read_pod_facts(pod, []) for pod in objects]
    nodes = dict(_nodes_of(session, {pod.node for pod in pods if pod.node}))
    problems = {name: read_node_facts(name, node, None, (), []).problems for name, node in nodes.items()}
    events = _events(session, job, named)
    faults = job_faults(objects, events)
    without = (
        [] if faults else list(without_fault({pod.node: nodes.get(pod.node, {}) for pod in pods if pod.has_failed}))
    )
    context = JobContextFacts(explanation, others, pods, problems, events, notes, faults, without)
    return describe_job(job, context, session.now())


def _others(session: Session, keys: Sequence[str]) -> Iterator[tuple[str, JobFacts]]:
    """Yield those jobs of Workloads that the user may read, by key: namespace/name.

    If one declares no walltime, its queue may declare one: the read API is asked for the deadlines of all.
    """
    jobs: dict[str, JobFacts] = {}
    for key in keys:
        namespace, _, name = key.partition("/")
        with contextlib.suppress(Forbidden):
            workload = session.find(WORKLOADS, name, namespace=namespace)
            if workload is not None:
                jobs[key] = read_job(workload)
    rows: dict[tuple[str, str], Json] = {}
    if any(job.walltime is None for job in jobs.values()):
        with contextlib.suppress(ReadApiUnavailable):
            rows = session.read_api.workloads()
    for key, job in jobs.items():
        yield key, with_row(job, rows.get(job.key))


def _is_pod_of(pod: Json, job: JobFacts) -> bool:
    """Return whether a pod belongs to a job.

    An earlier Job of the same name may have left pods that are still terminating.
    """
    if pod["metadata"]["name"] in job.pod_names:
        return True
    if metadata_pairs(pod, "annotations").get(WORKLOAD_ANNOTATION, "") == job.workload != "":
        return True
    if job.kind != JOBS.kind or metadata_pairs(pod, "labels").get(JOB_NAME_LABEL) != job.name:
        return False
    owners: list[Json] = pod["metadata"].get("ownerReferences") or []
    return not job.uid or any(owner.get("uid") == job.uid for owner in owners)


def _nodes_of(session: Session, names: Iterable[str]) -> Iterator[tuple[str, Json]]:
    for name in sorted(names):
        try:
            node = session.find(NODES, name)
        except Forbidden:
            return
        if node is not None:
            yield name, node


def _named_pods(session: Session, job: JobFacts) -> list[Json]:
    """Return the pods of a job, and for a Job also those of earlier ones with its name.

    The pods of a Job have a label with its name, so the server selects them. Otherwise, all pods of the namespace are
    read, one after another.
    """
    if job.kind == JOBS.kind and is_label_value(job.name):
        return session.list(PODS, scope=job.namespace, label_selector=f"{JOB_NAME_LABEL}={job.name}")
    return session.read(PODS, lambda pod: pod if _is_pod_of(pod, job) else None, scope=job.namespace)


def _events(session: Session, job: JobFacts, named: Iterable[Json]) -> list[Json]:
    """Return the Events about a job, its Workload and its pods; `named`: the result of _named_pods().

    Deleted pods are recognized by the pattern of their names. Their Events from before the job belong to an earlier job
    of that name.
    """
    is_own = {pod["metadata"]["name"]: _is_pod_of(pod, job) for pod in named}
    is_own |= dict.fromkeys(filter(None, (job.name, job.workload)), True)
    deleted = pod_name_pattern(job)
    events = read_events(session, job.namespace, lambda event: _is_event_of(event, job, is_own, deleted))
    foreign = _existing_pods(session, job.namespace, {involved_name(event) for event in events} - is_own.keys())
    return [event for event in events if involved_name(event) not in foreign]


def _existing_pods(session: Session, namespace: str, names: Set[str]) -> Set[str]:
    """Return those names that pods have."""
    if len(names) <= _MAX_POD_REQUESTS:
        try:
            return {name for name in names if session.find(PODS, name, namespace=namespace) is not None}
        except Forbidden:  # the user may only list pods
            pass
    return names & set(session.read(PODS, lambda pod: str(pod["metadata"]["name"]), scope=namespace))


def _is_event_of(event: Json, job: JobFacts, is_own: Mapping[str, bool], deleted: re.Pattern[str]) -> bool:
    name = involved_name(event)
    if name in is_own:
        return is_own[name] and not is_about_an_earlier_job(event, job)
    return deleted.fullmatch(name) is not None and event_time(event) >= (job.created_at or 0.0)


def _unqueued_job(session: Session, obj: Json) -> Description:
    """Return the description of a Job without a Workload."""
    job = unqueued_job(obj)
    named = _named_pods(session, job)
    events = _events(session, job, named)
    if job.local_queue:
        why = with_reason(job, events).message
    else:
        why = "is in no queue: it has no label kueue.x-k8s.io/queue-name"
    suspended = bool(obj.get("spec", {}).get("suspend"))
    state = "suspended" if suspended else "not suspended: its pods are created at once"
    if has_ended(obj):
        state, why = "has finished", ""
    faults = job_faults([pod for pod in named if _is_pod_of(pod, job)], events)
    failure = job_failure(obj)
    document = {
        "namespace": job.namespace, "kind": job.kind, "name": job.name, "message": why or None,
        "failure": failure or None, "hardwareFaults": [fault.document() for fault in faults],
    }  # fmt: skip
    details = [
        Detail("state", [state]),
        Detail("why", [why]),
        Detail("failed", [failure], "bad"),
        Detail("fault", fault_lines(faults, session.now()), "bad"),
    ]
    return Description(job.display_name, details, document, job.resource_name)


def _pod(session: Session, name: str) -> Description | None:
    obj = session.find(PODS, name, namespace=session.namespace)
    if obj is None:
        return None
    problems: list[str] = []
    pod = read_pod_facts(obj, problems)
    return describe_pod(pod, _node_of(session, pod, problems), problems, session.now(), read_pod_fault(obj))


def _node_of(session: Session, pod: PodFacts, problems: list[str]) -> NodeAvailability | None:
    if not pod.node:
        return None
    try:
        node = session.find(NODES, pod.node)
        report = session.find(NODE_RESOURCE_TOPOLOGIES, pod.node)
    except Forbidden as error:
        problems.append(f"The zones of its node are unknown: {error.message}")
        return None
    return read_node_facts(pod.node, node, report, (pod,), problems)


def _node(session: Session, name: str) -> Description | None:
    if session.find(NODES, name) is None:
        return None
    nodes, notes = read_nodes(session, (name,))
    if not nodes:
        return None
    keys = sorted({pod.workload_key for pod in nodes[0].pods or ()} - {""})
    return describe_node(nodes[0], dict(_others(session, keys)), session.now(), notes)
