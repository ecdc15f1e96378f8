"""A queued job as a value, read from its Workload and from its row in the read API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.client.jobs.pod_facts import amount_texts, pod_totals
from zonewise_scheduler.client.time_text import format_time, parse_time
from zonewise_scheduler.quota.api.declared_walltime import workload_walltime
from zonewise_scheduler.quota.api.submitted_by import read_submitter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = dict[str, Any]

PENDING, HELD, RESERVED, ADMITTED, STOPPING, FINISHED = (
    "Pending", "Held", "Reserved", "Admitted", "Stopping", "Finished",
)  # fmt: skip
"""States of a job. Reserved: it has quota and waits for admission checks. Held: its Workload is inactive."""
STATES = (ADMITTED, STOPPING, RESERVED, PENDING, HELD, FINISHED)
"""The states in the order of a list."""
_WORKLOAD_KINDS = frozenset({"", "workload", "workloads", "wl", "workload.kueue.x-k8s.io"})
HELD_REASON = "Deactivated"
"""The reason of a held job, as in controller/status/pending_note.py."""


@dataclass(frozen=True)
class JobFacts:
    """A job of a queue. Times are seconds since 1970, or None if unknown."""

    namespace: str
    workload: str
    """The name of the job's Workload."""
    kind: str
    """Kind of the owner, such as "Job"; "Workload" if there is no owner."""
    api_version: str
    """The API version of that kind."""
    name: str
    """The owner's name; the Workload's name for a group of pods."""
    local_queue: str
    state: str
    pods: int = 0
    priority: int = 0
    cluster_queue: str = ""
    created_at: float | None = None
    started_at: float | None = None
    """The last start; for a finished job, the start of the run that ended it."""
    walltime: float | None = None
    """Seconds for which the job may still run once started; None if it declares no walltime."""
    deadline: float | None = None
    position: int | None = None
    """Position in its ClusterQueue, from 1; None if unknown or if the job is not pending."""
    reserved_start: float | None = None
    earliest: float | None = None
    likely: float | None = None
    latest: float | None = None
    """The latest start that is forecast."""
    reason: str = ""
    message: str = ""
    """Why the job waits."""
    requests: tuple[tuple[str, int, Mapping[str, int]], ...] = ()
    """For each pod set: its name, the number of its pods, and the requests of a pod, in amounts by resource."""
    pod_names: tuple[str, ...] = ()
    """Names of the owning pods, if the job is a single pod or a group of pods."""
    resource_version: str = ""
    """The resource version of the Workload."""
    uid: str = ""
    """UID of the owner; "" if unknown or if there are several owners."""
    active: bool = True
    """False if the job is held, or will be held once it has stopped."""
    finished_at: float | None = None
    user: str = ""
    """The user who submitted it; "" if unknown."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the namespace and name of the job's Workload."""
        return self.namespace, self.workload

    @property
    def resource_name(self) -> str:
        """Return the job's name as kubectl prints it: "job.batch/train"."""
        kind, group = self.kind.lower(), self.api_version.rpartition("/")[0]
        return f"{kind}.{group}/{self.name}" if group else f"{kind}/{self.name}"

    @property
    def display_name(self) -> str:
        """Return the job's name for sentences: "Job default/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"

    def has_name(self, kind: str, name: str) -> bool:
        """Return whether its owner or its Workload has this name.

        `kind` is "", "job", "jobs", "job.batch" or "workload", in upper or lower case.
        """
        kind = kind.lower()
        if name == self.workload and kind in _WORKLOAD_KINDS:
            return True
        own = {"", self.kind.lower(), f"{self.kind.lower()}s", self.resource_name.partition("/")[0]}
        return kind in own and (name == self.name or name in self.pod_names)

    @property
    def waited(self) -> float | None:
        """Return the seconds from its creation to its last start; None if it has not started or this is unknown."""
        return None if self.started_at is None or self.created_at is None else self.started_at - self.created_at

    def ran(self, now: float) -> float | None:
        """Return the seconds since its last start, or from this start to its end; None if either is unknown."""
        end = self.finished_at if self.state == FINISHED else now
        return None if self.started_at is None or end is None else end - self.started_at

    def overrun(self, now: float) -> float:
        """Return the seconds for which it has run beyond its declared walltime, whatever the planner now expects."""
        run = self.ran(now)
        return 0.0 if run is None or self.walltime is None else max(0.0, run - self.walltime)

    def document(self) -> Json:
        """Return the JSON document, with the names of the read API."""
        return {
            "namespace": self.namespace,
            "kind": self.kind,
            "name": self.name,
            "workload": self.workload,
            "state": self.state,
            "user": self.user or None,
            "localQueue": self.local_queue,
            "clusterQueue": self.cluster_queue or None,
            "position": self.position,
            "pods": self.pods,
            "podSets": [
                {"name": name, "pods": pods, "requests": amount_texts(amounts)} for name, pods, amounts in self.requests
            ],
            "priority": self.priority,
            "createdAt": format_time(self.created_at),
            "startedAt": format_time(self.started_at),
            "finishedAt": format_time(self.finished_at),
            "walltimeSeconds": self.walltime,
            "deadline": format_time(self.deadline),
            "reservedStart": format_time(self.reserved_start),
            "forecast": {name: format_time(getattr(self, name)) for name in ("earliest", "likely", "latest")},
            "reason": self.reason or None,
            "message": self.message or None,
        }


def read_job(workload: Mapping[str, Any], problems: list[str] | None = None) -> JobFacts:
    """Return the job of a Workload (apis/kueue/v1beta2/workload_types.go)."""
    problems = [] if problems is None else problems
    reader = FieldReader(workload, "", problems)
    metadata, spec, status = reader.child("metadata"), reader.child("spec"), reader.child("status")
    conditions = {entry.text("type"): entry for entry in status.children("conditions")}
    is_true = {name for name, entry in conditions.items() if entry.text("status") == "True"}
    active = spec.flag("active", default=True)
    state = _state(is_true, active=active)
    kind, api_version, name, pod_names, uid = _owner(metadata)
    admission = status.child("admission") if status.has("admission") else None
    pending = conditions.get("QuotaReserved") if state == PENDING else None
    has_started = state in (ADMITTED, STOPPING) or (state == FINISHED and "Admitted" in is_true)
    started_at = _since(conditions, "Admitted") if has_started else None
    declared = workload_walltime(metadata, spec, status)
    walltime = None if declared == inf else declared
    pod_sets = tuple(map(_pod_set, spec.children("podSets")))
    return JobFacts(
        metadata.text("namespace"),
        metadata.text("name"),
        kind,
        api_version,
        name,
        spec.text("queueName"),
        state,
        sum(pods for _, pods, _ in pod_sets),
        spec.number("priority", 0) or 0,
        "" if admission is None else admission.text("clusterQueue"),
        metadata.time("creationTimestamp"),
        started_at,
        walltime,
        None if started_at is None or walltime is None or state == FINISHED else started_at + walltime,
        reason=_reason(pending, conditions, state),
        message=_message(pending, conditions, state),
        requests=pod_sets,
        pod_names=pod_names,
        resource_version=metadata.text("resourceVersion"),
        uid=uid,
        active=active,
        finished_at=_since(conditions, "Finished") if state == FINISHED else None,
        user=read_submitter(metadata),
    )


def has_ended(obj: Mapping[str, Any]) -> bool:
    """Return whether a batch/v1 Job has succeeded or failed."""
    return bool({"Complete", "Failed"} & _true_conditions(obj).keys())


def job_failure(obj: Mapping[str, Any]) -> str:
    """Return why a batch/v1 Job has failed, from the reason and message of its condition Failed; "" if it has not."""
    failed = _true_conditions(obj).get("Failed")
    return ": ".join(filter(None, (failed.text("reason"), failed.text("message")))) if failed else ""


def _true_conditions(obj: Mapping[str, Any]) -> dict[str, FieldReader]:
    conditions = FieldReader(obj, "", []).child("status").children("conditions")
    return {entry.text("type"): entry for entry in conditions if entry.text("status") == "True"}


def with_row(job: JobFacts, row: Mapping[str, Any] | None) -> JobFacts:
    """Return a job with the data of its row in the read API; None if the read API does not know the job."""
    if row is None:
        return job
    forecast: Mapping[str, Any] = row.get("forecast") or {}
    walltime = row.get("walltimeSeconds")
    updated = replace(
        job,
        cluster_queue=str(row.get("clusterQueue") or job.cluster_queue),
        position=row.get("position"),
        walltime=float(walltime) if isinstance(walltime, int | float) else job.walltime,
        deadline=parse_time(row.get("deadline")) or job.deadline,
        reserved_start=parse_time(row.get("reservedStart")),
        earliest=parse_time(forecast.get("earliest")),
        likely=parse_time(forecast.get("likely")),
        latest=parse_time(forecast.get("latest")),
    )
    if row.get("state") == STOPPING and job.state in (RESERVED, ADMITTED):
        updated = replace(updated, state=STOPPING)
    if job.state == PENDING and row.get("message"):
        updated = replace(updated, reason=str(row.get("reason") or ""), message=str(row.get("message")))
    return updated


def sorted_jobs(jobs: Iterable[JobFacts]) -> list[JobFacts]:
    """Return jobs in the order of a list: running ones, then pending ones by queue, position, priority and age."""

    def order(job: JobFacts) -> tuple[object, ...]:
        position = (1 << 60) if job.position is None else job.position
        created = job.created_at or 0.0
        queue = job.cluster_queue or job.local_queue
        return (
            STATES.index(job.state),
            not job.cluster_queue,
            queue,
            position,
            -job.priority,
            created,
            job.namespace,
            job.name,
        )

    return sorted(jobs, key=order)


def _since(conditions: Mapping[str, FieldReader], name: str) -> float | None:
    """Return the time of the last change of a condition."""
    condition = conditions.get(name)
    return None if condition is None else condition.time("lastTransitionTime")


def _state(is_true: set[str], *, active: bool) -> str:
    if "Finished" in is_true:
        return FINISHED
    if "QuotaReserved" in is_true:
        if "Evicted" in is_true:
            return STOPPING
        return ADMITTED if "Admitted" in is_true else RESERVED
    return PENDING if active else HELD


def _owner(metadata: FieldReader) -> tuple[str, str, str, tuple[str, ...], str]:
    """Return the job's kind, API version and name, the names of its pods if the job consists of them, and its UID.

    A Workload without an owner is its own job. Kueue lists the pods of a StatefulSet as owners in addition to the set.
    """
    owners = list(metadata.children("ownerReferences"))
    name = metadata.text("name")
    if not owners:
        return WORKLOADS.kind, WORKLOADS.api_version, name, (), metadata.text("uid")
    others = [owner for owner in owners if owner.text("kind") != "Pod"]
    if not others:
        pods = tuple(owner.text("name") for owner in owners)
        return "Pod", "v1", pods[0] if len(pods) == 1 else name, pods, ""
    owner = next((each for each in others if each.flag("controller", default=False)), others[0])
    return owner.text("kind"), owner.text("apiVersion"), owner.text("name"), (), owner.text("uid")


def _pod_set(reader: FieldReader) -> tuple[str, int, Mapping[str, int]]:
    spec = reader.child("template").child("spec")
    return reader.text("name", "main"), reader.count("count", 1) or 0, pod_totals(spec)


def _reason(pending: FieldReader | None, conditions: Mapping[str, FieldReader], state: str) -> str:
    if state in (STOPPING, HELD) and "Evicted" in conditions:
        return conditions["Evicted"].text("reason")
    if state == FINISHED:
        return conditions["Finished"].text("reason")
    if state == HELD:  # its condition may still state why it waited before
        return HELD_REASON
    return "" if pending is None else pending.text("reason")


def _message(pending: FieldReader | None, conditions: Mapping[str, FieldReader], state: str) -> str:
    if state == HELD:
        return "is held: `zonewise release` queues it again"
    if state == STOPPING:
        return conditions["Evicted"].text("message")
    if state == FINISHED:
        return conditions["Finished"].text("message")
    return "" if pending is None else pending.text("message")
