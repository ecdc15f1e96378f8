"""The base of most job kinds, which have a suspend field and pod templates within their spec.

A start is one write: it resumes the job, and adds to its templates what the admission requires. A stop is also one
write: it suspends the job and restores its templates. The operators of these kinds delete the pods of a suspended job,
and later create them again from the templates (pkg/controller/jobframework/interface.go GenericJob:
RunWithPodSetsInfo, RestorePodSetsInfo).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import milli_quantity, object_in, objects_in
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION, is_injected
from zonewise_scheduler.controller.jobs.interface import FinishedJob, JobPatch, StartConflict
from zonewise_scheduler.controller.jobs.job_fields import condition_message, read_strictly
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info, restore_template
from zonewise_scheduler.controller.jobs.template_paths import with_value
from zonewise_scheduler.controller.merge_patch import merge_patch
from zonewise_scheduler.quota.api.job_pod_sets import NO_INDEXES, PodIndexes, read_pod_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import PodSetInfo
    from zonewise_scheduler.controller.jobs.job_completion import PodLabels
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest


class JobTemplate(NamedTuple):
    """One pod template of a job."""

    name: str
    """Name of its pod set."""
    pods: int
    template: FieldReader
    path: FieldPath
    """Path of the template in the job."""
    indexes: PodIndexes = NO_INDEXES
    added_containers: Sequence[Json] = ()
    """Containers that the operator adds to each pod."""
    least_requests: Mapping[str, str] = {}
    """Amounts that the first container requests at least."""

    @property
    def pod_set(self) -> PodSetManifest:
        """Return the pod set of the template."""
        pod_set = read_pod_set(self.name, self.pods, self.template, self.indexes)
        if not self.added_containers and not self.least_requests:
            return pod_set
        spec = pod_set.template["spec"]
        containers = list(objects_in(spec, "containers", "spec."))
        if self.least_requests:
            containers[:1] = [_with_requests(item, self.least_requests) for item in containers[:1]]
        containers += self.added_containers
        return pod_set._replace(template={**pod_set.template, "spec": {**spec, "containers": containers}})


class SuspendableJob(ABC):
    """A kind of job with a field that suspends it."""

    suspend_path: FieldPath = ("spec", "suspend")
    end_conditions: Sequence[tuple[str, bool]] = ()
    """Conditions that end the job, each with whether the job has succeeded."""

    def __init__(self, resource: Resource) -> None:
        """Adapt the kind `resource`."""
        self.resource = resource

    @abstractmethod
    def templates(self, job: FieldReader) -> Iterable[JobTemplate]:
        """Yield the pod templates of a job in the order of its pod sets. Problems are added to the reader's list."""

    @abstractmethod
    def is_active(self, job: Json) -> bool:
        """Return whether pods of the job still run or terminate."""

    @abstractmethod
    def pods_ready(self, job: Json) -> bool:
        """Return whether all pods that the job needs at a time are ready or have succeeded."""

    def is_suspended(self, job: Json) -> bool:
        """Return whether the job is held."""

        def read(reader: FieldReader) -> bool:
            *owners, field = map(str, self.suspend_path)
            for owner in owners:
                reader = reader.child(owner)
            return reader.flag(field, default=False)

        return read_strictly(job, read)

    def pod_sets(self, job: Json) -> tuple[PodSetManifest, ...]:
        """Return a pod set for each template."""
        return read_strictly(job, lambda reader: tuple(item.pod_set for item in self.templates(reader)))

    def before_start(self, job: Json) -> JobPatch | None:  # noqa: ARG002 -- of the interface
        """Return None, since a start is one write."""
        return None

    def start(self, job: Json, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the patch that resumes the job. A list that contains templates is replaced as a whole."""
        templates = self._templates(job)
        if len(infos) != len(templates):
            kind = self.resource.kind
            raise StartConflict(f"pod sets: {len(templates)} in the {kind}, {len(infos)} in the admission")
        started = with_value(job, self.suspend_path, False)
        for item, info in zip(templates, infos, strict=True):
            started = _with_template(started, item, merge_pod_set_info(dict(item.template.obj), info))
        return JobPatch("start", merge_patch(job, started))

    def next_stop(self, job: Json, original: Sequence[PodSetManifest]) -> JobPatch | None:
        """Return the write that suspends the job, and that restores the templates if their number is unchanged.

        A second write removes the annotation of the start, once no pod is active.
        """
        if self.finished(job) is not None:
            return None
        stopped = job if self.is_suspended(job) else with_value(job, self.suspend_path, True)
        templates = self._templates(job)
        if is_injected(job) and not self.is_active(job):
            stopped = with_value(stopped, ("metadata", "annotations", INJECTED_ANNOTATION), None)
        if len(original) == len(templates):
            for item, pod_set in zip(templates, original, strict=True):
                stopped = _with_template(stopped, item, restore_template(dict(item.template.obj), pod_set.template))
        change = merge_patch(job, stopped)
        return JobPatch("stop: suspend and restore the templates", change) if change else None

    def finished(self, job: Json) -> FinishedJob | None:
        """Return how the job ended, by its conditions."""
        for condition_type, succeeded in self.end_conditions:
            message = condition_message(job, condition_type)
            if message is not None:
                return FinishedJob(succeeded, message)
        return None

    def reclaimable_pods(self, job: Json) -> Mapping[str, int]:  # noqa: ARG002 -- of the interface
        """Return nothing, since the job needs all of its pods until its end."""
        return {}

    def is_done(self, job: Json, succeeded: Iterable[PodLabels]) -> bool:  # noqa: ARG002 -- of the interface
        """Return False, since the job needs all of its pods until its end."""
        return False

    def _templates(self, job: Json) -> list[JobTemplate]:
        return read_strictly(job, lambda reader: list(self.templates(reader)))


def _with_template(job: Json, item: JobTemplate, template: Json) -> Json:
    """Return a job with a changed template; the same job if only absent fields differ."""
    return with_value(job, item.path, template) if merge_patch(item.template.obj, template) else job


def _with_requests(container: Json, least: Mapping[str, str]) -> Json:
    """Return a container that requests at least some amounts (pkg/util/resource MergeResourceListKeepMax)."""
    resources = object_in(container, "resources", "containers[0].")
    requests = object_in(resources, "requests", "containers[0].resources.")
    path = "containers[0].resources.requests."
    raised = {
        name: amount
        for name, amount in least.items()
        if name not in requests or milli_quantity(requests[name], path) < milli_quantity(amount, path)
    }
    return {**container, "resources": {**resources, "requests": {**requests, **raised}}}
