"""What the webhooks know of the settings and of the cluster, and which objects are jobs of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import object_in, string_in
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json

POD = ("", "Pod")
"""The group and kind of plain pods. They are gated; all other kinds are suspended."""


class AdmissionRules(NamedTuple):
    """The facts that decide about an object beside the object itself."""

    suspend_paths: Mapping[tuple[str, str], FieldPath]
    """By API group and kind: the field that holds a job; empty for pods. See suspend_paths()."""
    has_default_queue: Callable[[str], bool]
    """Whether a namespace has the LocalQueue `default`. It is called by several threads."""
    manages_without_queue_name: bool = False
    """The setting manageJobsWithoutQueueName: jobs without a queue are suspended too."""


def labels_of(obj: Json) -> Json:
    """Return the labels. Raises FieldError for metadata that are invalid."""
    return object_in(object_in(obj, "metadata", ""), "labels", "metadata.")


def annotations_of(obj: Json) -> Json:
    """Return the annotations. Raises FieldError for metadata that are invalid."""
    return object_in(object_in(obj, "metadata", ""), "annotations", "metadata.")


def queue_name(obj: Json) -> str:
    """Return the LocalQueue that an object names; "" for none. Raises FieldError."""
    return string_in(labels_of(obj), QUEUE_LABEL, "metadata.labels.")


def suspend_paths(adapters: Mapping[tuple[str, str], JobAdapter]) -> dict[tuple[str, str], FieldPath]:
    """Return the paths of AdmissionRules for kinds with an adapter (jobs/registry.py adapters_by_kind()), and pods."""
    return {**{kind: adapter.suspend_path for kind, adapter in adapters.items()}, POD: ()}


def is_suspended(obj: Json, path: FieldPath) -> bool:
    """Tell whether a job is held by the field of its kind. Raises FieldError."""
    *parents, name = map(str, path)
    for parent in parents:
        obj = object_in(obj, parent, "")
    return obj.get(name) is True
