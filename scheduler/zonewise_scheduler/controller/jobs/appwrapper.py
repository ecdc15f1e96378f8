"""AppWrappers of workload.codeflare.dev/v1beta2 (pkg/controller/jobs/appwrapper/appwrapper_controller.go).

The components of an AppWrapper are objects that its operator creates when it is resumed, and deletes when it is
suspended. A start does not change their templates. It writes the additions for each pod set to `podSetInfos`, and the
operator merges them into the templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import Resource
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION, is_injected
from zonewise_scheduler.controller.jobs.interface import FinishedJob, JobPatch, StartConflict
from zonewise_scheduler.controller.jobs.job_fields import condition_message, read_strictly
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob
from zonewise_scheduler.controller.jobs.template_paths import with_value
from zonewise_scheduler.controller.jobs.wrapped_objects import declared_template, inferred_templates
from zonewise_scheduler.controller.merge_patch import merge_patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.interface import JobAdapter, PodSetInfo
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

_COMPONENT = 2
"""Position of the component's index in the path of a template: after `spec.components`."""


class AppWrapper(SuspendableJob):
    """The adapter of AppWrappers. Each template of each component is a pod set, named by its position."""

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the templates that the components declare, or that are derived from their kinds; report if none is."""
        number = 0
        for i, component in enumerate(job.child("spec").children("components")):
            for item in _component_templates(component):
                yield item._replace(name=f"pods-{number}", path=("spec", "components", i, *item.path))
                number += 1
        if not number:
            job.child("spec").report("components", "no pod template is found: declare the podSets of a component")

    def start(self, job: Json, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the patch that resumes the AppWrapper and sets the additions for each pod set."""
        templates = self._templates(job)
        if len(infos) != len(templates):
            raise StartConflict(f"pod sets: {len(templates)} in the AppWrapper, {len(infos)} in the admission")
        by_component: dict[str | int, list[Json]] = {}
        for item, info in zip(templates, infos, strict=True):
            merge_pod_set_info(dict(item.template.obj), info)  # raises StartConflict
            by_component.setdefault(item.path[_COMPONENT], []).append(_pod_set_info(info))
        started = with_value(_without_infos(job), self.suspend_path, False)
        for i, added in by_component.items():
            started = with_value(started, ("spec", "components", i, "podSetInfos"), added)
        return JobPatch("start", merge_patch(job, started))

    def next_stop(self, job: Json, original: Sequence[PodSetManifest]) -> JobPatch | None:  # noqa: ARG002 -- of the interface
        """Return the write that suspends the AppWrapper and removes the additions.

        A later write removes the annotation of the start.
        """
        if self.finished(job) is not None:
            return None
        stopped = _without_infos(job)
        if not self.is_suspended(job):
            stopped = with_value(stopped, self.suspend_path, True)
        if is_injected(job) and not self.is_active(job):
            stopped = with_value(stopped, ("metadata", "annotations", INJECTED_ANNOTATION), None)
        change = merge_patch(job, stopped)
        return JobPatch("stop: suspend and drop what was added", change) if change else None

    def is_active(self, job: Json) -> bool:
        """Return whether pods may exist: the operator drops the condition QuotaReserved once all are deleted."""
        return condition_message(job, "QuotaReserved") is not None

    def pods_ready(self, job: Json) -> bool:
        """Return whether the condition PodsReady is true."""
        return condition_message(job, "PodsReady") is not None

    def finished(self, job: Json) -> FinishedJob | None:
        """Return how the AppWrapper ended, by its phase. A failed AppWrapper has ended once its objects are deleted."""
        phase = read_strictly(job, lambda reader: reader.child("status").text("phase"))
        if phase == "Succeeded":
            return FinishedJob(True, "The AppWrapper has succeeded")
        if phase == "Failed" and condition_message(job, "ResourcesDeployed") is None:
            return FinishedJob(False, "The AppWrapper has failed")
        return None


ADAPTER: JobAdapter = AppWrapper(
    Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper", namespaced=True)
)


def _component_templates(component: FieldReader) -> Iterable[JobTemplate]:
    """Return the templates of one component, with paths relative to the component."""
    declared = list(component.children("podSets"))
    if declared:
        items = (declared_template(component, pod_set) for pod_set in declared)
        return [item for item in items if item is not None]
    return [item._replace(path=("template", *item.path)) for item in inferred_templates(component.child("template"))]


def _without_infos(job: Json) -> Json:
    """Return an AppWrapper without podSetInfos in its components. Unchanged parts are shared."""
    components: list[Json] = job["spec"]["components"]
    for i, component in enumerate(components):
        if "podSetInfos" in component:
            kept = {name: value for name, value in component.items() if name != "podSetInfos"}
            job = with_value(job, ("spec", "components", i), kept)
    return job


def _pod_set_info(info: PodSetInfo) -> Json:
    """Return the additions to one pod set (AppWrapperPodSetInfo)."""
    fields: Json = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": [{"name": name} for name in info.scheduling_gates],
    }
    return {name: value for name, value in fields.items() if value}
