"""Webhooks for LeaderWorkerSets of a queue: their pods get its label, and what is admitted must not change.

Source: pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.controller.jobs.job_fields import queue_name
from zonewise_scheduler.controller.pods.group_owner import LEADER, WORKER
from zonewise_scheduler.controller.pods.pod_names import POD_INDEX_OFFSET_ANNOTATION, ROLE_HASH_ANNOTATION
from zonewise_scheduler.controller.pods.role_hash import role_hash
from zonewise_scheduler.controller.webhooks.field_checks import problem
from zonewise_scheduler.controller.webhooks.queued_templates import mark_template, queue_changes
from zonewise_scheduler.quota.api.job_pod_sets import POD_SET_GROUP
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest

_PATH = "spec.leaderWorkerTemplate."


def queued_leader_worker_set(obj: Json) -> Json:
    """Return a set whose templates include the queue, the priority class, and the role of their pods.

    The index of the first worker is one above the leader's, so an annotation gives the workers an index offset. Raises
    FieldError.
    """
    queued = copy.deepcopy(obj)
    template = object_in(object_in(queued, "spec", ""), "leaderWorkerTemplate", "spec.")
    has_leader = template.get("leaderTemplate") is not None
    if has_leader:
        mark_template(obj, template, _PATH, "leaderTemplate", {ROLE_HASH_ANNOTATION: LEADER})
    annotations = {ROLE_HASH_ANNOTATION: WORKER if has_leader else DEFAULT_POD_SET}
    if has_leader and POD_SET_GROUP not in _annotations(template, "workerTemplate"):
        annotations[POD_INDEX_OFFSET_ANNOTATION] = "1"
    mark_template(obj, template, _PATH, "workerTemplate", annotations)
    return queued


def leader_worker_set_problems(request: AdmissionRequest) -> Iterator[str]:
    """Yield the problems of a queued set. Raises FieldError."""
    if request.operation == "UPDATE" and queue_name(request.old):
        yield from _changes(request.old, request.obj)


def _changes(old: Json, new: Json) -> Iterator[str]:
    yield from queue_changes(old, new)
    sizes = [_leader_worker_template(obj).get("size", 1) for obj in (old, new)]
    if sizes[0] != sizes[1]:
        yield problem(f"{_PATH}size", sizes[1], f"cannot replace {sizes[0]!r}: the pods of a replica are admitted once")
    roles = [
        {name: role_hash(object_in(item, "spec", _PATH)) for name, item in _templates(obj).items()}
        for obj in (old, new)
    ]
    for name in sorted(roles[0].keys() | roles[1].keys()):
        if roles[0].get(name) != roles[1].get(name):
            yield f"{_PATH}{name}: its requests and constraints are admitted once, and cannot change: make another set"


def _leader_worker_template(obj: Json) -> Json:
    return object_in(object_in(obj, "spec", ""), "leaderWorkerTemplate", "spec.")


def _templates(obj: Json) -> dict[str, Json]:
    template = _leader_worker_template(obj)
    return {
        name: object_in(template, name, _PATH)
        for name in ("leaderTemplate", "workerTemplate")
        if template.get(name) is not None
    }


def _annotations(owner: Json, name: str) -> Json:
    metadata = object_in(object_in(owner, name, _PATH), "metadata", f"{_PATH}{name}.")
    return object_in(metadata, "annotations", f"{_PATH}{name}.metadata.")
