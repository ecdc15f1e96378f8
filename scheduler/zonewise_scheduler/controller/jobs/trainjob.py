"""TrainJobs of trainer.kubeflow.org/v1alpha1 (pkg/controller/jobs/trainjob/trainjob_controller.go).

The trainer creates a JobSet from a TrainJob's runtime, and suspends it whenever the TrainJob is suspended. While the
JobSet is suspended, the trainer builds it again from the runtime and `spec.runtimePatches` (kubeflow/trainer
pkg/runtime/framework/plugins/jobset/jobset.go Build). So the pods are those of the JobSet, and a start adds a runtime
patch. Patches may change only while the TrainJob is held and no pod is active. So a start and a stop take several
writes, each derived from the observed objects:

| observed, at a start | next write |
|---|---|
| no patch of the queue | the patch |
| the patch of the queue | resume |

| observed, at a stop | next write |
|---|---|
| not suspended | suspend |
| suspended, pods active | none |
| suspended, no active pods, a patch of the queue | empty the patch |
| suspended, no patch, the JobSet has the additions | none: the trainer has not restored it yet |
| suspended, no patch, the JobSet is restored | remove the annotation of the start |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError, object_in, objects_in
from zonewise_common.kube.resources import JOB_SETS, Resource
from zonewise_scheduler.controller.jobs import jobset
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION, holds_injected, is_injected
from zonewise_scheduler.controller.jobs.interface import FinishedJob, JobPatch, ParentAdapter, StartConflict
from zonewise_scheduler.controller.jobs.job_fields import condition_message, read_strictly
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info
from zonewise_scheduler.controller.types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.controller.jobs.interface import PodSetInfo
    from zonewise_scheduler.controller.jobs.job_completion import PodLabels
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

PATCH_MANAGER = "kueue.x-k8s.io/manager"
"""Manager of the queue's runtime patch; Kueue uses the same name."""

_NO_PATCH: Json = {"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}


class TrainJob(ParentAdapter):
    """The adapter of TrainJobs. With a JobSet, it is the adapter of that JobSet's TrainJob."""

    resource = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", namespaced=True)
    suspend_path = ("spec", "suspend")

    def __init__(self, job_set: Json | None = None) -> None:
        """Set the JobSet of a TrainJob; None: it is not known."""
        self._job_set = job_set

    def child_key(self, job: Json) -> ObjectKey:
        """Return the key of the JobSet, which has the name of the TrainJob."""
        metadata = object_in(job, "metadata", "")
        return ObjectKey(JOB_SETS, metadata.get("namespace", ""), metadata["name"])

    def with_child(self, child: Json) -> TrainJob:
        """Return the adapter of the TrainJob to which this JobSet belongs."""
        return TrainJob(child)

    def is_suspended(self, job: Json) -> bool:
        """Return whether the job is held and its JobSet does not wait to be restored."""
        return _is_held(job) and (bool(_patches_of_queue(job)) or not is_injected(job))

    def pod_sets(self, job: Json) -> tuple[PodSetManifest, ...]:  # noqa: ARG002 -- of the interface
        """Return the pod sets of the JobSet."""
        return jobset.ADAPTER.pod_sets(self._child)

    def before_start(self, job: Json) -> JobPatch | None:  # noqa: ARG002 -- of the interface
        """Return None, since the writes of a start depend on the admission."""
        return None

    def start(self, job: Json, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the patch of the runtime; once the job contains it, return the write that resumes the job."""
        pod_sets = self.pod_sets(job)
        if len(infos) != len(pod_sets):
            raise StartConflict(f"pod sets: {len(pod_sets)} in the TrainJob, {len(infos)} in the admission")
        if _patches_of_queue(job):
            return JobPatch("start", {"spec": {"suspend": False}})
        patches = [_replicated_job_patch(pod_set, info) for pod_set, info in zip(pod_sets, infos, strict=True)]
        template = {"spec": {"replicatedJobs": patches}}
        patch = {"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": template}}
        return JobPatch("start: patch the runtime", _with_patch(job, patch))

    def next_stop(self, job: Json, original: Sequence[PodSetManifest]) -> JobPatch | None:  # noqa: ARG002 -- of the interface
        """Return the next write of a stop, as in the table above. The runtime holds the original templates."""
        if self.finished(job) is not None:
            return None
        if not _is_held(job):
            return JobPatch("stop: suspend", {"spec": {"suspend": True}})
        if self.is_active(job):
            return None
        if _patches_of_queue(job):
            return JobPatch("stop: empty the patch of the runtime", _with_patch(job, _NO_PATCH))
        if is_injected(job) and not holds_injected(job, self.pod_sets(job)):
            body = {"metadata": {"annotations": {INJECTED_ANNOTATION: None}}}
            return JobPatch("stop: the JobSet is restored", body)
        return None

    def is_active(self, job: Json) -> bool:
        """Return whether Jobs of the JobSet are active, or may become so because the JobSet is not suspended yet."""
        if self.finished(job) is not None:
            return False
        return not jobset.ADAPTER.is_suspended(self._child) or jobset.ADAPTER.is_active(self._child)

    def pods_ready(self, job: Json) -> bool:  # noqa: ARG002 -- of the interface
        """Return whether all Jobs of the JobSet are ready or have succeeded."""
        return jobset.ADAPTER.pods_ready(self._child)

    def finished(self, job: Json) -> FinishedJob | None:
        """Return how the job ended, by its condition Complete or Failed."""
        for condition_type, succeeded in (("Complete", True), ("Failed", False)):
            message = condition_message(job, condition_type)
            if message is not None:
                return FinishedJob(succeeded, message)
        return None

    def reclaimable_pods(self, job: Json) -> Mapping[str, int]:  # noqa: ARG002 -- of the interface
        """Return by replicated job the pods of the Jobs that have succeeded."""
        return jobset.ADAPTER.reclaimable_pods(self._child)

    def is_done(self, job: Json, succeeded: Iterable[PodLabels]) -> bool:  # noqa: ARG002 -- of the interface
        """Return whether all Jobs of the JobSet have succeeded."""
        return jobset.ADAPTER.is_done(self._child, succeeded)

    @property
    def _child(self) -> Json:
        if self._job_set is None:
            raise FieldError("spec.runtimeRef", "the Trainer has not created the JobSet yet")
        return self._job_set


ADAPTER = TrainJob()


def _is_held(job: Json) -> bool:
    return read_strictly(job, lambda reader: reader.child("spec").flag("suspend", default=False))


def _patches(job: Json) -> list[Json]:
    return objects_in(object_in(job, "spec", ""), "runtimePatches", "spec.")


def _patches_of_queue(job: Json) -> list[Json]:
    """Return the entries for replicated jobs in the queue's patch."""
    for patch in _patches(job):
        if patch.get("manager") == PATCH_MANAGER:
            runtime = object_in(patch, "trainingRuntimeSpec", "spec.runtimePatches.")
            spec = object_in(object_in(runtime, "template", ""), "spec", "")
            return objects_in(spec, "replicatedJobs", "spec.runtimePatches.trainingRuntimeSpec.template.spec.")
    return []


def _with_patch(job: Json, patch: Json) -> Json:
    """Return the merge patch that replaces the queue's runtime patch and keeps those of others."""
    others = [entry for entry in _patches(job) if entry.get("manager") != PATCH_MANAGER]
    return {"spec": {"runtimePatches": [*others, patch]}}


def _replicated_job_patch(pod_set: PodSetManifest, info: PodSetInfo) -> Json:
    """Return the patch of one replicated job (trainer v1alpha1 ReplicatedJobPatch); empty fields are omitted.

    A patch replaces the whole list of tolerations, so it includes those of the template. Raises StartConflict.
    """
    merged = merge_pod_set_info(pod_set.template, info)
    metadata: dict[str, Any] = {"labels": dict(info.labels), "annotations": dict(info.annotations)}
    spec: dict[str, Any] = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": merged["spec"].get("tolerations") if info.tolerations else None,
        "schedulingGates": [{"name": name} for name in info.scheduling_gates],
    }
    template = {"metadata": _present(metadata), "spec": _present(spec)}
    return {"name": pod_set.name, "template": {"spec": {"template": template}}}


def _present(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value}
