"""The writes that hand the queues of a cluster over to zonewise, and back. They start or stop no job.

| to zonewise | back to Kueue |
|---|---|
| Kueue's Lease is adopted | the adoption is withdrawn |
| Kueue's webhooks are not called, since nothing serves them | they are called |
| the finalizer `kueue.x-k8s.io/resource-in-use` is removed: only Kueue would | Kueue adds it to queues again |
| admitted Workloads declare the walltime of their jobs | that, and what a start recorded on jobs, is removed |
| | the checkpoint is deleted |

Each write specifies the version of the object for which it was planned, so a repeated write does nothing.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader, objects_in
from zonewise_common.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    WORKLOADS,
)
from zonewise_scheduler.controller.cluster_cache import WorkloadIndex, uid_of
from zonewise_scheduler.controller.informers import object_key
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.jobs.job_deadline import SUBMITTED_DEADLINE_ANNOTATION, submitted_deadline
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.controller.kueue.adoption_checks import running_workloads
from zonewise_scheduler.controller.kueue.kueue_lease import ADOPTED_ANNOTATION, is_adopted, renewal
from zonewise_scheduler.controller.types import Verb, Write
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION, read_run_walltime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json

FINALIZER = "kueue.x-k8s.io/resource-in-use"
OFF = {"name": "adopted.zonewise.dev", "expression": "false"}
"""Match condition that prevents calls of a webhook."""
WEBHOOK_CONFIGURATIONS = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)
_WITH_FINALIZER = (WORKLOADS, CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, ADMISSION_CHECKS)
_KUEUE_GROUP = "kueue.x-k8s.io"


def lease_write(lease: Json, *, adopted: bool) -> Write | None:
    """Return the write that adopts a Lease, or withdraws its adoption; None: nothing must change."""
    if is_adopted(lease) == adopted:
        return None
    value = renewal(lease) if adopted else None
    purpose = "adopt the queues" if adopted else "give the queues back"
    return _patch(LEASES, lease, purpose, {"metadata": {"annotations": {ADOPTED_ANNOTATION: value}}})


def webhook_writes(configurations: Mapping[Resource, Sequence[Json]], own: str, *, called: bool) -> Iterator[Write]:
    """Yield the writes that enable or disable calls of Kueue's webhooks.

    They concern each configuration with a webhook for Kueue's kinds, except the `own` configuration.
    """
    for resource in WEBHOOK_CONFIGURATIONS:
        for obj in configurations.get(resource, ()):
            webhooks = objects_in(obj, "webhooks", "")
            if obj["metadata"]["name"] == own or not any(map(_is_for_kueue, webhooks)):
                continue
            changed = [_with_condition(webhook, called=called) for webhook in webhooks]
            if changed != webhooks:
                purpose = "call Kueue's webhooks" if called else "disable Kueue's webhooks"
                yield _patch(resource, obj, purpose, {"webhooks": changed})


def adoption_writes(
    objects: Mapping[Resource, Sequence[Json]], adapters: Mapping[tuple[str, str], JobAdapter]
) -> Iterator[Write]:
    """Yield the writes that take over objects as Kueue has left them. Raises FieldError for an invalid job."""
    walltimes = _walltimes(objects, adapters)
    for resource in _WITH_FINALIZER:
        for obj in objects.get(resource, ()):
            body: Json = {}
            finalizers: list[str] = obj["metadata"].get("finalizers") or []
            if FINALIZER in finalizers and not obj["metadata"].get("deletionTimestamp"):
                body["finalizers"] = [name for name in finalizers if name != FINALIZER]
            walltime = walltimes.get(uid_of(obj), "")
            if walltime:
                body["annotations"] = {MAX_RUN_ANNOTATION: walltime}
            purpose = "remove the finalizer" if "finalizers" in body else ""
            purpose += (" and " if purpose else "") + "declare the walltime" if walltime else ""
            if body:
                yield _patch(resource, obj, purpose, {"metadata": body})


def return_writes(
    objects: Mapping[Resource, Sequence[Json]], adapters: Mapping[tuple[str, str], JobAdapter]
) -> Iterator[Write]:
    """Yield the writes that remove what only zonewise wrote. Raises FieldError for an invalid job."""
    for obj in objects[WORKLOADS]:
        if MAX_RUN_ANNOTATION in _annotations(obj):
            body: Json = {"metadata": {"annotations": {MAX_RUN_ANNOTATION: None}}}
            yield _patch(WORKLOADS, obj, "remove the walltime", body)
    for adapter in adapters.values():
        for job in objects.get(adapter.resource, ()):
            noted = [name for name in (INJECTED_ANNOTATION, SUBMITTED_DEADLINE_ANNOTATION) if name in _annotations(job)]
            body = {"metadata": {"annotations": dict.fromkeys(noted)}}
            if SUBMITTED_DEADLINE_ANNOTATION in noted:
                body["spec"] = {"activeDeadlineSeconds": submitted_deadline(job)}
            if noted:
                yield _patch(adapter.resource, job, "remove the record of the start", body)


def deletion_obstacles(objects: Mapping[Resource, Sequence[Json]]) -> Iterator[str]:
    """Yield the objects whose deletion waits for Kueue. Without Kueue's finalizer, they would be deleted at once."""
    for resource in _WITH_FINALIZER:
        for obj in objects.get(resource, ()):
            metadata = obj["metadata"]
            if FINALIZER in (metadata.get("finalizers") or ()) and metadata.get("deletionTimestamp"):
                yield f"{resource.kind} {metadata['name']}: it is being deleted; let Kueue finish that"


def _walltimes(
    objects: Mapping[Resource, Sequence[Json]], adapters: Mapping[tuple[str, str], JobAdapter]
) -> dict[str, str]:
    """Return the annotations that running Workloads lack, by UID. Other Workloads are adapted to their jobs anyway."""
    index = WorkloadIndex()
    for obj in running_workloads(objects):
        index.set(object_key(WORKLOADS, obj).namespaced_name, obj)
    walltimes: dict[str, str] = {}
    for adapter in adapters.values():
        kind = adapter.resource.kind
        for job in objects.get(adapter.resource, ()):
            workloads = index.owned_by(uid_of(job)).values()
            walltime = (
                read_strictly(job, lambda reader, kind=kind: read_run_walltime(reader, kind)) if workloads else inf
            )
            for workload in workloads if walltime < inf else ():
                if MAX_RUN_ANNOTATION not in _annotations(workload):
                    walltimes[uid_of(workload)] = str(int(walltime))
    return walltimes


def _is_for_kueue(webhook: Json) -> bool:
    return any(_KUEUE_GROUP in (rule.get("apiGroups") or ()) for rule in objects_in(webhook, "rules", "webhooks."))


def _with_condition(webhook: Json, *, called: bool) -> Json:
    conditions = [entry for entry in webhook.get("matchConditions") or () if entry.get("name") != OFF["name"]]
    rest = {name: value for name, value in webhook.items() if name != "matchConditions"}
    conditions += [] if called else [OFF]
    return {**rest, "matchConditions": conditions} if conditions else rest


def _annotations(obj: Json) -> Mapping[str, str]:
    return FieldReader(obj, "", []).child("metadata").pairs("annotations")


def _patch(resource: Resource, obj: Json, purpose: str, body: Json) -> Write:
    version: str = obj["metadata"].get("resourceVersion", "")
    return Write(Verb.MERGE_PATCH, object_key(resource, obj), purpose, body, "", uid_of(obj), version)
