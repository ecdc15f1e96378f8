"""The next write for a job and its Workload (pkg/controller/jobframework/reconciler.go ReconcileGenericJob).

    job        its Workload                     next write
    ended      not Finished                     Workload: Finished
    held       pending, does not match          Workload: pod sets and priority
    any        several, or none that matches    delete those that do not match
    held       none, a dependency is fulfilled  job: the annotation that notes it (api/job_dependency.py)
    held       none, and waits for other Jobs   none: a dependency must be fulfilled first
    held       none                             create it
    runs       none that matches                the next write of a stop, without the additions (jobs/injected.py), if
                                                a Workload can be created
    runs       without quota, or evicted        the next write of a stop
    stopped    evicted, with quota              Workload: quota released
    held       Finished                         none: it cannot start (StartConflict)
    held       pending, with other declarations Workload: queueName, walltime, priority, size of an elastic job
    runs       Admitted, of another priority    Workload: priority
    held       Admitted, pods are active        none: its user has only now suspended it
    held       Admitted, without its flavor     none: the job is invalid until the flavor exists
    held       Admitted                         start
    half       Admitted                         the next write of the stop: the quota was lost meanwhile
    stopped
    runs       Admitted                         Workload: PodsReady, reclaimablePods, its placement if it shrinks

A job may name its Workload (workloads/prebuilt.py). That Workload is neither created, replaced nor adapted:

    any        has no controller                Workload: the job becomes its controller
    runs       absent, or does not match        the next write of a stop, without the additions
    held       absent, or of another job        none: the job is invalid until the Workload is free
    held       does not match                   Workload: Finished, reason OutOfSync
    any        matches                          as above

An elastic job may have several Workloads (sliced_job.py). One of them is its Workload in the table above.

If the queue label of a job is removed, the job leaves the queue once it is held: its Workload is then deleted. Until
then it continues in its queue, as Kueue's webhook requires (pkg/controller/jobframework/validation.go).

Everything is derived from the observed objects, so this function keeps no state.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.cluster_cache import object_version, owner_uid, uid_of
from zonewise_scheduler.controller.jobs.batch_job import is_stopping
from zonewise_scheduler.controller.jobs.elastic_job import is_elastic, is_sliced, surplus_pods
from zonewise_scheduler.controller.jobs.injected import (
    INJECTED_ANNOTATION,
    injected_annotation,
    is_injected,
    without_injected,
)
from zonewise_scheduler.controller.jobs.interface import JobPatch, StartConflict
from zonewise_scheduler.controller.jobs.job_deadline import deadline_patch
from zonewise_scheduler.controller.jobs.managed_by import check_managed_by
from zonewise_scheduler.controller.merge_patch import combine_patches
from zonewise_scheduler.controller.reconcile.dependent_jobs import DependencyProgress
from zonewise_scheduler.controller.reconcile.sliced_job import (
    SlicedJob,
    build_first_slice,
    is_growing,
    next_slice_write,
)
from zonewise_scheduler.controller.reconcile.start_infos import MissingFlavor, start_infos
from zonewise_scheduler.controller.reconcile.workload import patch_status, patch_workload, workload_key
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.enforced_walltime import enforced_walltime
from zonewise_scheduler.controller.workloads.equivalence import is_owner, matches
from zonewise_scheduler.controller.workloads.manifest import (
    QUEUE_LABEL,
    ManifestOptions,
    build_workload,
    check_priority_class,
    declared_changes,
)
from zonewise_scheduler.controller.workloads.prebuilt import (
    PREBUILT_WORKLOAD,
    is_of_another_job,
    prebuilt_workload_key,
    take_ownership,
)
from zonewise_scheduler.controller.workloads.queue_annotations import queues_of
from zonewise_scheduler.controller.workloads.shrunk_placement import shrink_placement
from zonewise_scheduler.controller.workloads.slices import find_slices, replaced_slice_key
from zonewise_scheduler.controller.workloads.status import (
    finish,
    finish_for,
    has_quota,
    may_run,
    release_quota,
    reset_pods_ready,
    set_pods_ready,
    set_reclaimable_pods,
)
from zonewise_scheduler.quota.api.job_dependency import FULFILLED_ANNOTATION
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL
from zonewise_scheduler.quota.api.pod_set_manifest import read_pod_set_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import FinishedJob, JobAdapter
    from zonewise_scheduler.controller.types import Json

_REQUIREMENTS = ("podSets", "priority", "priorityClassRef", "maximumExecutionTimeSeconds")
"""Fields of a Workload's spec that state what its job requires."""


class JobState(NamedTuple):
    """A job with the observed objects that concern it."""

    key: ObjectKey
    job: Json
    adapter: JobAdapter
    workloads: Mapping[str, Json]
    """Workloads of the job, by key."""
    active_pods: int = 0
    """Number of observed pods of its Workloads that have not finished."""
    dependencies: DependencyProgress = DependencyProgress()
    """Which of its dependencies are fulfilled."""
    prebuilt: Json | None = None
    """The Workload that the job names; None: it names none, or this Workload does not exist."""
    is_growing: bool = False
    """Whether it has more pods than its Workload covers, which wait behind a gate for a second Workload."""


class JobContext(NamedTuple):
    """The inputs on which the writes of all jobs depend."""

    manifest: ManifestOptions
    flavors: Mapping[str, Json]
    """ResourceFlavors by name."""
    now: float
    find: Callable[[Resource, str, str], Json | None] = lambda _resource, _namespace, _name: None
    """Returns a LocalQueue, ClusterQueue or Namespace by namespace and name."""


def next_job_write(state: JobState, context: JobContext) -> Write | None:
    """Return the next write for a job or its Workload; None: there is nothing to write now.

    Raises FieldError for an invalid job.
    """
    metadata: Json = state.job["metadata"]
    labels: Json = metadata.get("labels") or {}
    if metadata.get("deletionTimestamp"):
        return None
    finished = state.adapter.finished(state.job)
    if not labels.get(QUEUE_LABEL) and (not state.workloads or (finished is None and _is_held(state))):
        return _leave_queue(state)
    if name := prebuilt_workload_key(state.job):
        return _with_prebuilt(state, context, name, finished)
    write = _with_own(state, context, finished)
    if write is None and finished is None:
        for workload in state.workloads.values():
            check_priority_class(labels.get(PRIORITY_CLASS_LABEL, ""), workload, context.manifest)
    return write


def _with_own(state: JobState, context: JobContext, finished: FinishedJob | None) -> Write | None:
    """Return the next write of a job whose Workload is created for it."""
    if is_sliced(state.adapter, state.job):
        return _with_slices(state, context, finished)
    matching, others = _split(state, has_ended=finished is not None)
    if others:
        return _adapt_or_delete(state, context, *others[0], is_only_one=matching is None)
    if matching is None:
        return None if finished is not None else _without_workload(state, context)
    return _with_workload(state, context, *matching, finished)


def _with_slices(state: JobState, context: JobContext, finished: FinishedJob | None) -> Write | None:
    """Return the next write of an elastic job. See sliced_job.py."""
    slices = find_slices(state.workloads)
    unfinished = [each for each in (slices.current, slices.pending, *slices.surplus) if each is not None]
    if finished is not None:
        writes = (_with_workload(state, context, *each, finished) for each in unfinished)
        return next(filter(None, writes), None)
    current = slices.current
    if current is None:
        return _without_workload(state, context)
    if not matches(current[1], state.adapter, state.job):
        return _adapt_or_delete(state, context, *current, is_only_one=True)
    sliced = SlicedJob(state.job, state.adapter.resource, state.adapter.pod_sets(state.job), state.workloads, slices)
    write = next_slice_write(sliced, context.manifest, context.now)
    if write is None and slices.pending is not None:
        write = _follow_job(state, context, *slices.pending)
    return write or _with_workload(state._replace(is_growing=is_growing(sliced)), context, *current, None)


def _is_held(state: JobState) -> bool:
    return state.adapter.is_suspended(state.job) and not state.active_pods and not state.adapter.is_active(state.job)


def _leave_queue(state: JobState) -> Write | None:
    """Restore a job that no longer belongs to a queue, then delete its Workloads."""
    if not state.workloads:
        return None
    key, workload = next(iter(state.workloads.items()))
    if is_injected(state.job):
        stop = state.adapter.next_stop(state.job, read_pod_set_manifests(workload))
        if stop is not None:
            return _job_write(state, stop, key)
    return Write(Verb.DELETE, workload_key(key), "delete the Workload of a job without a queue", uid=uid_of(workload))


def _split(state: JobState, *, has_ended: bool) -> tuple[tuple[str, Json] | None, list[tuple[str, Json]]]:
    """Return the Workload of the job, and the Workloads to delete. An ended job keeps its Workload."""
    workloads = list(state.workloads.items())
    if has_ended:
        return (workloads[0] if workloads else None), workloads[1:]
    matching = [entry for entry in workloads if matches(entry[1], state.adapter, state.job)]
    others = [entry for entry in workloads if entry not in matching[:1]]
    return (matching[0] if matching else None), others


def _may_be_adapted(state: JobState, workload: Json) -> bool:
    """Return whether a Workload that does not match its job can be adapted to it: both are held, without quota.

    The Workload keeps its position in the queue (jobframework/reconciler.go updateWorkloadToMatchJob).
    """
    is_pending = not is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")
    return is_pending and is_owner(workload, state.job) and _is_held(state) and not is_injected(state.job)


def _requirement_changes(state: JobState, context: JobContext) -> Json:
    """Return the merge patch with everything that a job requires of its Workload."""
    pod_sets = state.adapter.pod_sets(state.job)
    spec = build_workload(state.job, state.adapter.resource, pod_sets, context.manifest)["spec"]
    return {"spec": {field: spec.get(field) for field in _REQUIREMENTS}}


def _adapt_or_delete(state: JobState, context: JobContext, key: str, workload: Json, *, is_only_one: bool) -> Write:
    """Return the write for a Workload that does not match its job; `is_only_one`: no other one matches either."""
    if is_only_one and _may_be_adapted(state, workload):
        return patch_workload(workload, key, "follow the job", _requirement_changes(state, context))
    return _delete(key, workload)


def _delete(key: str, workload: Json) -> Write:
    return Write(Verb.DELETE, workload_key(key), "delete a Workload that does not match", uid=uid_of(workload))


def _with_prebuilt(state: JobState, context: JobContext, name: str, finished: FinishedJob | None) -> Write | None:
    """Return the next write of a job that names its Workload. Raises FieldError if this Workload is absent."""
    for key, other in state.workloads.items():
        if key != name:
            return _delete(key, other)
    workload = state.prebuilt
    if workload is None or is_of_another_job(workload, state.job):
        return None if finished is not None else _without_prebuilt(state, name)
    if not owner_uid(workload):
        body = take_ownership(workload, state.job, state.adapter.resource)
        return patch_workload(workload, name, "own the prebuilt Workload", body)
    if finished is None and not matches(workload, state.adapter, state.job, is_prebuilt=True):
        return _out_of_sync(state, context, name, workload)
    return _with_workload(state, context._replace(manifest=ManifestOptions()), name, workload, finished)


def _without_prebuilt(state: JobState, name: str) -> Write | None:
    if _runs_alone(state):
        return _restore(state)
    what = "does not exist" if state.prebuilt is None else "belongs to another job"
    raise FieldError(PREBUILT_WORKLOAD, f"Workload {name} {what}")


def _out_of_sync(state: JobState, context: JobContext, name: str, workload: Json) -> Write | None:
    """Stop a job, then end the Workload that it names but does not match."""
    if _runs_alone(state):
        return _restore(state)
    if not _is_held(state) or is_true(workload, "Finished"):
        return None
    message = "The prebuilt workload is out of sync with its user job"
    return patch_status(workload, name, "finish", finish_for(workload, "OutOfSync", message, context.now))


def _runs_alone(state: JobState) -> bool:
    """Return whether a job without a Workload is not stopped yet."""
    return not state.adapter.is_suspended(state.job) or is_injected(state.job)


def _restore(state: JobState) -> Write | None:
    """Return the next write of a stop without a Workload: the job gets a new one, or continues if it cannot get one."""
    original = without_injected(state.job, state.adapter.pod_sets(state.job))
    write = _job_write(state, state.adapter.next_stop(state.job, original))
    return None if write is None else write._replace(needs=WORKLOADS)


def _without_workload(state: JobState, context: JobContext) -> Write | None:
    if _runs_alone(state):
        return _restore(state)
    if annotation := state.dependencies.annotation:
        body: Json = {"metadata": {"annotations": {FULFILLED_ANNOTATION: annotation}}}
        return _job_write(state, JobPatch("note fulfilled dependencies", body))
    if state.dependencies.waits:
        return None
    check_managed_by(state.job, state.adapter.suspend_path)
    pod_sets = state.adapter.pod_sets(state.job)
    build = build_first_slice if is_sliced(state.adapter, state.job) else build_workload
    workload = build(state.job, state.adapter.resource, pod_sets, context.manifest)
    key = ObjectKey(WORKLOADS, workload["metadata"]["namespace"], workload["metadata"]["name"])
    return Write(Verb.CREATE, key, "create the Workload", workload, workload=key.namespaced_name)


def _with_workload(
    state: JobState, context: JobContext, name: str, workload: Json, finished: FinishedJob | None
) -> Write | None:
    if finished is not None:
        body = None if is_true(workload, "Finished") else finish(workload, finished, context.now)
        return patch_status(workload, name, "finish", body)
    if not may_run(workload) and not _continues(state, workload):
        return _without_admission(state, context, name, workload)
    if state.adapter.is_suspended(state.job):
        return _start(state, context, name, workload)
    if is_stopping(state.job):
        return _job_write(state, state.adapter.next_stop(state.job, read_pod_set_manifests(workload)), name)
    if (follow := _follow_job(state, context, name, workload)) is not None:
        return follow
    ready = None
    if not state.is_growing and may_run(workload):
        ready = set_pods_ready(workload, context.now, ready=state.adapter.pods_ready(state.job))
    reclaimable = set_reclaimable_pods(workload, _reclaimable_pods(state, workload))
    placement = shrink_placement(workload, _pod_counts(state)) if _is_resizable(state) else None
    return patch_status(workload, name, "follow the pods", ready, reclaimable, placement)


def _is_resizable(state: JobState) -> bool:
    return is_elastic(state.adapter, state.job) or is_sliced(state.adapter, state.job)


def _continues(state: JobState, workload: Json) -> bool:
    """Return whether a job that has grown runs on, although the admission checks of its new slice are pending."""
    is_replacement = bool(replaced_slice_key(workload))
    is_held = state.adapter.is_suspended(state.job) or is_stopping(state.job)
    return is_replacement and not is_held and has_quota(workload) and not is_true(workload, "Evicted")


def _without_admission(state: JobState, context: JobContext, name: str, workload: Json) -> Write | None:
    """Stop the job, then release the quota of its Workload."""
    original = read_pod_set_manifests(workload)
    if (stop := state.adapter.next_stop(state.job, original)) is not None:
        return _job_write(state, stop, name)
    if not _is_held(state) or is_true(workload, "Finished"):
        return None
    if is_true(workload, "Evicted") and is_true(workload, "QuotaReserved"):
        released = release_quota(workload, context.now)
        return patch_status(workload, name, "release quota", released, _reset_reclaimable_pods(state, workload))
    reset = patch_status(workload, name, "follow the pods", reset_pods_ready(workload, context.now))
    return _follow_job(state, context, name, workload) if reset is None else reset


def _follow_job(state: JobState, context: JobContext, name: str, workload: Json) -> Write | None:
    """Return the write that adapts the Workload to what its job declares."""
    changes = declared_changes(state.job, state.adapter.resource, workload, context.manifest)
    changes = combine_patches(changes, _resized(state, workload))
    return patch_workload(workload, name, "follow the job", changes) if changes else None


def _resized(state: JobState, workload: Json) -> Json:
    """Return the patch that sets the size of an elastic job on its Workload without quota."""
    if is_true(workload, "QuotaReserved") or not is_elastic(state.adapter, state.job):
        return {}
    pod_sets = state.adapter.pod_sets(state.job)
    if [item.pods for item in pod_sets] == [item.pods for item in read_pod_set_manifests(workload)]:
        return {}
    return {"spec": {"podSets": [pod_set.as_object() for pod_set in pod_sets]}}


def _pod_counts(state: JobState) -> Mapping[str, int]:
    return {pod_set.name: pod_set.pods for pod_set in state.adapter.pod_sets(state.job)}


def _reclaimable_pods(state: JobState, workload: Json) -> Mapping[str, int]:
    if not _is_resizable(state):
        return state.adapter.reclaimable_pods(state.job)
    surplus = surplus_pods(state.adapter, state.job, read_pod_set_manifests(workload))
    return {name: pods for name, pods in surplus.items() if pods > 0}


def _reset_reclaimable_pods(state: JobState, workload: Json) -> Json | None:
    """Return the patch that limits the reclaimable pods of an elastic job to those whose completions are done."""
    if not is_elastic(state.adapter, state.job):
        return None
    return set_reclaimable_pods(workload, state.adapter.reclaimable_pods(state.job))


def _start(state: JobState, context: JobContext, name: str, workload: Json) -> Write | None:
    if (first := state.adapter.before_start(state.job)) is not None:
        return _job_write(state, first, name)
    if state.adapter.is_active(state.job):
        return None
    try:
        infos = start_infos(workload, context.flavors)
        start = state.adapter.start(state.job, infos)
        annotation = injected_annotation(read_pod_set_manifests(workload), infos)
        injected: Json = {"metadata": {"annotations": {INJECTED_ANNOTATION: annotation}}}
        is_job = state.adapter.resource == JOBS
        walltime = enforced_walltime(workload, queues_of(workload, context.find)) if is_job else inf
        deadline = deadline_patch(state.job, walltime)
        return _job_write(state, start._replace(body=combine_patches(start.body, injected, deadline)), name)
    except MissingFlavor:
        raise
    except (StartConflict, FieldError) as error:
        body = finish_for(workload, "FailedToStart", f"the job cannot start: {error}", context.now)
        return patch_status(workload, name, "cannot start", body)


def _job_write(state: JobState, patch: JobPatch | None, workload: str = "") -> Write | None:
    if patch is None:
        return None
    version = str(object_version(state.job) or "")
    return Write(Verb.MERGE_PATCH, state.key, patch.purpose, patch.body, patch.subresource, uid_of(state.job), version,
                 workload)  # fmt: skip
