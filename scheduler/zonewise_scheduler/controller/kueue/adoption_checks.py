"""The obstacles that prevent the adoption of a stopped Kueue's queues. Each is one line with object and reason.

The checks use the functions with which the controller itself decides, so they cannot deviate from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_common.kube.resources import CLUSTER_QUEUES, NAMESPACES, PODS, WORKLOADS
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.cluster_cache import WorkloadIndex, uid_of
from zonewise_scheduler.controller.informers import object_key
from zonewise_scheduler.controller.jobs.elastic_job import is_sliced
from zonewise_scheduler.controller.jobs.job_fields import annotation_of
from zonewise_scheduler.controller.jobs.managed_owner import has_queued_owner
from zonewise_scheduler.controller.jobs.registry import adapter_of_job, group_kind
from zonewise_scheduler.controller.managed_namespaces import is_managed
from zonewise_scheduler.controller.planning.configuration import RESOURCES, ConfigurationObjects
from zonewise_scheduler.controller.planning.workload_sync import sync_workload
from zonewise_scheduler.controller.pods.group_owner import GROUP_RESOURCES
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.slices import find_slices
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.workload_slices import ELASTIC_ANNOTATION, ELASTIC_GATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_common.k8s.labels import Requirement
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json

_POD_OWNERS = frozenset(map(group_kind, (PODS, *GROUP_RESOURCES)))
"""API groups and kinds of the owners of Workloads for plain pods and groups of pods."""


def adoption_obstacles(
    objects: Mapping[Resource, Sequence[Json]],
    adapters: Mapping[tuple[str, str], JobAdapter],
    now: float,
    managed: tuple[Requirement, ...] = (),
) -> Iterator[str]:
    """Yield why the objects of a cluster cannot be adopted in their current state; `objects`: by kind.

    `managed`: requirements on the labels of namespaces whose jobs are queued; empty: those of all.
    """
    yield from _planner_problems(objects, now)
    yield from _unknown_owners(objects[WORKLOADS], adapters)
    yield from _job_problems(objects, adapters, managed)


def running_workloads(objects: Mapping[Resource, Sequence[Json]]) -> list[Json]:
    """Return the Workloads with quota."""
    return [obj for obj in objects[WORKLOADS] if is_true(obj, "QuotaReserved") and not is_true(obj, "Finished")]


def _planner_problems(objects: Mapping[Resource, Sequence[Json]], now: float) -> Iterator[str]:
    """Yield what the planner cannot read, and the Workloads whose quota it could not count."""
    configuration, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    for resource in RESOURCES:
        for obj in objects.get(resource, ()):
            configuration.observe(object_key(resource, obj), obj)
    configuration.feed(feed)
    for name, problems in feed.problems.items():
        yield f"{name}: {'; '.join(problems)}"
    queues = {obj["metadata"]["name"] for obj in objects[CLUSTER_QUEUES]}
    for obj in objects[WORKLOADS]:
        key = object_key(WORKLOADS, obj)
        try:
            sync_workload(feed, key.namespaced_name, obj, now, assumed=False)
        except ValueError as error:
            yield f"{key}: {error}"
    for obj in running_workloads(objects):
        queue = FieldReader(obj, "", []).child("status").child("admission").text("clusterQueue")
        if queue not in queues:
            yield f"{object_key(WORKLOADS, obj)}: it is admitted to ClusterQueue {queue!r:.80}, which does not exist"


def _unknown_owners(workloads: Sequence[Json], adapters: Mapping[tuple[str, str], JobAdapter]) -> Iterator[str]:
    for obj in workloads:
        if is_true(obj, "Finished"):
            continue
        for owner in FieldReader(obj, "", []).child("metadata").children("ownerReferences"):
            kind = (owner.text("apiVersion").rpartition("/")[0], owner.text("kind"))
            if owner.flag("controller", default=False) and kind not in _POD_OWNERS and kind not in adapters:
                yield f"{object_key(WORKLOADS, obj)}: jobs of kind {kind[1]} ({kind[0]}) are not queued"


def _job_problems(
    objects: Mapping[Resource, Sequence[Json]],
    adapters: Mapping[tuple[str, str], JobAdapter],
    managed: tuple[Requirement, ...],
) -> Iterator[str]:
    """Yield the jobs that the controller would stop, or whose pods it could not start."""
    index = WorkloadIndex()
    for obj in objects[WORKLOADS]:
        index.set(object_key(WORKLOADS, obj).namespaced_name, obj)
    kinds = [adapter.resource for adapter in adapters.values()]
    by_key = {object_key(resource, obj): obj for resource in kinds for obj in objects.get(resource, ())}
    by_uid = {uid_of(obj): obj for obj in by_key.values()}
    namespaces = {obj["metadata"]["name"]: obj for obj in objects.get(NAMESPACES, ())}

    def find(_resource: Resource, _namespace: str, name: str) -> Json | None:
        return namespaces.get(name)

    for adapter in adapters.values():
        for job in objects.get(adapter.resource, ()):
            key = object_key(adapter.resource, job)
            workloads = list(index.owned_by(uid_of(job)).values())
            if not workloads and not is_managed(key.namespace, managed, find):
                continue
            try:
                of_job = adapter_of_job(adapter, job, by_key.get)
                if of_job is None:
                    continue
                problem = _gate_problem(job, of_job)
                if not problem and _is_running(job, of_job, adapters, by_uid):
                    problem = _workload_problem(job, of_job, workloads)
                yield from [f"{key}: {problem}"] if problem else []
            except FieldError as error:
                yield f"{key}: {error}"


def _gate_problem(job: Json, adapter: JobAdapter) -> str:
    """Return why the pods of a job cannot start; "": they can."""
    if annotation_of(job, ELASTIC_ANNOTATION) != "true" or is_sliced(adapter, job) or adapter.finished(job) is not None:
        return ""
    specs = (FieldReader(pod_set.template, "", []).child("spec") for pod_set in adapter.pod_sets(job))
    gates = {gate.text("name") for spec in specs for gate in spec.children("schedulingGates")}
    advice = f"only Kueue removes the gate {ELASTIC_GATE} of its pods: let it end, or recreate it"
    return advice if ELASTIC_GATE in gates else ""


def _workload_problem(job: Json, adapter: JobAdapter, workloads: Sequence[Json]) -> str:
    """Return why a running job has no matching Workload among its own; "": it has one."""
    if is_sliced(adapter, job):
        current = find_slices({workload["metadata"]["name"]: workload for workload in workloads}).current
        workloads = [] if current is None else [current[1]]
    if not workloads:
        return "it runs without a Workload"
    if not any(matches(workload, adapter, job) for workload in workloads):
        return f"it runs with a different request than Workload {workloads[0]['metadata']['name']}"
    return f"it has {len(workloads)} Workloads, only one of which would be kept" if len(workloads) > 1 else ""


def _is_running(
    job: Json, adapter: JobAdapter, adapters: Mapping[tuple[str, str], Any], by_uid: Mapping[str, Json]
) -> bool:
    labels = FieldReader(job, "", []).child("metadata").pairs("labels")
    if not labels.get(QUEUE_LABEL) or has_queued_owner(job, adapters, by_uid.get):
        return False
    return adapter.finished(job) is None and not adapter.is_suspended(job)
