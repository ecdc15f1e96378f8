"""What the webhooks of LeaderWorkerSets, Deployments and StatefulSets share: their pods get the label of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.controller.jobs.job_fields import labels_of, queue_name
from zonewise_scheduler.controller.webhooks.field_checks import check_class_remains, label_field, problem
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.controller.types import Json

QUEUE_LABELS = (QUEUE_LABEL, PRIORITY_CLASS_LABEL)
"""Labels that the templates of an object get."""


def mark_template(obj: Json, owner: Json, path: str, name: str, annotations: Mapping[str, str]) -> None:
    """Give a template the queue and the priority class of an object, and annotations. Raises FieldError.

    `owner`, `path`: the object with the template, which changes, and its path; `name`: the field of the template.
    """
    labels = {label: value for label, value in labels_of(obj).items() if label in QUEUE_LABELS}
    template, template_path = object_in(owner, name, path), f"{path}{name}."
    metadata = {**object_in(template, "metadata", template_path)}
    for field, added in (("labels", labels), ("annotations", annotations)):
        if added:
            metadata[field] = {**object_in(metadata, field, f"{template_path}metadata."), **added}
    owner[name] = {**template, "metadata": metadata}


def queue_changes(old: Json, new: Json) -> Iterator[str]:
    """Yield a problem if the queue of an object changes while its replicas are ready, or if it or the class is removed.

    Raises FieldError.
    """
    before, now = queue_name(old), queue_name(new)
    is_ready = bool(object_in(old, "status", "").get("readyReplicas"))
    if before and before != now and (is_ready or not now):
        reason = " while replicas are ready" if now else ": the label cannot be removed"
        advice = f"cannot replace {before!r:.80}{reason}"
        yield problem(label_field(QUEUE_LABEL), now, advice)
    if before:
        yield from check_class_remains(labels_of(old), labels_of(new))
