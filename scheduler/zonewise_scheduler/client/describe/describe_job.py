"""`zonewise explain JOB`: why a job waits, which workloads must end first, and when it starts; or where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.cli.details import Detail
from zonewise_common.cli.table import Cell, Column, make_table
from zonewise_common.k8s.dates import utc_clock
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.client.describe.description import Description
from zonewise_scheduler.client.describe.message_clauses import message_clauses
from zonewise_scheduler.client.jobs.explanation_facts import ExplanationFacts
from zonewise_scheduler.client.jobs.job_events import involved_name, merge_repeated
from zonewise_scheduler.client.jobs.job_facts import ADMITTED, FINISHED, PENDING, STOPPING
from zonewise_scheduler.client.jobs.pod_facts import amounts_text
from zonewise_scheduler.client.jobs.pod_fault import fault_lines, pod_name_pattern
from zonewise_scheduler.client.queues.queue_listing import latest_start
from zonewise_scheduler.client.submit.job_objects import pods_text
from zonewise_scheduler.client.time_text import format_time, short_duration, time_since, time_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_common.cli.table import Table
    from zonewise_scheduler.client.jobs.job_facts import JobFacts
    from zonewise_scheduler.client.jobs.pod_facts import PodFacts
    from zonewise_scheduler.client.jobs.pod_fault import PodFault

MAX_EVENTS = 8


class JobContextFacts(NamedTuple):
    """Information from other objects about a job."""

    explanation: ExplanationFacts = ExplanationFacts()
    blockers: Mapping[str, JobFacts] = {}
    """Other jobs by the key of their Workload: namespace/name."""
    pods: Sequence[PodFacts] = ()
    node_problems: Mapping[str, Sequence[str]] = {}
    """Abnormal conditions of nodes, by node."""
    events: Sequence[Mapping[str, Any]] = ()
    """Events about the job, its Workload and its pods."""
    notes: Sequence[str] = ()
    faults: Sequence[PodFault] = ()
    """Faults on devices of its pods."""
    without_fault: Sequence[str] = ()
    """Facts about the hardware of nodes where a pod failed without a fault."""


def describe_job(job: JobFacts, context: JobContextFacts, now: float) -> Description:
    """Return the description of a job."""
    explanation = context.explanation
    document = {
        **job.document(),
        "waitsFor": list(explanation.waits_for),
        "preempts": list(explanation.preempts),
        "couldStart": format_time(explanation.start),
        "pods": [_pod_document(pod) for pod in context.pods],
        "nodeProblems": {node: list(problems) for node, problems in context.node_problems.items() if problems},
        "hardwareFaults": [fault.document() for fault in context.faults],
    }
    return Description(
        job.display_name,
        list(_details(job, context, now)),
        document,
        job.resource_name,
        (_blocker_table(job, context, now), _pod_table(context), _event_table(job, context.events, now)),
        (*context.notes, *_omitted_blockers(context.explanation)),
    )


def _omitted_blockers(explanation: ExplanationFacts) -> Iterator[str]:
    keys = {*explanation.waits_for, *explanation.preempts}
    if omitted := len(keys) - len(explanation.shown_blockers):
        yield f"{omitted} other workloads must end first; all are in -o json"


def _details(job: JobFacts, context: JobContextFacts, now: float) -> Iterator[Detail]:
    yield Detail("state", [_state(job, now)], {ADMITTED: "good", STOPPING: "warning"}.get(job.state, ""))
    queue = f"LocalQueue {job.local_queue or '(none)'}"
    yield Detail("queue", [queue + (f", ClusterQueue {job.cluster_queue}" if job.cluster_queue else "")])
    yield Detail("user", [job.user])
    yield Detail("priority", [str(job.priority) if job.priority else ""])
    yield Detail("requests", list(_requests(job)))
    if job.state == ADMITTED and job.kind == JOBS.kind and not context.pods:
        yield Detail("pods", ["none exists; if this persists, the events show the reason"], "warning")
    unknown_end = "" if job.state == FINISHED else ", so its end is unknown"
    yield Detail("walltime", [short_duration(job.walltime) or f"none is declared{unknown_end}"])
    yield Detail("reason", [job.reason if job.state != ADMITTED else ""])
    clauses = message_clauses(job.message) if job.state == PENDING else [job.message]
    yield Detail("why", clauses if job.state != ADMITTED else [])
    yield Detail("fault", fault_lines(context.faults, now), "bad")
    yield Detail("fault", context.without_fault)
    if job.state == PENDING:
        yield Detail("start", [_start(job, context.explanation, now)])
        yield Detail("forecast", [_forecast(job, now)])
    for node, problems in context.node_problems.items():
        yield Detail(f"node {node}", problems, "bad")


def _state(job: JobFacts, now: float) -> str:
    if job.state == FINISHED:
        return _finished(job, now)
    if job.state == ADMITTED and job.started_at is not None:
        text = f"Admitted, runs for {short_duration(job.ran(now))}"
        if overrun := job.overrun(now):
            text += f", {short_duration(overrun)} longer than it declares"
        elif job.deadline is not None:
            text += f", ends {time_until(job.deadline, now)} at the latest"
        return text
    age = "" if job.created_at is None else f" for {short_duration(now - job.created_at)}"
    position = "" if job.position is None else f", number {job.position} in its ClusterQueue"
    return f"{job.state}{age}{position}" if job.state == PENDING else job.state


def _finished(job: JobFacts, now: float) -> str:
    """Return when a job ended, how long it had waited, and how long its last run was, as far as these are known."""
    spans = (("waited", job.waited), ("ran", job.ran(now)))
    durations = " and ".join(f"{verb} for {short_duration(seconds)}" for verb, seconds in spans if seconds is not None)
    return ", ".join(filter(None, (f"{job.state} {time_since(job.finished_at, now)}".rstrip(), durations)))


def _requests(job: JobFacts) -> Iterator[str]:
    for name, pods, amounts in job.requests:
        prefix = f"{name}: " if len(job.requests) > 1 else ""
        yield f"{prefix}{pods_text(pods, amounts_text(amounts))}"


def _start(job: JobFacts, explanation: ExplanationFacts, now: float) -> str:
    if explanation.never_fits:
        return "never with the present nodes and quotas: it does not fit even when all others have ended"
    if job.reserved_start is not None:
        start = job.reserved_start
        return f"reserved, {_at(start, now)} at the latest"
    if explanation.start is not None:
        return f"{_at(explanation.start, now)}, {_not_reserved((job.position or 1) - 1)}"
    return "unknown: the workloads that must end first declare no walltime" if explanation.waits_for else ""


def _not_reserved(jobs_before: int) -> str:
    """Return the condition of a start that is not reserved: it leaves out the jobs before the job."""
    if not jobs_before:
        return "which is not reserved"
    others = "the job" if jobs_before == 1 else f"one of the {jobs_before} jobs"
    return f"unless {others} before it starts first; it is not reserved"


def _forecast(job: JobFacts, now: float) -> str:
    if job.likely is None:
        return ""
    earliest = "" if job.earliest is None else f"earliest {_at(job.earliest, now)}, "
    latest = latest_start(job)
    return f"{earliest}likely {_at(job.likely, now)}" + ("" if latest is None else f", latest {_at(latest, now)}")


def _at(time: float, now: float) -> str:
    return "now" if time <= now else f"at {utc_clock(time, now)} ({time_until(time, now)})"


def _blocker_table(job: JobFacts, context: JobContextFacts, now: float) -> Table:
    columns = (
        Column("MUST END FIRST", shorten="middle"),
        Column("STATE"),
        Column("RUN", right=True),
        Column("ENDS AT THE LATEST"),
        Column("HOW", wide=True),
    )
    rows: list[list[str | Cell]] = []
    for key in context.explanation.shown_blockers:
        how = f"{job.name} preempts it" if key in context.explanation.preempts else "ends by itself"
        other = context.blockers.get(key)
        if other is None:
            rows.append([key, "", "", "", how])
            continue
        ends = _end(other, now) if other.state == ADMITTED else ""
        name = other.name if other.namespace == job.namespace else f"{other.namespace}/{other.name}"
        rows.append([name, other.state, short_duration(other.ran(now)), ends, how])
    return make_table(columns, rows)


def _end(job: JobFacts, now: float) -> str:
    """Return the latest time at which a running job ends."""
    if job.deadline is None:
        return "unknown: it declares no walltime"
    return "unknown: it runs longer than it declares" if job.overrun(now) else _at(job.deadline, now)


def _pod_table(context: JobContextFacts) -> Table:
    columns = (
        Column("POD", shorten="middle"),
        Column("NODE", shorten="middle"),
        Column("PHASE"),
        Column("PREDICTED ADMISSION", shorten="end"),
        Column("PROBLEM", shorten="end"),
    )
    rows = [
        [pod.name, pod.node, Cell(pod.phase, _phase_style(pod)), pod.predicted_admission, pod_problem(pod)]
        for pod in context.pods
    ]
    return make_table(columns, rows)


def pod_problem(pod: PodFacts) -> str:
    """Return what is wrong with a pod, or ""."""
    parts = [": ".join(filter(None, (pod.reason, pod.message))), *pod.container_problems, pod.unscheduled]
    if pod.left_to_kube_scheduler:
        parts.append(f"left to kube-scheduler: {pod.left_to_kube_scheduler}")
    return "; ".join(filter(None, parts))


def _phase_style(pod: PodFacts) -> str:
    return {"Running": "good", "Succeeded": "good", "Failed": "bad"}.get(pod.phase, "")


def _event_table(job: JobFacts, events: Sequence[Mapping[str, Any]], now: float) -> Table:
    """Return the newest events, and how often each was repeated; those that only state why a job waits are omitted."""
    columns = (
        Column("AGE", right=True),
        Column("EVENT"),
        Column("OBJECT", wide=True),
        Column("MESSAGE", shorten="end"),
    )
    is_repeated = job.state == PENDING
    shown = (event for event in events if not (is_repeated and event.get("reason") == "Pending"))
    rows = [
        [
            short_duration(now - time) + (f" (x{count})" if count > 1 else ""),
            Cell(str(event.get("reason", "")), "warning" if event.get("type") == "Warning" else ""),
            involved_name(event),
            str(event.get("message", "")),
        ]
        for time, count, event in merge_repeated(shown, pod_name_pattern(job))[-MAX_EVENTS:]
    ]
    return make_table(columns, rows)


def _pod_document(pod: PodFacts) -> dict[str, Any]:
    return {
        "name": pod.name,
        "node": pod.node or None,
        "phase": pod.phase,
        "predictedAdmission": pod.predicted_admission or None,
        "problem": pod_problem(pod) or None,
    }
