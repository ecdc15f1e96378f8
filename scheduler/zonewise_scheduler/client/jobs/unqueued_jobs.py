"""Jobs without a Workload: in no queue, not queued yet, rejected by the controller, or waiting for other Jobs."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.client.jobs.job_events import event_time, involved_name, is_about_an_earlier_job
from zonewise_scheduler.client.jobs.job_facts import PENDING, JobFacts
from zonewise_scheduler.client.jobs.job_labels import QUEUE_LABEL
from zonewise_scheduler.client.jobs.pod_facts import pod_totals
from zonewise_scheduler.quota.api.declared_walltime import read_walltime
from zonewise_scheduler.quota.api.submitted_by import read_submitter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INVALID_JOB = f"Invalid{JOBS.kind}"
"""The reason of the controller's Event on a Job for which it cannot create a Workload."""
_FAILED_CREATE = "FailedCreate"
"""The reason of the controller's Event on a Job whose Workload the API server rejects."""
NO_WORKLOAD = "NoWorkload"
"""The reason of a Job with a LocalQueue for which no Workload exists yet."""


def unqueued_job(obj: Mapping[str, Any]) -> JobFacts:
    """Return a batch/v1 Job without a Workload, without the reason."""
    reader = FieldReader(obj, "", [])
    metadata, spec = reader.child("metadata"), reader.child("spec")
    walltime = read_walltime(obj)[0]
    pods = spec.count("parallelism", 1) or 0
    return JobFacts(
        metadata.text("namespace"),
        "",
        JOBS.kind,
        JOBS.api_version,
        metadata.text("name"),
        metadata.pairs("labels").get(QUEUE_LABEL, ""),
        PENDING,
        pods,
        created_at=metadata.time("creationTimestamp"),
        walltime=None if walltime == inf else walltime,
        requests=(("main", pods, pod_totals(spec.child("template").child("spec"))),),
        uid=metadata.text("uid"),
        user=read_submitter(metadata),
    )


def with_reason(job: JobFacts, events: Iterable[Mapping[str, Any]]) -> JobFacts:
    """Return a Job that names a LocalQueue, with why it has no Workload; `events` are those of its namespace."""
    own = [event for event in events if involved_name(event) == job.name and not is_about_an_earlier_job(event, job)]
    rejections = [event for event in own if event.get("reason") == INVALID_JOB]
    if rejections:
        message = max(rejections, key=event_time).get("message", "")
        return replace(job, reason=INVALID_JOB, message=f"the controller does not queue it: {message}")
    rejections = [event for event in own if _is_failed_creation(event)]
    if rejections:
        return replace(job, reason=NO_WORKLOAD, message=max(rejections, key=event_time).get("message", ""))
    message = f"names LocalQueue {job.local_queue}, and has no Workload yet: does `zonewise controller` run?"
    return replace(job, reason=NO_WORKLOAD, message=message)


def _is_failed_creation(event: Mapping[str, Any]) -> bool:
    """Return whether an Event is about the Workload of a Job; the Job controller uses the reason for pods."""
    return event.get("reason") == _FAILED_CREATE and str(event.get("message", "")).startswith(f"{WORKLOADS.kind} ")
