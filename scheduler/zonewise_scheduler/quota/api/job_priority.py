"""The priority of a job: its WorkloadPriorityClass, or else the PriorityClass of its run policy or its pods.

pkg/controller/jobframework/reconciler.go ExtractPriority, pkg/util/priority/priority.go;
pkg/controller/jobs/kubeflow/kubeflowjob/kubeflowjob_controller.go PriorityClass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.quota.api.pod_set_manifest import Json, PodSetManifest

PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
"""Label with the name of a job's WorkloadPriorityClass."""
DEFAULT_PRIORITY_CLASS = "default"
"""Name of the WorkloadPriorityClass for new jobs that name none (jobframework/defaults.go
ApplyDefaultWorkloadPriorityClass)."""


class PriorityClasses(NamedTuple):
    """The priority classes of a cluster, as values by name."""

    workload: Mapping[str, int] = {}
    """WorkloadPriorityClasses."""
    pod: Mapping[str, int] = {}
    """PriorityClasses."""
    default_pod_class: str = ""
    """Name of the PriorityClass with globalDefault; if there are several, the one with the smallest value."""


class JobPriority(NamedTuple):
    """The priority of a job and the class from which it comes."""

    group: str = ""
    kind: str = ""
    name: str = ""
    """"" without a class."""
    value: int = 0

    @property
    def reference(self) -> Json | None:
        """The class as spec.priorityClassRef of a Workload; None if there is no class."""
        return {"group": self.group, "kind": self.kind, "name": self.name} if self.name else None


def read_job_priority(job: FieldReader, pod_sets: Iterable[PodSetManifest], classes: PriorityClasses) -> JobPriority:
    """Return the priority of a job; an unknown class is reported and counts as 0."""
    metadata = job.child("metadata")
    if label := metadata.pairs("labels").get(PRIORITY_CLASS_LABEL):
        field = f"{metadata.path}labels.{PRIORITY_CLASS_LABEL}"
        value = _value(classes.workload, label, field, metadata.problems)
        return JobPriority("kueue.x-k8s.io", "WorkloadPriorityClass", label, value)
    policy = job.child("spec").child("runPolicy").child("schedulingPolicy")
    field, name = f"{policy.path}priorityClass", policy.text("priorityClass")
    if not name:
        names = (_priority_class_name(pod_set, job.problems) for pod_set in pod_sets)
        field, name = "spec.template.spec.priorityClassName", next(filter(None, names), classes.default_pod_class)
    if not name:
        return JobPriority()
    value = _value(classes.pod, name, field, job.problems)
    return JobPriority("scheduling.k8s.io", "PriorityClass", name, value)


def _priority_class_name(pod_set: PodSetManifest, problems: list[str]) -> str:
    return FieldReader(pod_set.template, "template.", problems).child("spec").text("priorityClassName")


def _value(values: Mapping[str, int], name: str, field: str, problems: list[str]) -> int:
    if name not in values:
        problems.append(f"{field}: there is no such class: {name!r:.80}")
    return values.get(name, 0)
