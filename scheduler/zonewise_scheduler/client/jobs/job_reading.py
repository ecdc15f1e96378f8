"""The jobs of a cluster: Workloads from the API server, with data from the read API if it is reachable."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, LOCAL_QUEUES, WORKLOADS
from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable
from zonewise_scheduler.client.cluster.session import metadata_pairs
from zonewise_scheduler.client.jobs.dependent_jobs import read_dependent_job
from zonewise_scheduler.client.jobs.job_facts import (
    ADMITTED,
    FINISHED,
    RESERVED,
    STOPPING,
    has_ended,
    read_job,
    sorted_jobs,
    with_row,
)
from zonewise_scheduler.client.jobs.job_labels import JOB_UID_LABEL, QUEUE_LABEL
from zonewise_scheduler.client.jobs.unqueued_jobs import unqueued_job, with_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from zonewise_scheduler.client.cluster.session import Json, Session
    from zonewise_scheduler.client.jobs.job_facts import JobFacts

_JOB_KINDS = frozenset({"", "job", "jobs", "job.batch"})
MISSING = "Positions and forecasts are missing because of the controller's read API: {reason}"


def read_jobs(session: Session, *, everywhere: bool = False) -> tuple[list[JobFacts], list[str]]:
    """Return jobs in the order of a list, and sentences about missing data.

    `everywhere`: jobs of all namespaces that the user may list. Raises KubeError.
    """
    scope = None if everywhere else session.scope
    notes: list[str] = []
    problems: list[str] = []

    def read_queued() -> list[JobFacts]:
        return session.read(WORKLOADS, lambda workload: read_job(workload, problems), scope=scope)

    try:
        queued = read_queued()
    except Forbidden:
        if scope is not None or session.all_namespaces:
            raise
        scope = session.namespace
        queued = read_queued()
        notes.append(f"Only jobs of namespace {scope} are listed: you may not list the jobs of all namespaces.")
    rows: dict[tuple[str, str], Json] = {}
    try:
        rows = session.read_api.workloads(scope)
    except ReadApiUnavailable as error:
        notes.append(MISSING.format(reason=error))
    jobs = [with_row(job, rows.get(job.key)) for job in queued]
    unqueued = _unqueued_jobs(session, scope, {job.uid for job in jobs})
    return sorted_jobs([*jobs, *unqueued]), [*notes, *problems]


def _unqueued_jobs(session: Session, scope: str | None, queued: Set[str]) -> Iterator[JobFacts]:
    """Yield the suspended Jobs of a queue that have no Workload; `queued` are the UIDs of those that have one."""

    def is_unqueued(job: Json) -> bool:
        suspended = bool(job.get("spec", {}).get("suspend"))
        return suspended and job["metadata"].get("uid") not in queued and not has_ended(job)

    try:
        jobs = session.read(JOBS, lambda job: job if is_unqueued(job) else _without_spec(job), scope=scope)
    except Forbidden:
        return
    by_name = {(job["metadata"]["namespace"], job["metadata"]["name"]): job for job in jobs}
    without_reason: list[JobFacts] = []
    for (namespace, _), job in by_name.items():
        if not is_unqueued(job):
            continue
        facts = read_dependent_job(job, lambda name, namespace=namespace: by_name.get((namespace, name)))
        if facts is not None:
            yield facts
        elif metadata_pairs(job, "labels").get(QUEUE_LABEL) and not _has_controller(job):
            without_reason.append(unqueued_job(job))
    events = read_events(session, scope) if without_reason else []
    yield from (with_reason(job, events) for job in without_reason)


def _without_spec(job: Json) -> Json:
    """Return the fields of a Job that tell whether it is the dependency of another one and how it has ended."""
    metadata = {field: job["metadata"].get(field, "") for field in ("namespace", "name", "uid")}
    return {"metadata": metadata, "status": job.get("status", {})}


def _has_controller(job: Json) -> bool:
    """Return whether another object owns a Job, such as a JobSet, which is queued as a whole."""
    owners: list[Json] = job["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") for owner in owners)


def read_events(session: Session, scope: str | None, is_wanted: Callable[[Json], bool] = lambda _: True) -> list[Json]:
    """Return the wanted Events of a scope, or none if the user may not list them. Raises KubeError."""
    try:
        return session.read(EVENTS, lambda event: event if is_wanted(event) else None, scope=scope)
    except Forbidden:
        return []


class QueueSelection(NamedTuple):
    """The queues whose jobs are listed."""

    local_queues: frozenset[tuple[str, str]]
    """LocalQueues by namespace and name."""
    cluster_queue: str = ""
    """The ClusterQueue whose jobs are all listed; "" to list only those of the LocalQueues."""

    def has(self, job: JobFacts) -> bool:
        """Return whether a job is in one of the queues."""
        in_cluster_queue = bool(self.cluster_queue) and job.cluster_queue == self.cluster_queue
        return in_cluster_queue or (job.namespace, job.local_queue) in self.local_queues


def find_queue(session: Session, name: str) -> QueueSelection | None:
    """Return the LocalQueue of this name in the session's namespaces, else the ClusterQueue; None if there is neither.

    Raises KubeError.
    """
    try:
        objects = session.list(LOCAL_QUEUES)
    except Forbidden:
        objects = session.list(LOCAL_QUEUES, scope=session.namespace)
    queues = {
        (queue["metadata"]["namespace"], queue["metadata"]["name"]): queue.get("spec", {}).get("clusterQueue")
        for queue in objects
    }
    local = {key for key in queues if key[1] == name and (session.all_namespaces or key[0] == session.namespace)}
    if local:
        return QueueSelection(frozenset(local))
    of_cluster_queue = frozenset(key for key, cluster_queue in queues.items() if cluster_queue == name)
    if of_cluster_queue or session.find(CLUSTER_QUEUES, name) is not None:
        return QueueSelection(of_cluster_queue, name)
    return None


class NamedJobs:
    """The queued jobs of a session's namespace, which are listed once for any number of names."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._jobs: list[JobFacts] | None = None
        """None if they are not listed yet, or must be listed again."""

    def find(self, reference: str) -> JobFacts | None:
        """Return the job of a name such as "train", "job/train" or "workload/job-train-1a2b3"; None if there is none.

        If several match, as when a Job was created again, unfinished ones come first, then the newest. Of an elastic
        Job that waits for more pods, the Workload of its running pods comes first. Also returns None if all of them
        have finished but a Job without a Workload has not. Raises KubeError.
        """
        if self._jobs is None:
            self._jobs = self.session.read(WORKLOADS, read_job, scope=self.session.namespace)
        kind, _, name = reference.rpartition("/")
        matching = [job for job in self._jobs if job.has_name(kind, name)]
        best = max(matching, key=_preference, default=None)
        if best is not None and best.state == FINISHED and self._has_unqueued_job(reference, matching):
            return None
        return best

    def _has_unqueued_job(self, reference: str, queued: list[JobFacts]) -> bool:
        """Return whether an unfinished Job of this name has none of these Workloads."""
        obj = find_job_object(self.session, reference)
        return obj is not None and not has_ended(obj) and obj["metadata"].get("uid") not in {job.uid for job in queued}

    def forget(self) -> None:
        """Discard the list of jobs, which have changed; the next name lists them again."""
        self._jobs = None


def _preference(job: JobFacts) -> tuple[bool, bool, float]:
    has_quota = job.state in {ADMITTED, RESERVED, STOPPING}
    return job.state != FINISHED, has_quota, job.created_at or 0.0


def find_active_job(session: Session, reference: str) -> JobFacts | None:
    """Return the unfinished job of a Job's name such as "train" or "job/train"; None if there is none.

    The server selects the Workload by the Job's UID, so the Workloads of the namespace are not listed. Also returns
    None if the user may not get Jobs. Raises KubeError.
    """
    try:
        obj = find_job_object(session, reference)
    except Forbidden:
        return None
    if obj is None:
        return None
    uid = obj["metadata"]["uid"]
    selected = session.list(WORKLOADS, scope=session.namespace, label_selector=f"{JOB_UID_LABEL}={uid}")
    active = [job for job in map(read_job, selected) if job.uid == uid and job.state != FINISHED]
    return max(active, key=lambda job: job.created_at or 0.0, default=None)


def find_job_object(session: Session, reference: str) -> Json | None:
    """Return the Job of a name such as "train" or "job/train", whether or not it has a Workload; None if none exists.

    Raises KubeError.
    """
    kind, _, name = reference.rpartition("/")
    return session.find(JOBS, name, namespace=session.namespace) if kind.lower() in _JOB_KINDS else None
