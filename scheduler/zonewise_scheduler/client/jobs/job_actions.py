"""Cancels, holds and releases jobs.

As in Kueue, `spec.active: false` in the Workload holds a job: the job is not considered, and a running one is stopped
first (KEP-1283). Only pending jobs are therefore held, unless the user chooses to stop a running one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, NotFound
from zonewise_common.kube.resources import PODS, WORKLOADS, Resource
from zonewise_scheduler.client.jobs.job_facts import ADMITTED, FINISHED, RESERVED, STOPPING, has_ended
from zonewise_scheduler.client.jobs.job_reading import find_job_object
from zonewise_scheduler.client.jobs.unqueued_jobs import unqueued_job

if TYPE_CHECKING:
    from zonewise_scheduler.client.cluster.session import Session
    from zonewise_scheduler.client.jobs.job_facts import JobFacts
    from zonewise_scheduler.client.jobs.job_reading import NamedJobs

_ATTEMPTS = 5
"""Attempts at a change, each on a newer version of the object."""
_UNKNOWN = "there is no job {reference} in namespace {namespace}; `zonewise queue --jobs -A` lists all jobs"


class ActionResult(NamedTuple):
    """The result of an action on a job."""

    done: bool
    message: str
    name: str = ""
    """The name for -o name: "job.batch/train"."""


def cancel(jobs: NamedJobs, reference: str, *, dry_run: bool = False) -> ActionResult:
    """Delete a job with its pods. Raises KubeError."""
    job = jobs.find(reference)
    if job is None:
        return _cancel_unqueued(jobs.session, reference, dry_run=dry_run)
    return _finished(job) if job.state == FINISHED else _cancelled(jobs.session, job, dry_run=dry_run)


def hold(jobs: NamedJobs, reference: str, *, requeue: bool = False, dry_run: bool = False) -> ActionResult:
    """Hold a pending job; with `requeue`, also stop and hold a running one. Raises KubeError."""
    for _ in range(_ATTEMPTS):
        job = jobs.find(reference)
        if job is None:
            return _unknown(jobs.session, reference)
        if job.state == FINISHED:
            return ActionResult(False, f"{job.display_name} has finished", job.resource_name)
        if not job.active:
            return ActionResult(True, f"{job.display_name} is already held", job.resource_name)
        if job.state in (ADMITTED, RESERVED, STOPPING) and not requeue:
            message = f"{job.display_name} is {job.state}: --requeue stops and holds it"
            return ActionResult(False, message, job.resource_name)
        if dry_run or _set_active(jobs.session, job, active=False):
            return ActionResult(True, f"{job.display_name} is held{_dry(dry_run)}", job.resource_name)
        jobs.forget()
    return _busy(reference)


def release(jobs: NamedJobs, reference: str, *, dry_run: bool = False) -> ActionResult:
    """Queue a held job again. Raises KubeError."""
    for _ in range(_ATTEMPTS):
        job = jobs.find(reference)
        if job is None:
            return _unknown(jobs.session, reference)
        if job.active or job.state == FINISHED:
            message = f"{job.display_name} is not held: it is {job.state}"
            return ActionResult(job.state != FINISHED, message, job.resource_name)
        if dry_run or _set_active(jobs.session, job, active=True):
            return ActionResult(True, f"{job.display_name} is released{_dry(dry_run)}", job.resource_name)
        jobs.forget()
    return _busy(reference)


def owner_resource(job: JobFacts) -> Resource:
    """Return the resource of a job's kind, with the usual plural.

    Kinds in the setting `jobKinds` may have another plural.
    """
    group, _, version = job.api_version.rpartition("/")
    return Resource(group, version, f"{job.kind.lower()}s", job.kind, namespaced=True)


def _delete(session: Session, job: JobFacts) -> None:
    """Delete the owner of a Workload.

    Raises NotFound if it no longer exists, and Conflict if another object has its name.
    """
    if job.kind != PODS.kind:
        session.client.delete(
            owner_resource(job), job.name, namespace=job.namespace, uid=job.uid or None, propagation="Background"
        )
        return
    gone: NotFound | None = None
    deleted = 0
    for name in job.pod_names:
        try:
            session.client.delete(PODS, name, namespace=job.namespace)
            deleted += 1
        except NotFound as error:
            gone = error
    if gone is not None and not deleted:
        raise gone


def _cancel_unqueued(session: Session, reference: str, *, dry_run: bool) -> ActionResult:
    """Delete a Job without a Workload, which is in no queue or waits for other Jobs."""
    obj = find_job_object(session, reference)
    if obj is None:
        return ActionResult(False, _UNKNOWN.format(reference=reference, namespace=session.namespace))
    job = unqueued_job(obj)
    if has_ended(obj):
        return _finished(job)
    return _cancelled(session, job, dry_run=dry_run)


def _cancelled(session: Session, job: JobFacts, *, dry_run: bool) -> ActionResult:
    if not dry_run:
        try:
            _delete(session, job)
        except (NotFound, Conflict) as error:
            return ActionResult(False, _not_deleted(job, error), job.resource_name)
    return ActionResult(True, f"{job.display_name} is cancelled{_dry(dry_run)}", job.resource_name)


def _not_deleted(job: JobFacts, error: NotFound | Conflict) -> str:
    """Return why a job was not deleted; the details of a 404 name the object unless the path itself is unknown."""
    if isinstance(error, Conflict) or error.details.get("name"):
        return f"{job.display_name} no longer exists"
    group, _, version = job.api_version.rpartition("/")
    kind = f"{job.kind.lower()}.{version}.{group}"
    return (
        f"{job.display_name} cannot be deleted by this command: use `kubectl delete {kind} -n {job.namespace} "
        f"{job.name}`"
    )


def _finished(job: JobFacts) -> ActionResult:
    return ActionResult(False, f"{job.display_name} has finished: `kubectl delete` removes it", job.resource_name)


def _set_active(session: Session, job: JobFacts, *, active: bool) -> bool:
    """Change a Workload in the version that was read; return whether it was still the current one."""
    patch = {"metadata": {"resourceVersion": job.resource_version}, "spec": {"active": active}}
    try:
        session.client.patch(WORKLOADS, job.workload, patch, kind=PatchKind.MERGE, namespace=job.namespace)
    except (Conflict, NotFound):
        return False
    return True


def _unknown(session: Session, reference: str) -> ActionResult:
    obj = find_job_object(session, reference)
    if obj is None:
        return ActionResult(False, _UNKNOWN.format(reference=reference, namespace=session.namespace))
    return ActionResult(
        False, f"{unqueued_job(obj).display_name} has no Workload: it is in no queue, or waits for Jobs"
    )


def _busy(reference: str) -> ActionResult:
    return ActionResult(False, f"{reference} keeps changing: try again")


def _dry(dry_run: bool) -> str:
    return " (dry run)" if dry_run else ""
