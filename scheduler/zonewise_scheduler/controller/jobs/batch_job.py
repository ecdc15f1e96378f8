"""batch/v1 Jobs (pkg/controller/jobs/job/job_controller.go; KEP-2232, KEP-2926, KEP-5440).

A stop takes up to three writes. Each is derived from the observed Job only:

| observed | next write |
|---|---|
| not suspended | suspend, and annotate that a stop is under way |
| suspended, pods active | none: the API server rejects a new template (Kubernetes 1.36) |
| suspended, no active pods, start time, no condition Suspended | none: the Job controller has not confirmed it yet |
| suspended, no active pods, start time, condition Suspended | reset the start time, as Job controllers do since 1.36 |
| suspended, no active pods, no start time | restore the template and the parallelism, remove the annotations |

A start takes two writes if the Job ran before it was queued and its user then suspended it. The same reset of the start
time comes first.

In the last state, the API server of every Kubernetes version allows the template to change
(pkg/registry/batch/job/strategy.go shouldAllowMutablePodTemplate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader, object_in
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.jobs.interface import FinishedJob, JobPatch, StartConflict
from zonewise_scheduler.controller.jobs.job_completion import completions_done, is_job_done
from zonewise_scheduler.controller.jobs.job_deadline import SUBMITTED_DEADLINE_ANNOTATION, submitted_deadline
from zonewise_scheduler.controller.jobs.job_fields import (
    annotation_of,
    annotations_of,
    condition_message,
    read_strictly,
)
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info, restore_template
from zonewise_scheduler.controller.merge_patch import merge_patch
from zonewise_scheduler.quota.api.job_pod_sets import BOOLS, JOB_CONTROLLER_LABELS, pods_at_a_time, read_job_pod_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.controller.jobs.interface import JobAdapter, PodSetInfo
    from zonewise_scheduler.controller.jobs.job_completion import PodLabels
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

STOPPING_ANNOTATION = "kueue.x-k8s.io/stopping"
"""Marks a Job whose stop is not complete."""

COMPLETIONS_ANNOTATION = "kueue.x-k8s.io/job-completions-equal-parallelism"
"""Completions change together with the parallelism on a partial admission."""

_START_ANNOTATIONS = (STOPPING_ANNOTATION, INJECTED_ANNOTATION, SUBMITTED_DEADLINE_ANNOTATION)
"""Annotations that the last write of a stop removes."""


class BatchJob:
    """The adapter of batch/v1 Jobs."""

    resource = JOBS
    suspend_path = ("spec", "suspend")

    def is_suspended(self, job: Json) -> bool:
        """Return whether the Job is held and no stop is incomplete."""
        return _is_held(job) and not is_stopping(job)

    def pod_sets(self, job: Json) -> tuple[PodSetManifest, ...]:
        """Return the only pod set."""
        has_started = not _is_held(job) or any(name in annotations_of(job) for name in _START_ANNOTATIONS)
        return (read_strictly(job, lambda reader: read_job_pod_set(reader, has_started=has_started)),)

    def before_start(self, job: Json) -> JobPatch | None:
        """Return the write that resets the start time of a Job that its user suspended, on servers before 1.36."""
        return _reset_start_time(job, "start")

    def start(self, job: Json, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the patch that starts the Job."""
        if len(infos) != 1:
            raise StartConflict(f"pod sets: 1 in the Job, {len(infos)} in the admission")
        [pod_set], [info] = self.pod_sets(job), infos
        spec = object_in(job, "spec", "")
        template = object_in(spec, "template", "spec.")
        started = {**spec, "suspend": False, "template": merge_pod_set_info(template, info)}
        if pod_set.min_count is not None and info.pods != pod_set.pods:
            started |= _counts(job, info.pods)
        return JobPatch("start", {"spec": merge_patch(spec, started)})

    def next_stop(self, job: Json, original: Sequence[PodSetManifest]) -> JobPatch | None:
        """Return the next write of a stop, as in the table above."""
        if self.finished(job) is not None:
            return None
        if not _is_held(job):
            body = {"metadata": {"annotations": {STOPPING_ANNOTATION: "true"}}, "spec": {"suspend": True}}
            return JobPatch("stop: suspend", body)
        change = self._restoring_change(job, original)
        annotations = [name for name in _START_ANNOTATIONS if name in annotations_of(job)]
        if (not change and not annotations) or _has_pods(job):
            return None
        if object_in(job, "status", "").get("startTime") is not None:
            return _reset_start_time(job, "stop")
        body: Json = {"spec": change} if change else {}
        if annotations:
            body["metadata"] = {"annotations": dict.fromkeys(annotations)}
        return JobPatch("stop: restore the template", body)

    def is_active(self, job: Json) -> bool:
        """Return whether pods run or terminate, or may still do so because the suspension is not confirmed."""
        status = read_strictly(job, lambda reader: reader.child("status"))
        unconfirmed = (
            _is_held(job)
            and status.has("startTime")
            and not _is_suspension_confirmed(job)
            and self.finished(job) is None
        )
        return _has_pods(job) or unconfirmed

    def pods_ready(self, job: Json) -> bool:
        """Return whether the number of pods that are ready or have succeeded reaches the number that runs at a time."""

        def read(reader: FieldReader) -> bool:
            status = reader.child("status")
            uncounted = len(status.child("uncountedTerminatedPods").texts("succeeded"))
            ready = (status.count("ready", 0) or 0) + (status.count("succeeded", 0) or 0) + uncounted
            return ready >= pods_at_a_time(reader.child("spec"))

        return read_strictly(job, read)

    def finished(self, job: Json) -> FinishedJob | None:
        """Return how the Job ended, by its condition Complete or Failed.

        SuccessCriteriaMet and FailureTarget precede these conditions, while pods still terminate.
        """
        for condition_type, succeeded in (("Complete", True), ("Failed", False)):
            message = condition_message(job, condition_type)
            if message is not None:
                return FinishedJob(succeeded, message)
        return None

    def reclaimable_pods(self, job: Json) -> Mapping[str, int]:
        """Return the pods for which no completion is left. Indexes that failed permanently count as done."""

        def read(reader: FieldReader) -> tuple[int, int, int]:
            return pods_at_a_time(reader.child("spec")), *completions_done(reader)

        pods, done, completions = read_strictly(job, read)
        surplus = pods - max(0, completions - done) if done else 0
        return {pod_set.name: surplus for pod_set in self.pod_sets(job)} if surplus > 0 else {}

    def is_done(self, job: Json, succeeded: Iterable[PodLabels]) -> bool:
        """Return whether the status and the succeeded pods together account for all completions."""
        return is_job_done(job, succeeded)

    def _restoring_change(self, job: Json, original: Sequence[PodSetManifest]) -> Json:
        """Return the patch that restores the spec; empty if nothing must be restored."""
        spec = object_in(job, "spec", "")
        if len(original) != 1:
            return {}
        [pod_set] = original
        template = restore_template(
            object_in(spec, "template", "spec."), pod_set.template, keep_labels=JOB_CONTROLLER_LABELS
        )
        restored = {**spec, "template": template}
        if pod_set.min_count is not None and read_strictly(spec, pods_at_a_time) != pod_set.pods:
            restored |= _counts(job, pod_set.pods)
        if SUBMITTED_DEADLINE_ANNOTATION in annotations_of(job):
            restored["activeDeadlineSeconds"] = submitted_deadline(job)
        return merge_patch(spec, restored)


ADAPTER: JobAdapter = BatchJob()


def is_stopping(job: Json) -> bool:
    """Return whether the stop of a job is incomplete; False for kinds that stop with one write."""
    return annotation_of(job, STOPPING_ANNOTATION) == "true"


def _is_held(job: Json) -> bool:
    return read_strictly(job, lambda reader: reader.child("spec").flag("suspend", default=False))


def _is_suspension_confirmed(job: Json) -> bool:
    return condition_message(job, "Suspended") is not None


def _reset_start_time(job: Json, purpose: str) -> JobPatch | None:
    """Return the write that resets the start time, once the Job controller has confirmed the suspension."""
    has_started = object_in(job, "status", "").get("startTime") is not None
    if not has_started or not _is_suspension_confirmed(job) or _active_pods(job):
        return None
    return JobPatch(f"{purpose}: reset the start time", {"status": {"startTime": None}}, "status")


def _active_pods(job: Json) -> int:
    return read_strictly(job, lambda reader: reader.child("status").count("active", 0) or 0)


def _has_pods(job: Json) -> bool:
    """Return whether pods run or terminate."""
    return bool(_active_pods(job) or read_strictly(job, lambda reader: reader.child("status").count("terminating")))


def _counts(job: Json, pods: int) -> Json:
    """Return the parallelism for a number of pods, and the completions if they must be equal to it."""
    follows = BOOLS.get(annotation_of(job, COMPLETIONS_ANNOTATION), False)
    return {"parallelism": pods, "completions": pods} if follows else {"parallelism": pods}
