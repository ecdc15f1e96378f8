"""JobSets of jobset.x-k8s.io/v1alpha2 (pkg/controller/jobs/jobset/jobset_controller.go).

A start and a stop take one write each, because the templates of a JobSet may change while it is suspended or becomes
suspended (jobset's pkg/webhooks/jobset_webhook.go ValidateUpdate). Its controller updates the Jobs before it resumes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import JOB_SETS
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.jobs.job_completion import completions_of, indexes_by_job
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, MAX_PODS, PodIndexes, pods_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.jobs.job_completion import PodLabels
    from zonewise_scheduler.controller.types import Json

JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"
"""Label with the index of a Job within its replicated job (jobset api/jobset/v1alpha2 JobIndexKey)."""

_REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
_UID_LABEL = "jobset.sigs.k8s.io/jobset-uid"
_ATTEMPT_LABEL = "jobset.sigs.k8s.io/restart-attempt"
"""Labels of the pods of a JobSet (jobset pkg/controllers/jobset_controller.go labelAndAnnotateObject)."""


class JobSetAdapter(SuspendableJob):
    """The adapter of JobSets. Each replicated job is a pod set."""

    end_conditions = (("Completed", True), ("Failed", False))

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the template of each replicated job; its pods are the replicas times the pods of one Job."""
        for i, item in enumerate(_replicated_jobs(job)):
            replicas = _replicas(item)
            yield JobTemplate(
                item.required_name(),
                replicas * _pods_of_job(item),
                item.child("template").child("spec").child("template"),
                ("spec", "replicatedJobs", i, "template", "spec", "template"),
                PodIndexes(COMPLETION_INDEX, JOB_INDEX_LABEL, replicas),
            )

    def is_active(self, job: Json) -> bool:
        """Return whether any Job of the JobSet has active pods."""
        return read_strictly(job, lambda reader: any(item.count("active", 0) for item in _statuses(reader)))

    def pods_ready(self, job: Json) -> bool:
        """Return whether all Jobs are ready or have succeeded."""

        def read(reader: FieldReader) -> bool:
            replicas = sum(_replicas(item) for item in _replicated_jobs(reader))
            ready = sum((item.count("ready", 0) or 0) + (item.count("succeeded", 0) or 0) for item in _statuses(reader))
            return ready >= replicas

        return read_strictly(job, read)

    def reclaimable_pods(self, job: Json) -> Mapping[str, int]:
        """Return by replicated job the pods of the Jobs that have succeeded."""

        def read(reader: FieldReader) -> dict[str, int]:
            succeeded = {item.text("name"): item.count("succeeded", 0) or 0 for item in _statuses(reader)}
            reclaimable = {
                item.text("name"): min(succeeded.get(item.text("name"), 0), _replicas(item)) * _pods_of_job(item)
                for item in _replicated_jobs(reader)
            }
            return {name: pods for name, pods in reclaimable.items() if pods}

        return read_strictly(job, read)

    def is_done(self, job: Json, succeeded: Iterable[PodLabels]) -> bool:
        """Return whether each Job of the JobSet has a succeeded pod for each index. Only Indexed Jobs count.

        Pods of an earlier attempt do not count. A JobSet restarts a Job, with a new UID, only if the Job has failed.
        """

        def read(reader: FieldReader) -> bool:
            attempt = str(reader.child("status").count("restarts", 0))
            by_name: dict[str, list[PodLabels]] = {}
            for labels in succeeded:
                if labels.get(_UID_LABEL) == uid_of(job) and labels.get(_ATTEMPT_LABEL) == attempt:
                    by_name.setdefault(labels.get(_REPLICATED_JOB_LABEL, ""), []).append(labels)
            return all(_has_succeeded(item, by_name.get(item.text("name"), ())) for item in _replicated_jobs(reader))

        return read_strictly(job, read)


ADAPTER: JobAdapter = JobSetAdapter(JOB_SETS)


def _replicated_jobs(reader: FieldReader) -> list[FieldReader]:
    return list(reader.child("spec").children("replicatedJobs"))


def _statuses(reader: FieldReader) -> list[FieldReader]:
    return list(reader.child("status").children("replicatedJobsStatus"))


def _replicas(replicated_job: FieldReader) -> int:
    return replicated_job.int_in_range("replicas", 1, MAX_PODS, minimum=0)


def _pods_of_job(replicated_job: FieldReader) -> int:
    return pods_at_a_time(replicated_job.child("template").child("spec"))


def _has_succeeded(replicated_job: FieldReader, succeeded: Iterable[PodLabels]) -> bool:
    """Return whether the succeeded pods show that as many Jobs have succeeded as there are replicas."""
    completions = completions_of(replicated_job.child("template").child("spec"))
    done = sum(len(indexes) >= completions for indexes in indexes_by_job(succeeded).values())
    return done >= _replicas(replicated_job)
